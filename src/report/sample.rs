//! A small run for the tests of reports.

use crate::event::{GateReport, GateStatus, JobInfo, JobReport, RunEvent, RunEventKind, RunInfo};
use crate::outcome::{Outcome, Reason, Terminal, TerminalReason, Transition};
use crate::units::{Elapsed, JobId, RunId, Tokens, Turns, Usage, Usd};
use std::time::Duration;

pub(crate) fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub(crate) fn info(name: &str) -> JobInfo {
    JobInfo {
        id: id(name),
        file: format!("jobs/{name}.toml"),
        stem: name.into(),
        description: String::new(),
        tags: vec!["nightly".into()],
        model: "claude-x".into(),
        max_turns: Turns(40),
        gates: vec!["tests".into()],
    }
}

pub(crate) fn run(jobs: &[&str]) -> RunInfo {
    RunInfo {
        id: RunId("20261130-235522-3f2a9c".into()),
        started_at: "2026-11-30T23:55:22Z".into(),
        folder: "/repo/.runner/runs/20261130-235522-3f2a9c".into(),
        shown_folder: ".runner/runs/20261130-235522-3f2a9c".into(),
        jobs: jobs.iter().map(|name| info(name)).collect(),
        slots: 2,
        version: "0.1.0".into(),
    }
}

/// With a gate that is red exactly when the reason is `gate_failed`.
pub(crate) fn report(name: &str, reason: Reason) -> JobReport {
    let terminal = Terminal {
        reason: if reason == Reason::MaxTurns { TerminalReason::MaxTurns } else { TerminalReason::Completed },
        message: "the model finished".into(),
        abort: None,
        error: None,
        hook: None,
        budget_exhausted: false,
    };
    let red = reason == Reason::GateFailed;
    let mut report = JobReport {
        info: info(name),
        outcome: Outcome {
            reason,
            message: format!("this is why: {}", reason.code()),
            detail: String::new(),
            terminal: Some(terminal),
        },
        transitions: vec![Transition::NextTurn, Transition::StopHookBlocking],
        turns: Turns(7),
        model_calls: 8,
        retries: 1,
        counts: crate::event::LoopCounts::default(),
        usage: Usage { input: Tokens(1_000), cache_read: Tokens(5_000), cache_write: Tokens(200), output: Tokens(300) },
        cost: Some(Usd::from_dollars(0.0123)),
        started_at: Elapsed::from_millis(100),
        duration: Duration::from_millis(12_300),
        gates: vec![GateReport {
            name: "tests".into(),
            command: "cargo test".into(),
            before: Some(GateStatus::Fail),
            after: Some(if red { GateStatus::Fail } else { GateStatus::Pass }),
            exit_code: Some(if red { 101 } else { 0 }),
            runs: 3,
            flaky: false,
            duration: Duration::from_millis(2_100),
            tail: if red { "running 1 test\n\ntest parse_empty ... FAILED\n".into() } else { "ok\n".into() },
            log: Some(format!("jobs/{name}/tools/gate-tests.log")),
        }],
        protected_changes: Vec::new(),
        base: Some("1111111".into()),
        branch: Some(format!("runner/r/{name}")),
        commit: Some("2222222".into()),
        worktree: None,
        last_words: "All done.".into(),
        attempt: 1,
        attempts: Vec::new(),
    };
    report.attempts.push(report.as_attempt(1));
    report
}

pub(crate) fn finished(name: &str, reason: Reason) -> RunEventKind {
    RunEventKind::JobFinished(Box::new(report(name, reason)))
}

pub(crate) fn turn(turn: u32, input: u64) -> RunEventKind {
    RunEventKind::Turn {
        turn: Turns(turn),
        usage: Usage { input: Tokens(input), ..Usage::default() },
        cost: Usd::from_dollars(0.001),
        request_id: Some("req_1".into()),
        text: "Looking.".into(),
        tools: vec!["Read".into()],
    }
}

/// An event so many milliseconds after the start; an empty name is the run itself.
pub(crate) fn event(millis: u64, job: &str, kind: RunEventKind) -> RunEvent {
    RunEvent { at: Elapsed::from_millis(millis), job: (!job.is_empty()).then(|| id(job)), kind }
}
