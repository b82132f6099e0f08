//! `result.json`: all that is known about a job when it has ended.

use super::value::{self, SCHEMA, UsageValue};
use crate::event::{AttemptReport, GateReport, GateStatus, JobReport, LoopCounts};
use crate::outcome::{AbortReason, Fault, HookEvidence, ModelError, Transition};
use crate::query::Layer;
use crate::report::cut;
use crate::units::RunId;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct ResultFile<'a> {
    schema: u32,
    job: &'a str,
    verdict: &'a str,
    reason: &'a str,
    fault: Option<&'a str>,
    terminal: Option<&'a str>,
    abort_reason: Option<&'a str>,
    message: String,
    transitions: Vec<&'a str>,
    turns: u32,
    model_calls: u32,
    model: &'a str,
    usage: UsageValue,
    cost_usd: Option<f64>,
    duration_s: f64,
    gates: Vec<GateValue<'a>>,
    protected_changes: &'a [String],
    base: Option<&'a str>,
    branch: Option<&'a str>,
    commit: Option<&'a str>,
    worktree: Option<String>,
    attempt: u32,
    attempts: Vec<AttemptValue<'a>>,
    run: &'a str,
    file: &'a str,
    stem: &'a str,
    description: &'a str,
    tags: &'a [String],
    max_turns: u32,
    retries: u32,
    loop_counts: CountsValue,
    started_at_s: f64,
    budget_exhausted: bool,
    error: Option<ErrorValue<'a>>,
    detail: &'a str,
    last_words: &'a str,
    terminal_message: Option<&'a str>,
    hook: Option<HookValue<'a>>,
}

#[derive(Serialize)]
struct HookValue<'a> {
    kind: &'a str,
    name: &'a str,
    tail: &'a str,
    broken: bool,
}

#[derive(Serialize)]
struct GateValue<'a> {
    name: &'a str,
    before: Option<&'a str>,
    after: Option<&'a str>,
    exit_code: Option<i32>,
    runs: u32,
    command: &'a str,
    flaky: bool,
    duration_s: f64,
    log: Option<&'a str>,
    tail: &'a str,
}

#[derive(Serialize)]
struct CountsValue {
    layers: BTreeMap<&'static str, u32>,
    compact_failures: u32,
    fallbacks: u32,
    tombstones: u32,
    subagents: u32,
}

#[derive(Serialize)]
struct AttemptValue<'a> {
    reason: &'a str,
    attempt: u32,
    verdict: &'a str,
    message: String,
    detail: &'a str,
    turns: u32,
    model_calls: u32,
    usage: UsageValue,
    cost_usd: Option<f64>,
    started_at_s: f64,
    duration_s: f64,
    branch: Option<&'a str>,
    worktree: Option<String>,
}

#[derive(Serialize)]
struct ErrorValue<'a> {
    code: &'a str,
    message: &'a str,
    request_id: Option<&'a str>,
    status: Option<u16>,
}

/// The text of a job's `result.json`.
#[must_use]
pub fn result_file(run: &RunId, report: &JobReport) -> String {
    let outcome = &report.outcome;
    let terminal = outcome.terminal.as_ref();
    value::file(&ResultFile {
        schema: SCHEMA,
        job: report.info.id.as_str(),
        verdict: outcome.verdict().code(),
        reason: outcome.reason.code(),
        fault: outcome.fault().map(Fault::code),
        terminal: terminal.map(|terminal| terminal.reason.code()),
        abort_reason: terminal.and_then(|terminal| terminal.abort).map(AbortReason::code),
        message: cut::one_line(&outcome.message, 2_000),
        transitions: report.transitions.iter().map(|transition| Transition::code(*transition)).collect(),
        turns: report.turns.0,
        model_calls: report.model_calls,
        model: &report.info.model,
        usage: (&report.usage).into(),
        cost_usd: value::dollars(report.cost),
        duration_s: value::seconds(report.duration),
        gates: report.gates.iter().map(gate).collect(),
        protected_changes: &report.protected_changes,
        base: report.base.as_deref(),
        branch: report.branch.as_deref(),
        commit: report.commit.as_deref(),
        worktree: report.worktree.as_ref().map(|path| path.display().to_string()),
        attempt: report.attempt,
        attempts: report.attempts.iter().map(attempt).collect(),
        run: &run.0,
        file: &report.info.file,
        stem: &report.info.stem,
        description: &report.info.description,
        tags: &report.info.tags,
        max_turns: report.info.max_turns.0,
        retries: report.retries,
        loop_counts: counts(&report.counts),
        started_at_s: value::at(report.started_at),
        budget_exhausted: terminal.is_some_and(|terminal| terminal.budget_exhausted),
        error: terminal.and_then(|terminal| terminal.error.as_ref()).map(error),
        detail: &outcome.detail,
        last_words: &report.last_words,
        terminal_message: terminal.map(|terminal| terminal.message.as_str()),
        hook: terminal.and_then(|terminal| terminal.hook.as_ref()).map(hook),
    })
}

