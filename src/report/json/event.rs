//! `events.jsonl`: one object a line, with `at` (seconds since the run began), `job` (absent for the run itself),
//! `event`, and what that event has to say.

use super::value::{self, SCHEMA, UsageValue};
use crate::event::{JobReport, LoopEvent, RunEvent, RunEventKind, RunInfo};
use crate::outcome::Fault;
use crate::units::JobId;
use serde::Serialize;
use serde_json::{Map, Value};

/// An event as one line of JSON, without its newline.
#[must_use]
pub fn event_line(event: &RunEvent) -> String {
    let object = Object::default().with("at", value::at(event.at)).maybe("job", event.job.as_ref().map(JobId::as_str));
    value::line(&fields(&object, &event.kind).0)
}

fn fields(object: &Object, kind: &RunEventKind) -> Object {
    let named = |name: &str| object.clone().with("event", name);
    match kind {
        RunEventKind::Loop(event) => looped(object, event),
        RunEventKind::RunStarted(info) => run_started(named("run_started"), info),
        RunEventKind::JobStarted => named("job_started"),
        RunEventKind::Phase(phase) => named("phase").with("phase", phase.code()),
        RunEventKind::ModelCalled { call, turn } => named("model_called").with("call", call).with("turn", turn.0),
        RunEventKind::Retrying { code, message, wait } => {
            named("retrying").with("code", code).with("message", message).with("wait_s", value::seconds(*wait))
        }
        RunEventKind::Turn { turn, usage, cost, request_id, text, tools } => named("turn")
            .with("turn", turn.0)
            .with("usage", UsageValue::from(usage))
            .with("cost_usd", cost.dollars())
            .maybe("request_id", request_id.as_ref())
            .with("text", text)
            .with("tools", tools),
        RunEventKind::Progress(doing) => named("progress").with("doing", doing),
        RunEventKind::ToolStarted { tool, subject } => {
            named("tool_started").with("tool", tool).with("subject", subject)
        }
        RunEventKind::ToolFinished { tool, is_error, duration } => named("tool_finished")
            .with("tool", tool)
            .with("is_error", is_error)
            .with("duration_s", value::seconds(*duration)),
        RunEventKind::GateStarted { gate, moment } => {
            named("gate_started").with("gate", gate).with("moment", moment.code())
        }
        RunEventKind::GateFinished { gate, moment, status, exit_code, duration } => named("gate_finished")
            .with("gate", gate)
            .with("moment", moment.code())
            .with("status", status.code())
            .with("exit_code", exit_code)
            .with("duration_s", value::seconds(*duration)),
        RunEventKind::Continued(transition) => named("continued").with("transition", transition.code()),
        RunEventKind::InputStarted(index) => named("input_started").with("index", index),
        RunEventKind::InputCompleted(index) => named("input_completed").with("index", index),
        RunEventKind::Note(text) => named("note").with("text", text),
        RunEventKind::Warning(text) => named("warning").with("text", text),
        RunEventKind::JobFinished(report) => job_finished(named("job_finished"), report),
        RunEventKind::Interrupted(status) => named("interrupted").with("exit_code", status.code()),
        RunEventKind::RunFinished { exit } => named("run_finished").with("exit_code", exit.code()),
    }
}

fn looped(object: &Object, event: &LoopEvent) -> Object {
    let named = |name: &str| object.clone().with("event", name);
    match event {
        LoopEvent::ContextBoundary { layer, agent, freed, count } => named("context_boundary")
            .with("layer", layer)
            .with("agent", agent)
            .with("freed_tokens", freed.0)
            .with("count", count),
        LoopEvent::CompactFailed { why, failures } => {
            named("compact_failed").with("why", why).with("failures", failures)
        }
        LoopEvent::ModelFallback { from, to, why } => {
            named("model_fallback").with("from", from).with("to", to).with("why", why)
        }
        LoopEvent::Tombstone { call, blocks } => named("tombstone").with("call", call).with("blocks", blocks),
        LoopEvent::ToolSummary(text) => named("tool_summary").with("text", text),
        LoopEvent::AgentStarted { agent, kind, description } => {
            named("agent_started").with("agent", agent).with("kind", kind).with("description", description)
        }
        LoopEvent::AgentFinished { agent, terminal, turns } => {
            named("agent_finished").with("agent", agent).with("terminal", terminal).with("turns", turns.0)
        }
        LoopEvent::HookFinished { hook, decision, duration } => named("hook_finished")
            .with("hook", hook)
            .with("decision", decision)
            .with("duration_s", value::seconds(*duration)),
        LoopEvent::CommandNoticed(task) => named("input_started").with("command", task),
        LoopEvent::CommandCompleted(task) => named("input_completed").with("command", task),
    }
}

