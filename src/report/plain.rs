//! One plain line for an event that matters, for logs and pipes. It says what happened, never what a tool printed or a
//! file holds: logs of CI systems are often public.

use super::cut;
use super::paint::Paint;
use super::tally::{JobStats, RunStats};
use crate::event::{GateMoment, GateStatus, JobReport, LoopEvent, RunEvent, RunEventKind, RunInfo};
use crate::exit::ExitStatus;
use crate::outcome::{Transition, Verdict};
use crate::units::{Elapsed, show_duration};
use std::time::Duration;

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Warnings, and jobs that did not pass.
    Quiet,
    /// Notes, and the ends of all jobs: what scrolls away above the live screen.
    Milestones,
    /// What changes the state of a job.
    #[default]
    Normal,
    /// Turns, tool calls and phases too.
    Verbose,
}

/// How long nothing may be said while jobs run. CI systems take ten minutes of silence for a hang; a person, less.
pub const HEARTBEAT: Duration = Duration::from_secs(30);

/// The longest message within a line, in bytes.
const MESSAGE_MAX: usize = 400;
/// How many running jobs a heartbeat names.
const HEARTBEAT_JOBS: usize = 6;

/// The line for an event, without its newline; `None` where it does not matter at this level of detail.
#[must_use]
pub fn line(event: &RunEvent, detail: Detail, paint: Paint) -> Option<String> {
    let text = match detail {
        Detail::Quiet => quiet(&event.kind, paint)?,
        Detail::Milestones => milestone(&event.kind, paint)?,
        Detail::Normal => normal(&event.kind, paint)?,
        Detail::Verbose => normal(&event.kind, paint).or_else(|| verbose(&event.kind))?,
    };
    Some(stamped(event.at, event.job.as_ref().map_or("run", |job| job.as_str()), &text))
}

/// The line that says what runs, when nothing else was said for [`HEARTBEAT`]; `None` where nothing runs.
#[must_use]
pub fn heartbeat(stats: &RunStats, now: Elapsed) -> Option<String> {
    let mut named: Vec<String> = stats.running().take(HEARTBEAT_JOBS).map(|job| running(job, now)).collect();
    let more = stats.running().count().saturating_sub(HEARTBEAT_JOBS);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    (!named.is_empty()).then(|| stamped(now, "run", &format!("still running: {}", named.join(", "))))
}

fn running(job: &JobStats, now: Elapsed) -> String {
    let live = &job.live;
    let doing = cut::one_line(&live.doing, 60);
    let turns = format!("turn {}/{}", live.turns, job.info.max_turns);
    format!("{} ({turns}, {doing}, {})", job.info.id, show_duration(now.since(live.since)))
}

fn stamped(at: Elapsed, who: &str, text: &str) -> String {
    format!("{at:>7} {who}: {text}")
}

fn milestone(kind: &RunEventKind, paint: Paint) -> Option<String> {
    match kind {
        RunEventKind::JobFinished(report) => Some(finished(report, paint)),
        RunEventKind::Note(text) => Some(message(text)),
        RunEventKind::RunStarted(_)
        | RunEventKind::JobStarted
        | RunEventKind::Phase(_)
        | RunEventKind::ModelCalled { .. }
        | RunEventKind::Retrying { .. }
        | RunEventKind::Turn { .. }
        | RunEventKind::Progress(_)
        | RunEventKind::ToolStarted { .. }
        | RunEventKind::ToolFinished { .. }
        | RunEventKind::GateStarted { .. }
        | RunEventKind::GateFinished { .. }
        | RunEventKind::Continued(_)
        | RunEventKind::InputStarted(_)
        | RunEventKind::InputCompleted(_)
        | RunEventKind::Loop(_)
        | RunEventKind::Warning(_)
        | RunEventKind::Interrupted(_)
        | RunEventKind::RunFinished { .. } => quiet(kind, paint),
    }
}

