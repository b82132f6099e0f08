//! What is fixed when a query begins.

use super::budget::Caps;
use super::effect::ModelSlot;
use super::retry::Patience;
use super::tool::Usable;
use crate::units::{Elapsed, Prices, Tokens, Turns};

/// The parameters of a query.
#[derive(Clone, Debug)]
pub struct Params {
    /// The text blocks of the first message: context files, then the task. Blank ones are left out.
    pub prompt: Vec<String>,
    /// Queued inputs, each taken when the model has finished the one before.
    pub follow_ups: Vec<String>,
    /// Responses that the loop accepts at most, those of sub-agents included.
    pub max_turns: Turns,
    /// Tokens and money.
    pub caps: Caps,
    /// The token cap is also a target: a model that stops early is asked to go on.
    pub keep_working: bool,
    /// What the provider tells the model about the budget of the whole task; advice, no cap.
    pub task_budget: Option<Tokens>,
    /// The models.
    pub models: Models,
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
    /// What the loop can ask about tools.
    pub tools: Usable,
    /// Hooks want to be asked before a sub-agent starts.
    pub clear_agents: bool,
    /// The folder for results that are too long for a message, as the model is told.
    pub outputs: String,
    /// Which switches are on.
    pub features: Features,
}

/// What can be switched off, for a provider that does not know it or for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Summarise the conversation when it has grown too long.
    pub auto_compact: bool,
    /// Let the provider clear old results where rewriting them here would make bound thinking invalid.
    pub provider_clearing: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { auto_compact: true, provider_clearing: true }
    }
}

/// The models of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Models {
    /// The job's model.
    pub main: ModelLimits,
    /// The one that takes over when the main one stays overloaded.
    pub fallback: Option<ModelLimits>,
    /// The one that summarises tool calls.
    pub small: Option<ModelLimits>,
}

impl Models {
    /// One of them; the main one in place of one that there is not.
    pub(super) fn get(&self, slot: ModelSlot) -> &ModelLimits {
        match slot {
            ModelSlot::Main => &self.main,
            ModelSlot::Fallback => self.fallback.as_ref().unwrap_or(&self.main),
            ModelSlot::Small => self.small.as_ref().unwrap_or(&self.main),
        }
    }
}

/// What one model can take, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLimits {
    /// Its name, for notices.
    pub name: String,
    /// The output cap of one answer.
    pub max_output: Tokens,
    /// The cap of the one answer that is asked for again because `max_output` cut it; `None`: it is not.
    pub escalated_output: Option<Tokens>,
    /// Its whole window.
    pub context_window: Tokens,
    /// Its prices; all zero where they are not known.
    pub prices: Prices,
    /// Its thinking is bound to the exact conversation before it.
    pub binds_thinking: bool,
}

/// What the loop needs to know about a stop hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRule {
    /// Its name.
    pub name: String,
    /// The command, for the model.
    pub command: String,
    /// Whether it judges the work.
    pub kind: HookRuleKind,
    /// How often in a row it may send the model back.
    pub max_blocks: u32,
    /// What its red does.
    pub on_red: OnRed,
}

/// What a stop hook is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRuleKind {
    /// It must pass in the end: it runs at every attempt to stop, and one that blocks too often ends the query.
    Gate,
    /// It may object: one that has objected as often as it may in a row is not asked again.
    Hook,
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