fn run_started(object: Object, info: &RunInfo) -> Object {
    let jobs: Vec<&str> = info.jobs.iter().map(|job| job.id.as_str()).collect();
    object
        .with("schema", SCHEMA)
        .with("run", &info.id.0)
        .with("version", info.version.as_str())
        .with("started_at", &info.started_at)
        .with("folder", info.folder.display().to_string())
        .with("slots", info.slots)
        .with("jobs", jobs)
}

/// The heart of `result.json`; the rest is there.
fn job_finished(object: Object, report: &JobReport) -> Object {
    let outcome = &report.outcome;
    object
        .with("verdict", outcome.verdict().code())
        .with("reason", outcome.reason.code())
        .with("fault", outcome.fault().map(Fault::code))
        .with("terminal", outcome.terminal.as_ref().map(|terminal| terminal.reason.code()))
        .with("message", &outcome.message)
        .with("turns", report.turns.0)
        .with("model_calls", report.model_calls)
        .with("retries", report.retries)
        .with("usage", UsageValue::from(&report.usage))
        .with("cost_usd", value::dollars(report.cost))
        .with("duration_s", value::seconds(report.duration))
        .with("branch", report.branch.as_ref())
        .with("commit", report.commit.as_ref())
}

/// An object under construction; keys keep their order.
#[derive(Clone, Default)]
struct Object(Map<String, Value>);

impl Object {
    fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.0.insert(key.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    /// Leaves the key out where there is no value.
    fn maybe(self, key: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;
    use crate::event::{GateMoment, GateStatus, Phase};
    use crate::exit::ExitStatus;
    use crate::outcome::Reason;
    use crate::units::Turns;
    use insta::assert_snapshot;
    use std::time::Duration;

    #[test]
    fn a_line_for_every_event() {
        let events = [
            sample::event(0, "", RunEventKind::RunStarted(sample::run(&["a"]))),
            sample::event(1, "a", RunEventKind::JobStarted),
            sample::event(2, "a", RunEventKind::Phase(Phase::Query)),
            sample::event(3, "a", RunEventKind::ModelCalled { call: 1, turn: Turns(1) }),
            sample::event(
                4,
                "a",
                RunEventKind::Retrying {
                    code: "overloaded",
                    message: "line\nbreak".into(),
                    wait: Duration::from_millis(1_500),
                },
            ),
            sample::event(1_234, "a", sample::turn(1, 10)),
            sample::event(
                1_300,
                "a",
                RunEventKind::GateFinished {
                    gate: "tests".into(),
                    moment: GateMoment::Final,
                    status: GateStatus::Error,
                    exit_code: None,
                    duration: Duration::from_secs(2),
                },
            ),
            sample::event(1_400, "a", sample::finished("a", Reason::MaxTurns)),
            sample::event(1_500, "", RunEventKind::RunFinished { exit: ExitStatus::Failed }),
        ];
        let lines: Vec<String> = events.iter().map(event_line).collect();
        assert_snapshot!(lines.join("\n"), @r#"
        {"at":0.0,"event":"run_started","schema":1,"run":"20261130-235522-3f2a9c","version":"0.1.0","started_at":"2026-11-30T23:55:22Z","folder":"/repo/.runner/runs/20261130-235522-3f2a9c","slots":2,"jobs":["a"]}
        {"at":0.001,"job":"a","event":"job_started"}
        {"at":0.002,"job":"a","event":"phase","phase":"query"}
        {"at":0.003,"job":"a","event":"model_called","call":1,"turn":1}
        {"at":0.004,"job":"a","event":"retrying","code":"overloaded","message":"line\nbreak","wait_s":1.5}
        {"at":1.234,"job":"a","event":"turn","turn":1,"usage":{"input_tokens":10,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":0},"cost_usd":0.001,"request_id":"req_1","text":"Looking.","tools":["Read"]}
        {"at":1.3,"job":"a","event":"gate_finished","gate":"tests","moment":"final","status":"error","exit_code":null,"duration_s":2.0}
        {"at":1.4,"job":"a","event":"job_finished","verdict":"failed","reason":"max_turns","fault":"limit","terminal":"max_turns","message":"this is why: max_turns","turns":7,"model_calls":8,"retries":1,"usage":{"input_tokens":1000,"cache_read_tokens":5000,"cache_write_tokens":200,"output_tokens":300},"cost_usd":0.0123,"duration_s":12.3,"branch":"runner/r/a","commit":"2222222"}
        {"at":1.5,"event":"run_finished","exit_code":1}
        "#);
    }
}