fn quiet(kind: &RunEventKind, paint: Paint) -> Option<String> {
    match kind {
        RunEventKind::JobFinished(report) if report.outcome.verdict() != Verdict::Passed => {
            Some(finished(report, paint))
        }
        RunEventKind::Warning(text) => Some(format!("warning: {}", message(text))),
        RunEventKind::Interrupted(status) => Some(interrupted(*status)),
        RunEventKind::RunStarted(_)
        | RunEventKind::JobStarted
        | RunEventKind::Phase(_)
        | RunEventKind::ModelCalled { .. }
        | RunEventKind::Retrying { .. }
        | RunEventKind::Turn { .. }
        | RunEventKind::Progress(_)
        | RunEventKind::ToolStarted { .. }
        | RunEventKind::ToolFinished { .. }
        | RunEventKind::GateStarted { .. }
        | RunEventKind::GateFinished { .. }
        | RunEventKind::Continued(_)
        | RunEventKind::InputStarted(_)
        | RunEventKind::InputCompleted(_)
        | RunEventKind::Loop(_)
        | RunEventKind::Note(_)
        | RunEventKind::JobFinished(_)
        | RunEventKind::RunFinished { .. } => None,
    }
}

fn normal(kind: &RunEventKind, paint: Paint) -> Option<String> {
    Some(match kind {
        RunEventKind::RunStarted(info) => started(info),
        RunEventKind::JobStarted => "started".into(),
        RunEventKind::Retrying { code, message: text, wait } => {
            format!("retry in {}: {code}: {}", show_duration(*wait), message(text))
        }
        RunEventKind::GateFinished { gate, moment, status, exit_code, duration } => {
            gate_finished(gate, *moment, *status, *exit_code, *duration)
        }
        RunEventKind::Continued(Transition::StopHookBlocking) => "goes on: a gate or hook objected".into(),
        RunEventKind::Continued(Transition::CollapseDrainRetry) => {
            "the prompt was too long: the same again with old turns as digests".into()
        }
        RunEventKind::Continued(Transition::ReactiveCompactRetry) => {
            "the prompt was refused: the same again with a smaller conversation".into()
        }
        RunEventKind::Continued(Transition::TokenBudgetContinuation) => "goes on: there is budget left".into(),
        RunEventKind::Continued(Transition::MaxOutputTokensEscalate) => {
            "the answer was cut: the same again with a larger output limit".into()
        }
        RunEventKind::Continued(Transition::MaxOutputTokensRecovery) => "goes on: the answer was cut".into(),
        RunEventKind::Loop(event) => return looped(event),
        RunEventKind::InputStarted(index) => format!("follow-up {} taken", index + 1),
        RunEventKind::Note(text) => message(text),
        RunEventKind::Warning(text) => format!("warning: {}", message(text)),
        RunEventKind::JobFinished(report) => finished(report, paint),
        RunEventKind::Interrupted(status) => interrupted(*status),
        RunEventKind::Phase(_)
        | RunEventKind::ModelCalled { .. }
        | RunEventKind::Turn { .. }
        | RunEventKind::Progress(_)
        | RunEventKind::ToolStarted { .. }
        | RunEventKind::ToolFinished { .. }
        | RunEventKind::GateStarted { .. }
        | RunEventKind::Continued(Transition::NextTurn)
        | RunEventKind::InputCompleted(_)
        | RunEventKind::RunFinished { .. } => return None,
    })
}

