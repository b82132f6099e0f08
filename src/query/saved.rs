//! [`Saved`]: what a loop needs, beside its messages, to go on in another process; [`Past`]: both together.
//!
//! A savepoint lies between two iterations, where nothing is under way but the summary of a turn, which is given up. Everything that
//! guards a loop (turns, money, recoveries, blocks) is in it, so that a job that was killed gets no more of anything than one that was not.

use super::agent::{Agent, Tries};
use super::budget::Ledger;
use super::context::{Shown, View};
use super::effect::{ModelSlot, Notice};
use super::repetition::Repetition;
use super::shared::Shared;
use super::state::{AutoCompact, BudgetProgress, State};
use super::transcript::{Block, History, Message, Origin, ToolResult, ToolUse};
use crate::outcome::Transition;
use crate::units::{Tokens, Turns, Usage, Usd};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The state of a query between two iterations, without the messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// How many messages the conversation holds, and the id of its last one.
    pub messages: (usize, u64),
    /// What the model is shown of them.
    pub shown: Shown,
    /// The turn that the next response will be.
    pub turn: Turns,
    /// Why the iteration goes on.
    pub transition: Option<Transition>,
    /// How often the model was told to go on where it was cut off.
    pub output_recoveries: u32,
    /// The escalated output cap.
    pub output_override: Option<Tokens>,
    /// The output cap was raised once already.
    pub has_escalated: bool,
    /// The conversation was made smaller because a provider refused it.
    pub attempted_reactive_compact: bool,
    /// Thinking was left out because the provider refused it.
    pub attempted_strip_thinking: bool,
    /// A stop hook has blocked.
    pub stop_hook_active: bool,
    /// How often each stop hook has blocked in a row.
    pub blocks: Vec<u32>,
    /// Follow-ups taken.
    pub inputs_taken: usize,
    /// Notices of background commands that were taken.
    pub notices_taken: Vec<String>,
    /// Those that wait: the command and the text.
    pub notices: Vec<(String, String)>,
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
    /// Compactions so far.
    pub auto_compact: AutoCompact,
    /// Responses that were accepted, those of sub-agents included.
    pub turns: Turns,
    /// What was used.
    pub used: Usage,
    /// What was spent.
    pub spent: Usd,
    /// What conversations held that summaries have replaced.
    pub task_spent: Tokens,
    /// Model calls so far.
    pub calls: u32,
    /// The last number that was given to a message, to an agent, to a file of results.
    pub numbers: (u64, u32, u64),
    /// How many sub-agents there were.
    pub agents: u32,
}

/// What a query goes on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    pub(super) saved: Saved,
    pub(super) history: History,
    /// Everything that was ever said in the job's own conversation.
    pub(super) said: Vec<Arc<Message>>,
}

impl Past {
    /// `history` is the conversation as it stands, `said` everything that was ever said in it, both up to the savepoint.
    ///
    /// # Errors
    /// Says in what they do not fit together: such a savepoint is not gone on from.
    pub fn new(saved: Saved, history: History, said: Vec<Arc<Message>>) -> Result<Self, String> {
        let found = (history.len(), history.last().map_or(0, |message| message.id));
        if found != saved.messages {
            return Err(format!("it is about {:?} messages, and there are {found:?}", saved.messages));
        }
        history.check()?;
        saved.shown.check(history.len())?;
        Ok(Self { saved, history, said })
    }

    /// The state that it goes on from.
    #[must_use]
    pub const fn saved(&self) -> &Saved {
        &self.saved
    }

    /// Everything that was asked for, word for word.
    fn task(&self) -> Vec<Block> {
        let asks = |message: &&Arc<Message>| matches!(message.origin, Origin::Prompt | Origin::FollowUp(_));
        self.said.iter().filter(asks).flat_map(|message| message.blocks.iter().cloned()).collect()
    }

    /// How often the last call has come with the same result.
    fn repetition(&self) -> Repetition {
        let mut repetition = Repetition::default();
        let mut calls: Vec<&ToolUse> = Vec::new();
        for message in &self.said {
            let results: Vec<&ToolResult> = message.tool_results().collect();
            let ended =
                calls.iter().filter_map(|call| Some((*call, *results.iter().find(|result| result.id == call.id)?)));
            // Verdicts were given when they came.
            drop(repetition.add_all(ended, u32::MAX));
            calls = message.tool_uses().collect();
        }
        repetition
    }
}

