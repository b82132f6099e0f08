//! `result.json` back to a [`JobReport`].

use super::codes::{by_code, maybe, schema};
use crate::event::{AttemptReport, GateReport, GateStatus, JobInfo, JobReport, LoopCounts};
use crate::outcome::{HookEvidence, ModelError, Outcome, Reason, Terminal, Transition};
use crate::query::Layer;
use crate::report::json::value::UsageValue;
use crate::units::{Elapsed, JobId, Turns, Usd};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Deserialize)]
struct ResultFile {
    schema: u32,
    job: String,
    reason: String,
    terminal: Option<String>,
    abort_reason: Option<String>,
    message: String,
    transitions: Vec<String>,
    turns: u32,
    model_calls: u32,
    model: String,
    usage: UsageValue,
    cost_usd: Option<f64>,
    duration_s: f64,
    gates: Vec<GateValue>,
    protected_changes: Vec<String>,
    base: Option<String>,
    branch: Option<String>,
    commit: Option<String>,
    worktree: Option<PathBuf>,
    attempt: u32,
    attempts: Vec<AttemptValue>,
    file: String,
    stem: String,
    description: String,
    #[serde(default)]
    tags: Vec<String>,
    max_turns: u32,
    retries: u32,
    loop_counts: CountsValue,
    started_at_s: f64,
    budget_exhausted: bool,
    error: Option<ErrorValue>,
    detail: String,
    last_words: String,
    #[serde(default)]
    terminal_message: Option<String>,
    #[serde(default)]
    hook: Option<HookValue>,
}

#[derive(Deserialize)]
struct GateValue {
    name: String,
    before: Option<String>,
    after: Option<String>,
    exit_code: Option<i32>,
    runs: u32,
    command: String,
    flaky: bool,
    duration_s: f64,
    log: Option<String>,
    tail: String,
}

#[derive(Deserialize)]
struct CountsValue {
    layers: BTreeMap<String, u32>,
    compact_failures: u32,
    fallbacks: u32,
    tombstones: u32,
    subagents: u32,
}

#[derive(Deserialize)]
struct AttemptValue {
    reason: String,
    attempt: u32,
    message: String,
    #[serde(default)]
    detail: String,
    turns: u32,
    model_calls: u32,
    usage: UsageValue,
    cost_usd: Option<f64>,
    started_at_s: f64,
    duration_s: f64,
    branch: Option<String>,
    worktree: Option<PathBuf>,
}

#[derive(Deserialize)]
struct ErrorValue {
    code: String,
    message: String,
    request_id: Option<String>,
    status: Option<u16>,
}

#[derive(Deserialize)]
struct HookValue {
    kind: String,
    name: String,
    tail: String,
    broken: bool,
}

/// Reads the text of a `result.json`.
///
/// # Errors
/// Says in words what is wrong with it.
pub fn job_report(text: &str) -> Result<JobReport, String> {
    let file: ResultFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    schema(file.schema)?;
    let reason: Reason = by_code(&file.reason)?;
    let terminal = terminal(&file)?;
    let outcome = Outcome { reason, message: file.message, detail: file.detail, terminal };
    let decided = file.attempt;
    let attempts: Result<_, String> = file.attempts.into_iter().map(|one| attempt(one, decided, &outcome)).collect();
    Ok(JobReport {
        info: JobInfo {
            id: JobId::new(&file.job)?,
            file: file.file,
            stem: file.stem,
            description: file.description,
            tags: file.tags,
            model: file.model,
            max_turns: Turns(file.max_turns),
            gates: file.gates.iter().map(|gate| gate.name.clone()).collect(),
        },
        transitions: file.transitions.iter().map(|code| by_code(code)).collect::<Result<Vec<Transition>, _>>()?,
        turns: Turns(file.turns),
        model_calls: file.model_calls,
        retries: file.retries,
        counts: counts(&file.loop_counts),
        usage: file.usage.into(),
        cost: file.cost_usd.map(Usd::from_dollars),
        started_at: moment(file.started_at_s),
        duration: seconds(file.duration_s),
        gates: file.gates.into_iter().map(gate).collect::<Result<_, _>>()?,
        protected_changes: file.protected_changes,
        base: file.base,
        branch: file.branch,
        commit: file.commit,
        worktree: file.worktree,
        last_words: file.last_words,
        attempt: decided,
        attempts: attempts?,
        outcome,
    })
}

