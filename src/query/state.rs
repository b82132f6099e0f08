//! The state of a loop: one value that every *continue* replaces whole, with the transition that says why.

use super::context::View;
use super::effect::ModelSlot;
use super::event::CallId;
use super::transcript::History;
use crate::outcome::Transition;
use crate::units::{Tokens, Turns};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What crosses from one iteration to the next. Clones share everything.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The conversation since the last compaction, as it was said.
    pub messages: History,
    /// What the model is shown of it.
    pub(super) view: View,
    /// Compactions so far.
    pub auto_compact: AutoCompact,
    /// The turn that the next response will be, from 1; it only grows.
    pub turn_count: Turns,
    /// Why the last iteration went on; none in the first.
    pub transition: Option<Transition>,
    /// How often the model was told to go on where it was cut off; at most 3.
    pub output_recovery_count: u32,
    /// The escalated output cap, set after the first cut and cleared by the next answer.
    pub output_tokens_override: Option<Tokens>,
    /// The output cap was raised once already.
    pub has_escalated: bool,
    /// The conversation was made smaller because a provider refused it: once in a query, also across stop hooks.
    pub attempted_reactive_compact: bool,
    /// Thinking was left out because the provider refused it: once in a query.
    pub attempted_strip_thinking: bool,
    /// The summary of the last turn's calls, which the small model is still making.
    pub pending_tool_summary: Option<PendingSummary>,
    /// Summaries of turns, by the id of their assistant message.
    pub(super) summaries: OrdMap<u64, Arc<str>>,
    /// Set while the model works on after a stop hook blocked.
    pub stop_hook_active: bool,
    /// How often each stop hook has blocked in a row.
    pub blocks: Vec<u32>,
    /// How many follow-ups have been taken.
    pub inputs_taken: usize,
    /// Empty answers in a row.
    pub empty_answers: u32,
    /// Pauses in a row.
    pub pauses: u32,
    /// Continuations for the token budget.
    pub budget: BudgetProgress,
    /// Which model is asked.
    pub model: ModelSlot,
    /// Turns after which the main model is tried again.
    pub fallback_turns: u32,
}

/// What is known about compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoCompact {
    /// Turns since the last one; large before the first.
    pub turns_since: u32,
    /// How many there were.
    pub count: u32,
    /// Failures in a row; 3 switch it off for the query.
    pub failures: u32,
}

/// A summary under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingSummary {
    /// The call.
    pub call: CallId,
    /// The assistant message that it is about.
    pub message: u64,
}

/// How the work for a token budget goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetProgress {
    /// How often the model was asked to go on.
    pub continuations: u32,
    /// Output tokens of the query when it last was.
    pub output_then: Tokens,
    /// What the last continuation and the one before it brought, in output tokens.
    pub gains: [Tokens; 2],
}

/// How often in a query a model that was cut off is told to go on.
pub(super) const OUTPUT_RECOVERIES: u32 = 3;
/// Failed compactions in a row after which there is none any more.
pub(super) const COMPACT_FAILURES: u32 = 3;

impl State {
    /// The state before the first call.
    pub(super) fn first(hooks: usize) -> Self {
        Self {
            messages: History::default(),
            view: View::default(),
            auto_compact: AutoCompact { turns_since: u32::MAX, count: 0, failures: 0 },
            turn_count: Turns(1),
            transition: None,
            output_recovery_count: 0,
            output_tokens_override: None,
            has_escalated: false,
            attempted_reactive_compact: false,
            attempted_strip_thinking: false,
            pending_tool_summary: None,
            summaries: OrdMap::new(),
            stop_hook_active: false,
            blocks: vec![0; hooks],
            inputs_taken: 0,
            empty_answers: 0,
            pauses: 0,
            budget: BudgetProgress::default(),
            model: ModelSlot::Main,
            fallback_turns: 0,
        }
    }
}
