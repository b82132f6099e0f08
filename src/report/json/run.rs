//! `run.json`: the plan, versions, settings and the end of a run.

use super::value::{self, SCHEMA, UsageValue};
use crate::report::tally::{JobState, JobStats, RunStats};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct RunFile<'a> {
    schema: u32,
    run: &'a str,
    version: &'a str,
    started_at: &'a str,
    /// `null` while the run goes on: a run that was killed has no exit code either.
    exit_code: Option<u8>,
    duration_s: f64,
    slots: usize,
    settings: &'a BTreeMap<String, String>,
    counts: Counts,
    turns: u32,
    model_calls: u32,
    retries: u32,
    usage: UsageValue,
    cost_usd: f64,
    unpriced_jobs: usize,
    jobs: Vec<JobValue<'a>>,
    warnings: Vec<WarningValue<'a>>,
    plan: &'a serde_json::Value,
}

#[derive(Serialize)]
struct Counts {
    jobs: usize,
    passed: usize,
    failed: usize,
    error: usize,
    skipped: usize,
    cancelled: usize,
    unfinished: usize,
}

#[derive(Serialize)]
struct JobValue<'a> {
    job: &'a str,
    file: &'a str,
    stem: &'a str,
    description: &'a str,
    tags: &'a [String],
    model: &'a str,
    max_turns: u32,
    gates: &'a [String],
    verdict: Option<&'a str>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct WarningValue<'a> {
    job: Option<&'a str>,
    text: &'a str,
}

/// The text of `run.json`. `settings` is what the run was told, by name, for readers; `plan` is what is needed to go on with it.
#[must_use]
pub fn run_file(stats: &RunStats, settings: &BTreeMap<String, String>, plan: &serde_json::Value) -> String {
    let totals = stats.totals();
    value::file(&RunFile {
        schema: SCHEMA,
        run: &stats.run.id.0,
        version: &stats.run.version,
        started_at: &stats.run.started_at,
        exit_code: stats.exit.map(crate::exit::ExitStatus::code),
        duration_s: value::at(stats.now),
        slots: stats.run.slots,
        settings,
        counts: Counts {
            jobs: totals.jobs,
            passed: totals.passed,
            failed: totals.failed,
            error: totals.errors,
            skipped: totals.skipped,
            cancelled: totals.cancelled,
            unfinished: totals.running + totals.waiting,
        },
        turns: totals.turns.0,
        model_calls: totals.model_calls,
        retries: totals.retries,
        usage: (&totals.usage).into(),
        cost_usd: totals.cost.dollars(),
        unpriced_jobs: totals.unpriced,
        jobs: stats.jobs.iter().map(job).collect(),
        warnings: stats
            .warnings
            .iter()
            .map(|warning| WarningValue {
                job: warning.job.as_ref().map(crate::units::JobId::as_str),
                text: &warning.text,
            })
            .collect(),
        plan,
    })
}

fn job(stats: &JobStats) -> JobValue<'_> {
    let outcome = match &stats.state {
        JobState::Ended(report) => Some(&report.outcome),
        JobState::Waiting | JobState::Running => None,
    };
    JobValue {
        job: stats.info.id.as_str(),
        file: &stats.info.file,
        stem: &stats.info.stem,
        description: &stats.info.description,
        tags: &stats.info.tags,
        model: &stats.info.model,
        max_turns: stats.info.max_turns.0,
        gates: &stats.info.gates,
        verdict: outcome.map(|outcome| outcome.verdict().code()),
        reason: outcome.map(|outcome| outcome.reason.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;
    use crate::event::RunEventKind;
    use crate::exit::ExitStatus;
    use crate::outcome::Reason;
    use serde_json::{Value, json};

    fn parsed(stats: &RunStats) -> Value {
        let settings = BTreeMap::from([("jobs".to_owned(), "2".to_owned())]);
        serde_json::from_str(&run_file(stats, &settings, &Value::Null)).unwrap()
    }

    #[test]
    fn an_unfinished_run_has_no_exit_code() {
        let mut stats = RunStats::new(sample::run(&["a", "b"]));
        stats.apply(&sample::event(10, "a", sample::finished("a", Reason::GateFailed)));
        stats.apply(&sample::event(11, "b", RunEventKind::JobStarted));
        let value = parsed(&stats);
        assert_eq!(value["exit_code"], Value::Null);
        assert_eq!(value["counts"]["failed"], 1);
        assert_eq!(value["counts"]["unfinished"], 1);
        assert_eq!(value["jobs"][0]["reason"], "gate_failed");
        assert_eq!(value["jobs"][1]["verdict"], Value::Null);
    }

    #[test]
    fn a_finished_run_says_how_it_ended() {
        let mut stats = RunStats::new(sample::run(&["a"]));
        stats.apply(&sample::event(10, "a", sample::finished("a", Reason::Completed)));
        stats.apply(&sample::event(20, "", RunEventKind::Warning("low disk".into())));
        stats.apply(&sample::event(2_500, "", RunEventKind::RunFinished { exit: ExitStatus::Passed }));
        let value = parsed(&stats);
        assert_eq!(value["exit_code"], 0);
        assert_eq!(value["duration_s"], 2.5);
        assert_eq!(value["settings"], json!({ "jobs": "2" }));
        assert_eq!(value["warnings"], json!([{ "job": null, "text": "low disk" }]));
        assert_eq!(value["cost_usd"], 0.0123);
    }
}