fn attempt(attempt: &AttemptReport) -> AttemptValue<'_> {
    AttemptValue {
        reason: attempt.outcome.reason.code(),
        attempt: attempt.number,
        verdict: attempt.outcome.verdict().code(),
        message: cut::one_line(&attempt.outcome.message, 2_000),
        detail: &attempt.outcome.detail,
        turns: attempt.turns.0,
        model_calls: attempt.model_calls,
        usage: (&attempt.usage).into(),
        cost_usd: value::dollars(attempt.cost),
        started_at_s: value::at(attempt.started_at),
        duration_s: value::seconds(attempt.duration),
        branch: attempt.branch.as_deref(),
        worktree: attempt.worktree.as_ref().map(|path| path.display().to_string()),
    }
}

/// Every layer is named, also one that never acted: zero is an answer.
fn counts(counts: &LoopCounts) -> CountsValue {
    let layer = |layer: &Layer| (layer.code(), counts.layers.get(layer.code()).copied().unwrap_or_default());
    CountsValue {
        layers: Layer::ALL.iter().map(layer).collect(),
        compact_failures: counts.compact_failures,
        fallbacks: counts.fallbacks,
        tombstones: counts.tombstones,
        subagents: counts.subagents,
    }
}

fn gate(gate: &GateReport) -> GateValue<'_> {
    GateValue {
        name: &gate.name,
        before: gate.before.map(GateStatus::code),
        after: gate.after.map(GateStatus::code),
        exit_code: gate.exit_code,
        runs: gate.runs,
        command: &gate.command,
        flaky: gate.flaky,
        duration_s: value::seconds(gate.duration),
        log: gate.log.as_deref(),
        tail: &gate.tail,
    }
}

fn hook(hook: &HookEvidence) -> HookValue<'_> {
    HookValue { kind: hook.kind.code(), name: &hook.name, tail: &hook.tail, broken: hook.broken }
}

fn error(error: &ModelError) -> ErrorValue<'_> {
    ErrorValue {
        code: error.kind.code(),
        message: &error.message,
        request_id: error.request_id.as_deref(),
        status: error.status,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;
    use crate::outcome::{ModelErrorKind, Outcome, Reason, Terminal, TerminalReason};
    use serde_json::{Value, json};

    fn parsed(report: &JobReport) -> Value {
        serde_json::from_str(&result_file(&RunId("r1".into()), report)).unwrap()
    }

    #[test]
    fn every_key_of_the_contract_is_there() {
        let value = parsed(&sample::report("fix", Reason::Completed));
        let expected = json!({
            "schema": 1, "job": "fix", "verdict": "passed", "reason": "completed", "fault": null,
            "terminal": "completed", "abort_reason": null, "message": "this is why: completed",
            "transitions": ["next_turn", "stop_hook_blocking"],
            "turns": 7, "model_calls": 8, "model": "claude-x",
            "usage": { "input_tokens": 1000, "cache_read_tokens": 5000, "cache_write_tokens": 200, "output_tokens": 300 },
            "cost_usd": 0.0123, "duration_s": 12.3,
            "protected_changes": [], "base": "1111111", "branch": "runner/r/fix", "commit": "2222222", "worktree": null,
            "attempt": 1
        });
        for (key, wanted) in expected.as_object().unwrap() {
            assert_eq!(value.get(key), Some(wanted), "{key}");
        }
        assert_eq!(value["attempts"][0]["reason"], "completed");
        let gate = &value["gates"][0];
        for (key, wanted) in json!({ "name": "tests", "before": "fail", "after": "pass", "exit_code": 0, "runs": 3 })
            .as_object()
            .unwrap()
        {
            assert_eq!(gate.get(key), Some(wanted), "{key}");
        }
    }

    #[test]
    fn an_error_carries_its_evidence() {
        let mut report = sample::report("fix", Reason::Auth);
        report.cost = None;
        report.outcome.message = "401\nno key\x1b[0m".into();
        report.outcome.terminal = Some(Terminal {
            reason: TerminalReason::ModelError,
            message: "refused".into(),
            abort: None,
            error: Some(ModelError {
                kind: ModelErrorKind::Auth,
                message: "invalid x-api-key".into(),
                request_id: Some("req_9".into()),
                status: Some(401),
            }),
            hook: None,
            budget_exhausted: false,
        });
        let value = parsed(&report);
        assert_eq!(value["verdict"], "error");
        assert_eq!(value["fault"], "user");
        assert_eq!(value["message"], "401 no key");
        assert_eq!(value["cost_usd"], Value::Null);
        assert_eq!(
            value["error"],
            json!({ "code": "auth", "message": "invalid x-api-key", "request_id": "req_9", "status": 401 })
        );
    }

    #[test]
    fn a_job_that_never_ran_has_no_terminal() {
        let mut report = sample::report("fix", Reason::FailFast);
        report.outcome = Outcome::without_loop(Reason::FailFast, "another job failed");
        let value = parsed(&report);
        assert_eq!(value["terminal"], Value::Null);
        assert_eq!(value["verdict"], "skipped");
    }
}
