//! Cases of one job: its own, and one for each of its gates.

use super::body;
use crate::event::{GateReport, GateStatus, JobInfo, JobReport};
use crate::outcome::{AbortReason, Fault, Reason, Verdict};
use crate::report::cut;
use crate::report::json::SCHEMA;
use junit_report::{TestCase, TestResult};
use std::time::Duration;

/// The longest `message`, in bytes: readers show it as a headline.
const MESSAGE_MAX: usize = 1_000;
/// The longest name or property, in bytes.
const VALUE_MAX: usize = 1_000;
/// Even one of very many gates gets so many bytes.
const BODY_LEAST: usize = 1_000;
/// The share of the model's last words, beside a body.
const WORDS_SHARE: usize = 4;

/// A case, and what `junit-report` has no place for.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The case; all its strings are clean and bounded.
    pub(super) test: TestCase,
    /// Its properties, clean and bounded.
    pub(super) properties: Vec<(&'static str, String)>,
    /// Why it is flaky; `None` where it is not.
    pub(super) flaky: Option<&'static str>,
}

/// All cases of a job that has ended. `folder` is the run's, as shown. The job's body takes at most `body_limit`
/// bytes, those of its gates the same together.
pub(super) fn of(folder: &str, report: &JobReport, body_limit: usize) -> Vec<Case> {
    let gate_limit = (body_limit / report.gates.len().max(1)).max(BODY_LEAST);
    let gates = report.gates.iter().map(|gate| of_gate(folder, &report.info, gate, gate_limit));
    std::iter::once(of_job(folder, report, body_limit)).chain(gates).collect()
}

/// The case of a job that has not ended yet.
pub(super) fn not_finished(job: &JobInfo) -> Case {
    let message = "the job had not ended when this report was written";
    let result = TestResult::Error { type_: "not_finished".into(), message: message.into(), cause: None };
    Case {
        test: test_case(job, job.id.as_str(), class(job), Duration::ZERO, result),
        properties: Vec::new(),
        flaky: None,
    }
}

fn of_job(folder: &str, report: &JobReport, body_limit: usize) -> Case {
    let outcome = &report.outcome;
    let (type_, message) = (outcome.reason.code().to_owned(), cut::first_line(&outcome.message, MESSAGE_MAX));
    let cause = || Some(body::of_job(folder, report, body_limit));
    let result = match outcome.verdict() {
        Verdict::Passed => TestResult::Success,
        Verdict::Failed => TestResult::Failure { type_, message, cause: cause() },
        Verdict::Error | Verdict::Cancelled => TestResult::Error { type_, message, cause: cause() },
        Verdict::Skipped => TestResult::SkippedWithCause { type_, message, cause: None },
    };
    let mut test = test_case(&report.info, report.info.id.as_str(), class(&report.info), report.duration, result);
    if !report.last_words.trim().is_empty() {
        test.system_out = Some(body::text(&report.last_words, body_limit / WORDS_SHARE));
    }
    Case { test, properties: job_properties(report), flaky: None }
}

fn of_gate(folder: &str, job: &JobInfo, gate: &GateReport, body_limit: usize) -> Case {
    let exit = gate.exit_code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
    let cause = || Some(body::of_gate(folder, job, gate, body_limit));
    let result = match gate.after {
        Some(GateStatus::Pass) => TestResult::Success,
        Some(GateStatus::Fail) => TestResult::Failure {
            type_: Reason::GateFailed.code().into(),
            message: format!("red on the final tree{exit}"),
            cause: cause(),
        },
        Some(GateStatus::Error) => TestResult::Error {
            type_: Reason::GateError.code().into(),
            message: format!("could not be run to its end{exit}"),
            cause: cause(),
        },
        None => TestResult::SkippedWithCause {
            type_: "not_judged".into(),
            message: "never run on the final tree".into(),
            cause: None,
        },
    };
    let class = format!("{}.{}", class(job), job.id);
    let flaky = (gate.flaky && gate.after == Some(GateStatus::Pass)).then_some("red, then green on the same tree");
    Case { test: test_case(job, &gate.name, class, gate.duration, result), properties: gate_properties(gate), flaky }
}

fn test_case(job: &JobInfo, name: &str, class: String, time: Duration, result: TestResult) -> TestCase {
    TestCase {
        name: value(name),
        time: junit_report::Duration::milliseconds(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)),
        result,
        classname: Some(class),
        filepath: Some(value(&job.file)),
        system_out: None,
        system_err: None,
    }
}

fn class(job: &JobInfo) -> String {
    value(if job.stem.trim().is_empty() { "jobs" } else { &job.stem })
}

fn job_properties(report: &JobReport) -> Vec<(&'static str, String)> {
    let outcome = &report.outcome;
    let terminal = outcome.terminal.as_ref();
    let usage = &report.usage;
    let transitions: Vec<&str> = report.transitions.iter().map(|transition| transition.code()).collect();
    let all = [
        ("schema", Some(SCHEMA.to_string())),
        ("verdict", Some(outcome.verdict().code().to_owned())),
        ("reason", Some(outcome.reason.code().to_owned())),
        ("fault", outcome.fault().map(Fault::code).map(str::to_owned)),
        ("terminal", terminal.map(|terminal| terminal.reason.code().to_owned())),
        ("abort_reason", terminal.and_then(|terminal| terminal.abort).map(AbortReason::code).map(str::to_owned)),
        ("description", Some(report.info.description.clone())),
        ("model", Some(report.info.model.clone())),
        ("turns", Some(report.turns.to_string())),
        ("max_turns", Some(report.info.max_turns.to_string())),
        ("model_calls", Some(report.model_calls.to_string())),
        ("retries", Some(report.retries.to_string())),
        ("transitions", Some(transitions.join(" "))),
        ("tokens", Some(report.counted_tokens().0.to_string())),
        ("input_tokens", Some(usage.input.0.to_string())),
        ("cache_read_tokens", Some(usage.cache_read.0.to_string())),
        ("cache_write_tokens", Some(usage.cache_write.0.to_string())),
        ("output_tokens", Some(usage.output.0.to_string())),
        ("cost_usd", report.cost.map(|cost| format!("{:.6}", cost.dollars()))),
        ("base", report.base.clone()),
        ("branch", report.branch.clone()),
        ("commit", report.commit.clone()),
        ("worktree", report.worktree.as_ref().map(|path| path.display().to_string())),
        ("protected_changes", Some(report.protected_changes.join(" "))),
    ];
    present(all)
}

fn gate_properties(gate: &GateReport) -> Vec<(&'static str, String)> {
    present([
        ("command", Some(gate.command.clone())),
        ("before", gate.before.map(|status| status.code().to_owned())),
        ("after", gate.after.map(|status| status.code().to_owned())),
        ("exit_code", gate.exit_code.map(|code| code.to_string())),
        ("runs", Some(gate.runs.to_string())),
        ("flaky", gate.flaky.then(|| "true".to_owned())),
        ("log", gate.log.clone()),
    ])
}

/// What has a value, on one line each: a newline in an attribute reaches no reader as it was.
fn present(all: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Vec<(&'static str, String)> {
    all.into_iter()
        .filter_map(|(name, text)| text.map(|text| (name, cut::one_line(&text, VALUE_MAX))))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// A name, never empty.
fn value(text: &str) -> String {
    let line = cut::one_line(text, VALUE_MAX);
    if line.is_empty() { "-".into() } else { line }
}
