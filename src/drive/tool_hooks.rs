//! The hooks around tool calls: those that match run side by side, and what they say is made one.

use crate::hooks::{HookAgent, HookSession, ToolDecision, ToolHookInput, ToolHookMoment, combine, run_tool_hook};
use crate::outcome::{HookEvidence, HookKind};
use crate::plan::{ToolHookEvent, ToolHookPlan};
use crate::process::Environment;
use crate::query::{AgentId, AgentKind, ToolInput, ToolResult, ToolUse};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The tool hooks of a job, and what they are run with.
pub(super) struct ToolHooks {
    pub(super) plans: Vec<ToolHookPlan>,
    pub(super) place: HookPlace,
    /// Numbers their logs.
    pub(super) runs: AtomicU32,
}

/// Where the hooks of a job run, and what all of them are told.
#[derive(Clone)]
pub(super) struct HookPlace {
    /// The worktree.
    pub(super) cwd: PathBuf,
    pub(super) env: Environment,
    /// The folder for their logs.
    pub(super) outputs: PathBuf,
    /// `RUN/JOB`.
    pub(super) session: String,
    pub(super) transcript: PathBuf,
}

impl HookPlace {
    /// What a hook is told about who calls.
    pub(super) fn session(&self, agent: AgentId, kind: AgentKind) -> HookSession {
        let name = match kind {
            AgentKind::Explore => "explore",
            AgentKind::Job | AgentKind::General => "general",
        };
        let agent = (agent != AgentId::JOB).then(|| HookAgent {
            id: format!("agent-{}", agent.0),
            kind: name.to_owned(),
            transcript_path: Some(self.transcript.clone()),
        });
        HookSession { session_id: self.session.clone(), transcript_path: self.transcript.clone(), agent }
    }
}

/// What the hooks before a call say.
pub(super) enum Before {
    /// It may run, perhaps with another input.
    Proceed { input: Option<Map<String, Value>>, note: Option<String> },
    /// It may not.
    Deny(String),
    /// The whole query is to end.
    Stop(HookEvidence),
}

/// What the hooks after a call say.
#[derive(Default)]
pub(super) struct After {
    /// What the model is told instead of the result.
    pub(super) output: Option<String>,
    /// What it is told besides.
    pub(super) note: Option<String>,
    /// The whole query is to end.
    pub(super) stopped: Option<HookEvidence>,
}

impl ToolHooks {
    /// Asks the hooks before a call.
    pub(super) async fn before(
        &self,
        call: &ToolUse,
        agent: AgentId,
        kind: AgentKind,
        cancel: &CancellationToken,
        warnings: &mut Vec<String>,
    ) -> Before {
        let asked = self.ask(ToolHookEvent::Pre, call, agent, kind, ToolHookMoment::Before, cancel, warnings).await;
        match asked {
            None | Some((ToolDecision::Proceed { input: None, context: None, .. }, _)) => {
                Before::Proceed { input: None, note: None }
            }
            Some((ToolDecision::Proceed { input, context, .. }, _)) => Before::Proceed { input, note: context },
            Some((ToolDecision::Deny(words) | ToolDecision::Broken(words), _)) => Before::Deny(words),
            Some((ToolDecision::Stop(words), name)) => Before::Stop(evidence(name, words)),
        }
    }

    /// Asks the hooks after a call.
    #[expect(clippy::too_many_arguments, reason = "a call, who made it, and what came of it")]
    pub(super) async fn after(
        &self,
        call: &ToolUse,
        agent: AgentId,
        kind: AgentKind,
        result: &ToolResult,
        duration: Duration,
        cancel: &CancellationToken,
        warnings: &mut Vec<String>,
    ) -> After {
        let moment = if result.is_error {
            ToolHookMoment::Failed { error: result.content.clone(), is_interrupt: cancel.is_cancelled() }
        } else {
            ToolHookMoment::After { response: json!({ "content": result.content }), duration }
        };
        match self.ask(ToolHookEvent::Post, call, agent, kind, moment, cancel, warnings).await {
            None => After::default(),
            Some((ToolDecision::Proceed { output, context, .. }, _)) => After { output, note: context, stopped: None },
            Some((ToolDecision::Deny(words) | ToolDecision::Broken(words), _)) => {
                After { note: Some(words), ..After::default() }
            }
            Some((ToolDecision::Stop(words), name)) => {
                After { stopped: Some(evidence(name, words)), ..After::default() }
            }
        }
    }

    /// Runs those that match, side by side; `None` where none does. The name is of one that stops.
    #[expect(clippy::too_many_arguments, reason = "a call, who made it, and when it is")]
    async fn ask(
        &self,
        event: ToolHookEvent,
        call: &ToolUse,
        agent: AgentId,
        kind: AgentKind,
        moment: ToolHookMoment,
        cancel: &CancellationToken,
        warnings: &mut Vec<String>,
    ) -> Option<(ToolDecision, String)> {
        let ToolInput::Object(input) = &call.input else { return None };
        let plans: Vec<&ToolHookPlan> =
            self.plans.iter().filter(|plan| plan.event == event && plan.matches.matches(&call.name)).collect();
        if plans.is_empty() {
            return None;
        }
        let told = ToolHookInput {
            session: self.place.session(agent, kind),
            tool_name: call.name.clone(),
            tool_input: input.clone(),
            tool_use_id: call.id.to_string(),
            moment,
        };
        let runs = plans.iter().map(|plan| {
            let log = self.place.outputs.join(format!("hook-{}.log", self.runs.fetch_add(1, Ordering::Relaxed) + 1));
            let (place, told) = (&self.place, &told);
            async move { run_tool_hook(&plan.run, &place.cwd, &place.env, plan.timeout, &log, cancel, told).await }
        });
        let ended = join_all(runs).await;
        let mut name = String::new();
        let mut decisions = Vec::new();
        for (plan, run) in plans.iter().zip(ended) {
            let shown = plan.run.shown();
            warnings.extend(run.warning.map(|warning| format!("tool hook `{shown}`: {warning}")));
            if matches!(run.decision, ToolDecision::Stop(_)) {
                name = shown;
            }
            decisions.push(run.decision);
        }
        Some((combine(decisions), name))
    }
}

fn evidence(name: String, words: String) -> HookEvidence {
    HookEvidence { kind: HookKind::Tool, name, tail: words, broken: false }
}
