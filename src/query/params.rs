//! What is fixed when a query begins.

use super::budget::Caps;
use super::retry::Patience;
use super::transcript::ToolUse;
use crate::units::{Elapsed, Tokens, Turns};

/// The parameters of a query.
#[derive(Clone, Debug)]
pub struct Params {
    /// The text blocks of the first message: context files, then the task. Blank ones are left out.
    pub prompt: Vec<String>,
    /// Queued inputs, each taken when the model has finished the one before.
    pub follow_ups: Vec<String>,
    /// Responses that the loop accepts at most.
    pub max_turns: Turns,
    /// Tokens and money.
    pub caps: Caps,
    /// The output cap of one answer.
    pub max_output: Tokens,
    /// The cap of the one answer that is asked for again because `max_output` cut it; `None`: it is not.
    pub escalated_output: Option<Tokens>,
    /// The model's whole window.
    pub context_window: Tokens,
    /// Estimated tokens of what precedes the messages: system prompt and tools.
    pub overhead: Tokens,
    /// When the job's time is up.
    pub deadline: Elapsed,
    /// How patient it is with a failing provider.
    pub patience: Patience,
    /// The same call with the same result so often in a row ends the query; default 12.
    pub loop_limit: u32,
    /// Where chance comes from.
    pub seed: u64,
    /// The stop hooks, in order.
    pub hooks: Vec<HookRule>,
    /// Whether a call may run beside others.
    pub concurrency: fn(&ToolUse) -> Concurrency,
}

/// What the loop needs to know about a stop hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRule {
    /// Its name.
    pub name: String,
    /// The command, for the model.
    pub command: String,
    /// How often in a row it may send the model back.
    pub max_blocks: u32,
    /// What its red does.
    pub on_red: OnRed,
}

/// What a red stop hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRed {
    /// Its output goes to the model, which works on.
    Block,
    /// The query ends.
    Stop,
}

/// Whether a call may run beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// It only reads.
    Shared,
    /// It runs alone, after the calls before it.
    Alone,
}
