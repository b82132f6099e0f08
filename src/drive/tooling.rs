//! The way of one tool call: hooks before it, the tool, hooks after it.

use super::clock::Clock;
use super::tool_hooks::{Before, ToolHooks};
use crate::outcome::HookEvidence;
use crate::query::{
    AGENT, AgentId, AgentKind, Concurrency, ToolInput, ToolResult, ToolUse, Traits, Usable, agent_kind,
};
use crate::tools::{Access, Toolbox};
use serde_json::{Map, Value};
use std::borrow::Cow;
use tokio_util::sync::CancellationToken;

/// What the tools of a job are run with.
pub(super) struct Tooling {
    pub(super) toolbox: Toolbox,
    pub(super) hooks: ToolHooks,
    pub(super) clock: Clock,
}

/// How a call ended.
pub(super) struct ToolEnd {
    /// What the model is told.
    pub(super) result: ToolResult,
    /// A hook ends the query.
    pub(super) stopped: Option<HookEvidence>,
    /// What a reader should know.
    pub(super) warnings: Vec<String>,
}

/// Whether a sub-agent may start.
pub(super) enum Clearance {
    /// It may, with this input.
    May { input: Map<String, Value>, warnings: Vec<String> },
    /// It may not.
    MayNot(ToolEnd),
}

fn refused(call: &ToolUse, words: &str, stopped: Option<HookEvidence>, warnings: Vec<String>) -> ToolEnd {
    let result = ToolResult::new(call.id.clone(), format!("Nothing was run: {words}"), true);
    ToolEnd { result, stopped, warnings }
}

impl Tooling {
    /// Whether a call of a tool changes no files; hooks beside it may.
    pub(super) fn only_looks(&self, tool: &str) -> bool {
        let call = ToolUse { id: "".into(), name: tool.to_owned(), input: ToolInput::Object(Map::new()) };
        self.hooks.plans.is_empty() && Toolbox::concurrency(&call) == Concurrency::Shared
    }

    /// Runs a call to its result. Never fails.
    pub(super) async fn run(
        &self,
        call: &ToolUse,
        agent: AgentId,
        kind: AgentKind,
        cancel: &CancellationToken,
    ) -> ToolEnd {
        let access = match kind {
            AgentKind::Explore => Access::ReadOnly,
            AgentKind::Job | AgentKind::General => Access::Full,
        };
        let mut warnings = Vec::new();
        let mut notes = Vec::new();
        let call = match self.hooks.before(call, agent, kind, cancel, &mut warnings).await {
            Before::Proceed { input, note } => {
                notes.extend(note);
                match input {
                    Some(input) => Cow::Owned(ToolUse { input: ToolInput::Object(input), ..call.clone() }),
                    None => Cow::Borrowed(call),
                }
            }
            Before::Deny(words) => return refused(call, &words, None, warnings),
            Before::Stop(evidence) => return refused(call, &evidence.tail.clone(), Some(evidence), warnings),
        };
        let began = self.clock.now();
        let mut result = self.toolbox.run(&call, access, cancel).await;
        let after =
            self.hooks.after(&call, agent, kind, &result, self.clock.now().since(began), cancel, &mut warnings).await;
        if let Some(output) = after.output {
            result = ToolResult::new(result.id, output, result.is_error);
        }
        for note in notes.into_iter().chain(after.note) {
            result.content.push_str(&format!("\n[a hook says: {note}]"));
        }
        ToolEnd { result, stopped: after.stopped, warnings }
    }

    /// Asks the hooks whether a sub-agent may start.
    pub(super) async fn clear(
        &self,
        call: &ToolUse,
        agent: AgentId,
        kind: AgentKind,
        cancel: &CancellationToken,
    ) -> Clearance {
        let mut warnings = Vec::new();
        let own = || match &call.input {
            ToolInput::Object(input) => input.clone(),
            ToolInput::Invalid { .. } => Map::new(),
        };
        match self.hooks.before(call, agent, kind, cancel, &mut warnings).await {
            Before::Proceed { input, note } => {
                warnings.extend(note);
                Clearance::May { input: input.unwrap_or_else(own), warnings }
            }
            Before::Deny(words) => Clearance::MayNot(refused(call, &words, None, warnings)),
            Before::Stop(evidence) => {
                Clearance::MayNot(refused(call, &evidence.tail.clone(), Some(evidence), warnings))
            }
        }
    }

    /// The next background command that ends by itself: its id, and what the model is told.
    pub(super) async fn next_ended(&self) -> Option<(String, String)> {
        let ended = self.toolbox.next_ended().await?;
        let text = format!(
            "[The background command {} has {}: {}. TaskOutput shows what it printed.]",
            ended.task_id, ended.how, ended.command
        );
        Some((ended.task_id, text))
    }

    /// Ends what still runs in the background.
    pub(super) async fn shutdown(&self) {
        self.toolbox.shutdown().await;
    }
}

/// How the loop asks about tools.
pub(super) const USABLE: Usable = Usable { traits, subject };

fn traits(call: &ToolUse) -> Traits {
    if call.name == AGENT.name {
        let kind = match &call.input {
            ToolInput::Object(input) => agent_kind(input),
            ToolInput::Invalid { .. } => AgentKind::Explore,
        };
        // One that only looks may run beside others; its answer is bounded by the model's output limit.
        let concurrency = if kind == AgentKind::Explore { Concurrency::Shared } else { Concurrency::Alone };
        return Traits { concurrency, is_shell: false, agent: Some(kind), result_limit: None };
    }
    Traits {
        concurrency: Toolbox::concurrency(call),
        is_shell: call.name == "Bash",
        agent: None,
        result_limit: Some(usize::MAX),
    }
}

fn subject(call: &ToolUse) -> String {
    match &call.input {
        ToolInput::Object(input) if call.name == AGENT.name => {
            input.get("description").and_then(|text| text.as_str()).unwrap_or_default().chars().take(80).collect()
        }
        ToolInput::Object(_) | ToolInput::Invalid { .. } => Toolbox::subject(call),
    }
}