fn verbose(kind: &RunEventKind) -> Option<String> {
    Some(match kind {
        RunEventKind::Phase(phase) => format!("phase {}", phase.code()),
        RunEventKind::ModelCalled { call, turn } => format!("model call {call} for turn {turn}"),
        RunEventKind::Turn { turn, usage, cost, tools, .. } => {
            let tools = if tools.is_empty() { "no tool".into() } else { message(&tools.join(", ")) };
            format!("turn {turn}: {tools}, {} tokens, {cost}", usage.counted())
        }
        RunEventKind::ToolStarted { tool, subject } => message(&format!("{tool} {subject}")),
        RunEventKind::ToolFinished { tool, is_error, duration } => {
            let end = if *is_error { "failed" } else { "done" };
            format!("{} {end} ({})", message(tool), show_duration(*duration))
        }
        RunEventKind::GateStarted { gate, moment } => format!("gate {} ({})", message(gate), moment.code()),
        RunEventKind::InputCompleted(index) => format!("follow-up {} dealt with", index + 1),
        RunEventKind::RunFinished { exit } => format!("ended, exit code {}", exit.code()),
        RunEventKind::RunStarted(_)
        | RunEventKind::JobStarted
        | RunEventKind::Progress(_)
        | RunEventKind::Retrying { .. }
        | RunEventKind::GateFinished { .. }
        | RunEventKind::Continued(_)
        | RunEventKind::InputStarted(_)
        | RunEventKind::Loop(_)
        | RunEventKind::Note(_)
        | RunEventKind::Warning(_)
        | RunEventKind::JobFinished(_)
        | RunEventKind::Interrupted(_) => return None,
    })
}

/// What a person wants to know of the loop at once; the rest is in the event log.
fn looped(event: &LoopEvent) -> Option<String> {
    Some(match event {
        LoopEvent::ContextBoundary { layer: "auto_compact", freed, .. } => {
            format!("the conversation was summarised: {freed} tokens freed")
        }
        LoopEvent::CompactFailed { why, failures } => format!("compaction {failures} of 3 failed: {}", message(why)),
        LoopEvent::ModelFallback { from, to, why } => {
            format!("{} answers instead of {}: {}", message(to), message(from), message(why))
        }
        LoopEvent::Tombstone { blocks, .. } => format!("an answer broke off and is void ({blocks} blocks)"),
        LoopEvent::AgentStarted { agent, kind, description } => {
            format!("sub-agent {agent} ({kind}) started: {}", message(description))
        }
        LoopEvent::AgentFinished { agent, terminal, turns } => {
            format!("sub-agent {agent} ended: {terminal} ({turns} turns)")
        }
        LoopEvent::HookFinished { hook, decision, duration } => {
            format!("hook {} {decision} ({})", message(hook), show_duration(*duration))
        }
        LoopEvent::CommandNoticed(task) => format!("the end of background command {} was noticed", message(task)),
        LoopEvent::ContextBoundary { .. } | LoopEvent::ToolSummary(_) | LoopEvent::CommandCompleted(_) => return None,
    })
}

fn started(info: &RunInfo) -> String {
    let jobs = if info.jobs.len() == 1 { "1 job".into() } else { format!("{} jobs", info.jobs.len()) };
    format!("runner {}: {jobs}, at most {} at once, in {}", info.version, info.slots, message(&info.shown_folder))
}

fn finished(report: &JobReport, paint: Paint) -> String {
    let outcome = &report.outcome;
    let why = match outcome.verdict() {
        Verdict::Passed => String::new(),
        Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled => {
            format!(": {}", message(&outcome.message))
        }
    };
    format!(
        "{} {}{why} ({}, {} tokens, {}, {})",
        paint.verdict(outcome.verdict(), outcome.verdict().code()),
        outcome.reason.code(),
        if report.turns.0 == 1 { "1 turn".into() } else { format!("{} turns", report.turns) },
        report.counted_tokens(),
        report.cost.map_or_else(|| "no price".to_owned(), |cost| cost.to_string()),
        show_duration(report.duration),
    )
}

