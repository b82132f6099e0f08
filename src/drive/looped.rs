//! Tells the reporter what a query does, and counts it.

use super::job::JobRun;
use super::query::QueryEvent;
use super::stop_hooks::{HookRef, StopHooks};
use crate::clean;
use crate::event::{GateMoment, LoopEvent, RunEventKind};
use crate::query::{AgentId, AgentKind, HookStatus, Notice, QueuedInput};

/// The most of the model's last words that a report keeps, in bytes.
const LAST_WORDS: usize = 2_000;

/// Tells about one event of the query.
pub(super) async fn report(run: &mut JobRun<'_>, hooks: &StopHooks, event: QueryEvent) {
    let kind = match event {
        QueryEvent::Notice(notice) => match from_notice(run, notice) {
            Some(kind) => kind,
            None => return,
        },
        QueryEvent::ToolStarted { tool, subject } => RunEventKind::ToolStarted { tool, subject },
        QueryEvent::ToolFinished { tool, is_error, duration } => {
            RunEventKind::ToolFinished { tool, is_error, duration }
        }
        QueryEvent::HookStarted { index } => match hooks.get(index) {
            Some(HookRef::Gate(gate)) => return run.gate_started(&hooks.gates, gate, GateMoment::Stop).await,
            Some(HookRef::Hook(_)) | None => return,
        },
        QueryEvent::HookFinished { index, result } => match hooks.get(index) {
            Some(HookRef::Gate(gate)) => {
                return run.gate_finished(&hooks.gates, gate, GateMoment::Stop, &result).await;
            }
            Some(HookRef::Hook(hook)) => {
                let hook = hooks.hook(hook).map(|plan| plan.name.clone()).unwrap_or_default();
                let decision = decision(&result.status);
                RunEventKind::Loop(LoopEvent::HookFinished { hook, decision, duration: result.duration })
            }
            None => return,
        },
        QueryEvent::Warning(text) => RunEventKind::Warning(text),
        QueryEvent::Progress(progress) => RunEventKind::Progress(progress),
        QueryEvent::Record { .. } | QueryEvent::KeepResult { .. } | QueryEvent::Finished(_) => return,
    };
    run.reporter.tell(kind).await;
}

const fn decision(status: &HookStatus) -> &'static str {
    match status {
        HookStatus::Pass => "pass",
        HookStatus::Object(_) | HookStatus::Fail { .. } => "block",
        HookStatus::Prevent(_) => "prevent",
        HookStatus::TimedOut | HookStatus::Broken(_) => "error",
    }
}

fn from_notice(run: &mut JobRun<'_>, notice: Notice) -> Option<RunEventKind> {
    let counts = &mut run.report.counts;
    Some(match notice {
        Notice::ModelCalled { call, turn, estimate: _, source: _ } => RunEventKind::ModelCalled { call: call.0, turn },
        Notice::Retrying { kind, message, wait, call: _, until: _ } => {
            run.report.retries += 1;
            RunEventKind::Retrying { code: kind.reason().code(), message, wait }
        }
        Notice::Turn { agent, turn, message, usage, cost, request_id, model: _ } => {
            let text = message.text();
            if !text.is_empty() && agent == AgentId::JOB {
                clean::tail(&clean::clean(&text), LAST_WORDS).clone_into(&mut run.report.last_words);
            }
            let tools = message.tool_uses().map(|call| call.name.clone()).collect();
            RunEventKind::Turn { turn, usage, cost, request_id, text, tools }
        }
        Notice::Continued { agent, .. } if agent != AgentId::JOB => return None,
        Notice::Continued { transition, .. } => {
            run.report.transitions.push(transition);
            RunEventKind::Continued(transition)
        }
        Notice::ContextBoundary { agent, layer, freed, count } => {
            *counts.layers.entry(layer.code()).or_default() += 1;
            RunEventKind::Loop(LoopEvent::ContextBoundary { layer: layer.code(), agent: agent.0, freed, count })
        }
        Notice::CompactFailed { why, failures } => {
            counts.compact_failures += 1;
            RunEventKind::Loop(LoopEvent::CompactFailed { why, failures })
        }
        Notice::ModelFallback { agent: _, from, to, why } => {
            counts.fallbacks += 1;
            RunEventKind::Loop(LoopEvent::ModelFallback { from, to, why })
        }
        Notice::Tombstone { call, blocks } => {
            counts.tombstones += 1;
            RunEventKind::Loop(LoopEvent::Tombstone { call: call.0, blocks })
        }
        Notice::ToolSummary { text } => RunEventKind::Loop(LoopEvent::ToolSummary(text)),
        Notice::AgentStarted { agent, kind, description } => {
            counts.subagents += 1;
            let kind = match kind {
                AgentKind::General => "general",
                AgentKind::Explore | AgentKind::Job => "explore",
            };
            RunEventKind::Loop(LoopEvent::AgentStarted { agent: agent.0, kind, description })
        }
        Notice::AgentFinished { agent, terminal, turns } => {
            RunEventKind::Loop(LoopEvent::AgentFinished { agent: agent.0, terminal, turns })
        }
        Notice::InputStarted(QueuedInput::FollowUp(index)) => RunEventKind::InputStarted(index),
        Notice::InputCompleted(QueuedInput::FollowUp(index)) => RunEventKind::InputCompleted(index),
        Notice::InputStarted(QueuedInput::Command(id)) => RunEventKind::Loop(LoopEvent::CommandNoticed(id)),
        Notice::InputCompleted(QueuedInput::Command(id)) => RunEventKind::Loop(LoopEvent::CommandCompleted(id)),
        // The hook's own event says it, and the boundary's; a savepoint is for the transcript.
        Notice::HookJudged { .. } | Notice::Compacted { .. } | Notice::Savepoint { .. } => return None,
        Notice::LimitReached(message) => RunEventKind::Note(message),
        Notice::ReserveExceeded { call, reserved, used } => RunEventKind::Warning(format!(
            "model call {} used {} tokens, more than the {} that were set aside for it",
            call.0, used.0, reserved.0
        )),
    })
}
