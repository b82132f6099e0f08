//! What the loop and the model know about tools.

use super::effect::AgentKind;
use super::params::Concurrency;
use super::transcript::ToolUse;
use serde_json::Value;

/// A tool as it is declared to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name that calls use.
    pub name: &'static str,
    /// What it does and what its limits are, for the model.
    pub description: &'static str,
    /// The JSON Schema of its input; its type is `object`.
    pub input_schema: Value,
}

/// What the loop needs to know about one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether it may run beside others; one that may changes nothing.
    pub concurrency: Concurrency,
    /// It is a shell command: if it fails, later ones of the same answer are not run.
    pub is_shell: bool,
    /// It starts a sub-agent.
    pub agent: Option<AgentKind>,
    /// The most that its result may put into a message, in bytes; `None`: exempt from the result budget.
    pub result_limit: Option<usize>,
}

/// How the loop asks about tools. Functions of the call alone, so the loop stays pure.
#[derive(Clone, Copy, Debug)]
pub struct Usable {
    /// What kind of call it is.
    pub traits: fn(&ToolUse) -> Traits,
    /// What it is about, in a few words; may be empty.
    pub subject: fn(&ToolUse) -> String,
}

impl Usable {
    /// Whether a call changes nothing and starts nobody.
    pub(super) fn only_looks(&self, call: &ToolUse) -> bool {
        let traits = (self.traits)(call);
        traits.concurrency == Concurrency::Shared && traits.agent.is_none()
    }

    /// A call in one line: the tool and what it is about.
    pub(super) fn line(&self, call: &ToolUse) -> String {
        let subject = (self.subject)(call);
        if subject.is_empty() { call.name.clone() } else { format!("{} {subject}", call.name) }
    }
}