fn gate_finished(gate: &str, moment: GateMoment, status: GateStatus, exit: Option<i32>, took: Duration) -> String {
    let place = match moment {
        GateMoment::Before => " on the base",
        GateMoment::Stop => "",
        GateMoment::Final => " on the final tree",
    };
    let color = match status {
        GateStatus::Pass => "green",
        GateStatus::Fail => "red",
        GateStatus::Error => "broken",
    };
    let exit = exit.filter(|code| *code != 0).map(|code| format!("exit code {code}, ")).unwrap_or_default();
    format!("gate {} {color}{place} ({exit}{})", message(gate), show_duration(took))
}

fn interrupted(status: ExitStatus) -> String {
    let signal = match status {
        ExitStatus::Terminated => "SIGTERM",
        ExitStatus::Interrupted => "Ctrl-C",
        ExitStatus::Passed | ExitStatus::Failed | ExitStatus::Usage | ExitStatus::Error | ExitStatus::NoJobs => {
            "a signal"
        }
    };
    format!("{signal}: ending the jobs that run; once more ends at once")
}

fn message(text: &str) -> String {
    cut::one_line(text, MESSAGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::event::Phase;
    use crate::outcome::Reason;
    use crate::units::{Turns, Usd};
    use insta::assert_snapshot;

    fn story() -> Vec<RunEvent> {
        let gate = |moment, status, exit_code| RunEventKind::GateFinished {
            gate: "tests".into(),
            moment,
            status,
            exit_code,
            duration: Duration::from_millis(2_100),
        };
        let mut limited = sample::report("b", Reason::MaxTurns);
        limited.outcome.message = "2 of 2\nturns".into();
        limited.cost = None;
        vec![
            sample::event(0, "", RunEventKind::RunStarted(sample::run(&["a", "b"]))),
            sample::event(100, "a", RunEventKind::JobStarted),
            sample::event(150, "a", RunEventKind::Phase(Phase::Before)),
            sample::event(2_000, "a", gate(GateMoment::Before, GateStatus::Fail, Some(101))),
            sample::event(2_100, "a", RunEventKind::ModelCalled { call: 1, turn: Turns(1) }),
            sample::event(
                2_200,
                "a",
                RunEventKind::Retrying {
                    code: "overloaded",
                    message: "Overloaded\r\n::error::x".into(),
                    wait: Duration::from_secs(2),
                },
            ),
            sample::event(6_000, "a", sample::turn(1, 1_200)),
            sample::event(
                6_100,
                "a",
                RunEventKind::ToolStarted { tool: "Bash".into(), subject: "cargo test\x1b[31m".into() },
            ),
            sample::event(
                9_000,
                "a",
                RunEventKind::ToolFinished { tool: "Bash".into(), is_error: true, duration: Duration::from_secs(3) },
            ),
            sample::event(9_500, "a", gate(GateMoment::Stop, GateStatus::Fail, Some(101))),
            sample::event(9_501, "a", RunEventKind::Continued(Transition::StopHookBlocking)),
            sample::event(12_000, "a", gate(GateMoment::Final, GateStatus::Pass, Some(0))),
            sample::event(12_300, "a", sample::finished("a", Reason::Completed)),
            sample::event(13_000, "b", RunEventKind::JobFinished(Box::new(limited))),
            sample::event(13_100, "", RunEventKind::Warning("cannot write x".into())),
            sample::event(13_200, "", RunEventKind::Interrupted(ExitStatus::Terminated)),
            sample::event(13_300, "", RunEventKind::RunFinished { exit: ExitStatus::Terminated }),
        ]
    }

    fn told(detail: Detail) -> String {
        story().iter().filter_map(|event| line(event, detail, Paint::Plain)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn normal_lines_say_what_changes() {
        assert_snapshot!(told(Detail::Normal), @"
         0.0s run: runner 0.1.0: 2 jobs, at most 2 at once, in .runner/runs/20261130-235522-3f2a9c
         0.1s a: started
         2.0s a: gate tests red on the base (exit code 101, 2.1s)
         2.2s a: retry in 2.0s: overloaded: Overloaded ::error::x
         9.5s a: gate tests red (exit code 101, 2.1s)
         9.5s a: goes on: a gate or hook objected
        12.0s a: gate tests green on the final tree (2.1s)
        12.3s a: passed completed (7 turns, 1.5k tokens, $0.0123, 12.3s)
        13.0s b: failed max_turns: 2 of 2 turns (7 turns, 1.5k tokens, no price, 12.3s)
        13.1s run: warning: cannot write x
        13.2s run: SIGTERM: ending the jobs that run; once more ends at once
        ");
    }

    #[test]
    fn verbose_lines_add_turns_and_tools() {
        assert_snapshot!(told(Detail::Verbose), @"
         0.0s run: runner 0.1.0: 2 jobs, at most 2 at once, in .runner/runs/20261130-235522-3f2a9c
         0.1s a: started
         0.1s a: phase before
         2.0s a: gate tests red on the base (exit code 101, 2.1s)
         2.1s a: model call 1 for turn 1
         2.2s a: retry in 2.0s: overloaded: Overloaded ::error::x
         6.0s a: turn 1: Read, 1.2k tokens, $0.0010
         6.1s a: Bash cargo test
         9.0s a: Bash failed (3.0s)
         9.5s a: gate tests red (exit code 101, 2.1s)
         9.5s a: goes on: a gate or hook objected
        12.0s a: gate tests green on the final tree (2.1s)
        12.3s a: passed completed (7 turns, 1.5k tokens, $0.0123, 12.3s)
        13.0s b: failed max_turns: 2 of 2 turns (7 turns, 1.5k tokens, no price, 12.3s)
        13.1s run: warning: cannot write x
        13.2s run: SIGTERM: ending the jobs that run; once more ends at once
        13.3s run: ended, exit code 143
        ");
    }

    #[test]
    fn quiet_lines_are_bad_news_only() {
        assert_snapshot!(told(Detail::Quiet), @"
        13.0s b: failed max_turns: 2 of 2 turns (7 turns, 1.5k tokens, no price, 12.3s)
        13.1s run: warning: cannot write x
        13.2s run: SIGTERM: ending the jobs that run; once more ends at once
        ");
    }

    #[test]
    fn b182_no_line_carries_what_the_model_or_a_tool_said() {
        let mut report = sample::report("a", Reason::GateFailed);
        report.last_words = "SECRET words".into();
        report.outcome.detail = "SECRET detail".into();
        report.gates[0].tail = "SECRET tail".into();
        let turn = RunEventKind::Turn {
            turn: Turns(1),
            usage: crate::units::Usage::default(),
            cost: Usd::ZERO,
            request_id: None,
            text: "SECRET text".into(),
            tools: Vec::new(),
        };
        for kind in [RunEventKind::JobFinished(Box::new(report)), turn] {
            let said = line(&sample::event(1, "a", kind), Detail::Verbose, Paint::Plain).unwrap();
            assert!(!said.contains("SECRET"), "{said}");
        }
    }

    #[test]
    fn the_heartbeat_names_what_runs() {
        let names: Vec<String> = (0..8).map(|n| format!("job-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut stats = RunStats::new(sample::run(&names));
        assert_eq!(heartbeat(&stats, Elapsed::from_millis(1)), None);
        for name in &names {
            stats.apply(&sample::event(1_000, name, RunEventKind::JobStarted));
            stats.apply(&sample::event(2_000, name, RunEventKind::ModelCalled { call: 1, turn: Turns(1) }));
        }
        assert_snapshot!(heartbeat(&stats, Elapsed::from_millis(95_000)).unwrap(), @"  1m35s run: still running: job-0 (turn 0/40, asking the model, 1m34s), job-1 (turn 0/40, asking the model, 1m34s), job-2 (turn 0/40, asking the model, 1m34s), job-3 (turn 0/40, asking the model, 1m34s), job-4 (turn 0/40, asking the model, 1m34s), job-5 (turn 0/40, asking the model, 1m34s), 2 more");
    }
}