impl Shared {
    /// Goes on with these numbers and this money.
    pub(super) fn take_up(&mut self, saved: &Saved) {
        self.ledger = Ledger::going_on(self.params.caps.clone(), saved.used, saved.spent);
        self.turns = saved.turns;
        self.task_spent = saved.task_spent;
        self.last_call = saved.calls;
        (self.last_message, self.last_agent, self.last_file) = saved.numbers;
        self.agents = saved.agents;
    }
}

impl Agent {
    /// Tells that the job's loop is between two iterations.
    pub(super) fn save(&self, sh: &mut Shared, transition: Option<Transition>) {
        if self.parent.is_none() {
            let saved = Box::new(self.saved(sh));
            sh.emit(Notice::Savepoint { transition, saved });
        }
    }

    fn saved(&self, sh: &Shared) -> Saved {
        let state = &self.state;
        Saved {
            messages: (state.messages.len(), state.messages.last().map_or(0, |message| message.id)),
            shown: state.view.described(),
            turn: state.turn_count,
            transition: state.transition,
            output_recoveries: state.output_recovery_count,
            output_override: state.output_tokens_override,
            has_escalated: state.has_escalated,
            attempted_reactive_compact: state.attempted_reactive_compact,
            attempted_strip_thinking: state.attempted_strip_thinking,
            stop_hook_active: state.stop_hook_active,
            blocks: state.blocks.clone(),
            inputs_taken: state.inputs_taken,
            notices_taken: self.notices_taken.clone(),
            notices: self.notices.iter().cloned().collect(),
            empty_answers: state.empty_answers,
            pauses: state.pauses,
            budget: state.budget,
            model: state.model,
            fallback_turns: state.fallback_turns,
            auto_compact: state.auto_compact,
            turns: sh.turns,
            used: *sh.ledger.used(),
            spent: sh.ledger.spent(),
            task_spent: sh.task_spent,
            calls: sh.last_call,
            numbers: (sh.last_message, sh.last_agent, sh.last_file),
            agents: sh.agents,
        }
    }

    /// Whether it goes on from a savepoint.
    pub(super) fn has_past(&self) -> bool {
        !self.state.messages.is_empty()
    }

    /// Goes on where it was.
    pub(super) fn go_on_again(&mut self, sh: &mut Shared) {
        self.iterate(sh, Tries::default(), false);
    }

    /// Takes over what another process has come to.
    pub(super) fn take_up(&mut self, sh: &mut Shared, past: Past) {
        self.task = past.task();
        self.repetition = past.repetition();
        let ids = past.said.iter().flat_map(|message| message.tool_uses()).map(|call| Arc::clone(&call.id));
        self.seen_ids = ids.collect();
        let Past { saved, history, said: _ } = past;
        let tools = sh.params.tools;
        let view = View::restored(&history, &saved.shown, &tools, || sh.next_message());
        self.notices_taken = saved.notices_taken;
        self.notices = saved.notices.into();
        // The hooks may be others than they were.
        let mut blocks = saved.blocks;
        blocks.resize(sh.params.hooks.len(), 0);
        self.state = State {
            messages: history,
            view,
            auto_compact: saved.auto_compact,
            turn_count: saved.turn,
            transition: saved.transition,
            output_recovery_count: saved.output_recoveries,
            output_tokens_override: saved.output_override,
            has_escalated: saved.has_escalated,
            attempted_reactive_compact: saved.attempted_reactive_compact,
            attempted_strip_thinking: saved.attempted_strip_thinking,
            stop_hook_active: saved.stop_hook_active,
            blocks,
            inputs_taken: saved.inputs_taken.min(sh.params.follow_ups.len()),
            empty_answers: saved.empty_answers,
            pauses: saved.pauses,
            budget: saved.budget,
            model: saved.model,
            fallback_turns: saved.fallback_turns,
            ..State::first(0)
        };
    }
}
