//! The state of a query: one value that every *continue* replaces whole, with the transition that says why.

use super::budget::estimate;
use super::transcript::{History, Message};
use crate::outcome::Transition;
use crate::units::{Tokens, Turns};
use std::sync::Arc;

/// What crosses from one iteration to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The conversation.
    pub messages: History,
    /// The turn that the next response will be, from 1; it only grows.
    pub turn_count: Turns,
    /// Why the last iteration went on; none in the first.
    pub transition: Option<Transition>,
    /// How often the model was told to go on where it was cut off; at most 3.
    pub output_recovery_count: u32,
    /// The escalated output cap, set after the first cut and cleared by the next answer.
    pub output_tokens_override: Option<Tokens>,
    /// Set while the model works on after a stop hook blocked.
    pub stop_hook_active: bool,
    /// How often each stop hook has blocked in a row.
    pub blocks: Vec<u32>,
    /// How many queued inputs have been taken.
    pub inputs_taken: usize,
    /// What the last response said about the size of the conversation.
    pub measured: Option<Measured>,
}

/// How often in a query a model that was cut off is told to go on.
pub(super) const OUTPUT_RECOVERIES: u32 = 3;

/// A size that the provider reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Prompt and answer of that call.
    pub tokens: Tokens,
    /// How many messages they were.
    pub messages: usize,
}

impl State {
    /// The state before the first call.
    pub(super) fn first(messages: History, hooks: usize) -> Self {
        Self {
            messages,
            turn_count: Turns(1),
            transition: None,
            output_recovery_count: 0,
            output_tokens_override: None,
            stop_hook_active: false,
            blocks: vec![0; hooks],
            inputs_taken: 0,
            measured: None,
        }
    }

    /// The tokens of the next prompt, erring high: what the last response reported, plus an estimate of what came after.
    pub(super) fn prompt_estimate(&self, overhead: Tokens) -> Tokens {
        let (known, from) = self.measured.map_or((overhead, 0), |measured| (measured.tokens, measured.messages));
        let bytes = self.messages.iter().skip(from).map(|message: &Arc<Message>| message.weight()).sum();
        known + estimate(bytes)
    }
}
