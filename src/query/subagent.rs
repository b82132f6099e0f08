//! Sub-agents: a call of the Agent tool becomes a loop of its own, whose last words are the call's result.

use super::effect::AgentKind;
use super::event::{AgentId, ToolRunId};
use super::tool::ToolDefinition;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The most turns of one sub-agent. What it takes counts towards the job's turns too.
pub(super) const MAX_TURNS: u32 = 30;

/// The tool by which the job's agent starts sub-agents. Sub-agents do not have it, so they are one level deep.
pub static AGENT: LazyLock<ToolDefinition> = LazyLock::new(|| ToolDefinition {
    name: "Agent",
    description: "Starts a sub-agent with a conversation of its own and gives back its last answer. It knows nothing of this \
                  conversation: the prompt has to say everything, and what its answer should contain. Type `explore` (the default) can only \
                  look at files (Read, Glob, Grep); several of them in one answer run side by side. Type `general` has every tool and \
                  runs alone. Good for broad searches whose output you do not need; not for what one or two calls can do.",
    input_schema: json!({
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "What it is for, in a few words."},
            "prompt": {"type": "string", "description": "Its whole task."},
            "subagent_type": {"type": "string", "enum": ["explore", "general"]},
        },
        "required": ["description", "prompt"],
        "additionalProperties": false,
    }),
});

/// What kind of sub-agent an input of the tool asks for; other names that agents use for the two are understood.
#[must_use]
pub fn agent_kind(input: &Map<String, Value>) -> AgentKind {
    match input.get("subagent_type").and_then(Value::as_str).map(str::to_ascii_lowercase).as_deref() {
        Some("general" | "general-purpose") => AgentKind::General,
        _ => AgentKind::Explore,
    }
}

/// A sub-agent that is to begin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spawn {
    pub(super) parent: AgentId,
    pub(super) run: ToolRunId,
    pub(super) kind: AgentKind,
    pub(super) description: String,
    /// Its task; an error in words where the input has none.
    pub(super) prompt: Result<String, String>,
}

impl Spawn {
    pub(super) fn new(parent: AgentId, run: ToolRunId, kind: AgentKind, input: &Map<String, Value>) -> Self {
        let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let (prompt, known) = (text("prompt"), text("subagent_type").to_ascii_lowercase());
        let prompt = if prompt.is_empty() {
            Err("Nothing was started: `prompt` must hold the sub-agent's whole task.".to_owned())
        } else if !matches!(known.as_str(), "" | "explore" | "general" | "general-purpose") {
            Err(format!(
                "Nothing was started: there is no sub-agent type {known:?}; the types are `explore` and `general`."
            ))
        } else {
            Ok(prompt)
        };
        Self { parent, run, kind, description: text("description"), prompt }
    }
}