fn terminal(file: &ResultFile) -> Result<Option<Terminal>, String> {
    let Some(code) = &file.terminal else { return Ok(None) };
    let error = file.error.as_ref().map(|error| {
        Ok::<_, String>(ModelError {
            kind: by_code(&error.code)?,
            message: error.message.clone(),
            request_id: error.request_id.clone(),
            status: error.status,
        })
    });
    let hook = file.hook.as_ref().map(|hook| {
        Ok::<_, String>(HookEvidence {
            kind: by_code(&hook.kind)?,
            name: hook.name.clone(),
            tail: hook.tail.clone(),
            broken: hook.broken,
        })
    });
    Ok(Some(Terminal {
        reason: by_code(code)?,
        message: file.terminal_message.clone().unwrap_or_default(),
        abort: maybe(file.abort_reason.as_deref())?,
        error: error.transpose()?,
        hook: hook.transpose()?,
        budget_exhausted: file.budget_exhausted,
    }))
}

/// The attempt that decided carries the job's own outcome, unless the job's says more (`completed_flaky`).
fn attempt(value: AttemptValue, decided: u32, of_job: &Outcome) -> Result<AttemptReport, String> {
    let reason: Reason = by_code(&value.reason)?;
    let terminal = of_job.terminal.clone().filter(|_| value.attempt == decided);
    Ok(AttemptReport {
        number: value.attempt,
        outcome: Outcome { reason, message: value.message, detail: value.detail, terminal },
        turns: Turns(value.turns),
        model_calls: value.model_calls,
        usage: value.usage.into(),
        cost: value.cost_usd.map(Usd::from_dollars),
        started_at: moment(value.started_at_s),
        duration: seconds(value.duration_s),
        branch: value.branch,
        worktree: value.worktree,
    })
}

fn gate(value: GateValue) -> Result<GateReport, String> {
    let status = |code: Option<&str>| maybe::<GateStatus>(code);
    Ok(GateReport {
        before: status(value.before.as_deref())?,
        after: status(value.after.as_deref())?,
        name: value.name,
        command: value.command,
        exit_code: value.exit_code,
        runs: value.runs,
        flaky: value.flaky,
        duration: seconds(value.duration_s),
        tail: value.tail,
        log: value.log,
    })
}

fn counts(value: &CountsValue) -> LoopCounts {
    let layers = Layer::ALL.iter().map(|layer| layer.code());
    let layers = layers.filter_map(|code| Some((code, value.layers.get(code).copied().filter(|count| *count > 0)?)));
    LoopCounts {
        layers: layers.collect(),
        compact_failures: value.compact_failures,
        fallbacks: value.fallbacks,
        tombstones: value.tombstones,
        subagents: value.subagents,
    }
}

pub(super) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value)
        .map_or(Duration::ZERO, |span| Duration::from_millis((span.as_secs_f64() * 1e3).round() as u64))
}

pub(super) fn moment(value: f64) -> Elapsed {
    Elapsed(seconds(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{AbortReason, HookKind, ModelErrorKind, TerminalReason};
    use crate::report::json::result_file;
    use crate::report::sample;
    use crate::units::RunId;

    fn there_and_back(report: &JobReport) {
        let text = result_file(&RunId("r".into()), report);
        assert_eq!(&job_report(&text).unwrap(), report);
    }

    #[test]
    fn every_reason_comes_back_as_it_was_written() {
        for reason in Reason::ALL {
            there_and_back(&sample::report("fix", *reason));
        }
    }

    #[test]
    fn everything_that_can_be_told_comes_back() {
        let mut report = sample::report("fix", Reason::Auth);
        report.counts.layers.insert("snip", 3);
        report.counts.subagents = 2;
        report.protected_changes = vec!["tests/a b.rs".into()];
        report.worktree = Some("/w/x".into());
        report.cost = None;
        report.outcome.detail = "two\nlines \u{1f600}".into();
        report.outcome.terminal = Some(Terminal {
            reason: TerminalReason::ModelError,
            message: "refused".into(),
            abort: Some(AbortReason::CostLimit),
            error: Some(ModelError {
                kind: ModelErrorKind::Auth,
                message: "invalid".into(),
                request_id: Some("req".into()),
                status: Some(401),
            }),
            hook: Some(HookEvidence { kind: HookKind::Stop, name: "h".into(), tail: "no".into(), broken: true }),
            budget_exhausted: true,
        });
        report.attempts = vec![report.as_attempt(1), report.as_attempt(2)];
        report.attempts[0].outcome = Outcome::without_loop(Reason::SetupFailed, "no").with_detail("tail");
        report.attempt = 2;
        there_and_back(&report);
    }

    #[test]
    fn what_is_not_a_result_is_refused_in_words() {
        let text = result_file(&RunId("r".into()), &sample::report("fix", Reason::Completed));
        for (from, to, why) in [
            ("\"schema\": 1", "\"schema\": 99", "schema 99"),
            ("\"completed\"", "\"well_done\"", "unknown reason \"well_done\""),
            ("\"job\": \"fix\"", "\"job\": \"../x\"", "name"),
            ("\"turns\"", "\"spins\"", "missing field `turns`"),
        ] {
            let error = job_report(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(job_report(&text[..text.len() / 2]).is_err());
    }
}
