//! How a query ends: each end with its evidence, and in a state that can be resumed.

use super::effect::{Effect, Notice};
use super::failure::Failure;
use super::machine::{Phase, Query};
use super::state::State;
use super::transcript::{Block, Origin, Role};
use super::words;
use crate::outcome::{AbortReason, ModelError, Terminal, TerminalReason};
use crate::units::Tokens;

impl Query {
    pub(super) fn complete(&mut self, out: &mut Vec<Effect>) {
        let message = "the model finished and nothing objected".to_owned();
        self.finish(TerminalReason::Completed, message, |_| {}, out);
    }

    pub(super) fn budget_exhausted(&mut self, prompt: Tokens, out: &mut Vec<Effect>) {
        let (used, cap) = (self.ledger.used().counted(), self.ledger.caps().tokens);
        let message = format!(
            "the token budget is used up: {} of {} tokens, and the next call could need {} and an answer",
            used.0, cap.0, prompt.0
        );
        out.push(Effect::Emit(Notice::LimitReached(message.clone())));
        self.finish(TerminalReason::Completed, message, |end| end.budget_exhausted = true, out);
    }

    pub(super) fn max_turns(&mut self, out: &mut Vec<Effect>) {
        let message = self.max_turns_message();
        out.push(Effect::Emit(Notice::LimitReached(message.clone())));
        self.finish(TerminalReason::MaxTurns, message, |_| {}, out);
    }

    fn max_turns_message(&self) -> String {
        format!("the turn limit was reached: {} of {} turns", self.turns(), self.params.max_turns)
    }

    pub(super) fn give_up(&mut self, failure: Failure, out: &mut Vec<Effect>) {
        let Failure { kind, message, request_id, status, remedy: _ } = failure;
        let error = ModelError { kind, message: message.clone(), request_id, status };
        self.finish(TerminalReason::ModelError, message, |end| end.error = Some(error), out);
    }

    /// Ends the query in a state that can be resumed: every call has its result, and the last word says what happened.
    pub(super) fn abort(&mut self, phase: Phase, reason: AbortReason, out: &mut Vec<Effect>) {
        out.push(Effect::StopAll);
        let terminal = match phase {
            Phase::New | Phase::Calling { .. } | Phase::Waiting { .. } | Phase::Finished => {
                TerminalReason::AbortedStreaming
            }
            Phase::Tools(_) | Phase::Hooks { .. } => TerminalReason::AbortedTools,
        };
        if let Phase::Calling { call, told: Some(usage), .. } = &phase {
            // The provider bills what it had read and said by then.
            self.settle(*call, None, usage, out);
        }
        if let Phase::Tools(calls) = phase {
            let messages = self.record_results(calls.into_results(words::aborted_result), None, out);
            self.state = State { messages, ..self.state.clone() };
            if self.turns() >= self.params.max_turns {
                out.push(Effect::Emit(Notice::LimitReached(self.max_turns_message())));
            }
        }
        let message = match reason {
            AbortReason::Interrupt => "interrupted by a signal".to_owned(),
            AbortReason::Timeout => "the job's time ran out".to_owned(),
            AbortReason::FailFast => "stopped because another job failed".to_owned(),
            AbortReason::LoopDetected => "the model went round in circles".to_owned(),
            AbortReason::Input => "a newer input replaced the turn".to_owned(),
            AbortReason::CostLimit => {
                let (spent, cap) = (self.ledger.spent(), self.ledger.caps().cost.unwrap_or_default());
                let message = format!("the spending cap is reached: {spent} of {cap}, and the next call could pass it");
                out.push(Effect::Emit(Notice::LimitReached(message.clone())));
                message
            }
        };
        self.interrupt(terminal, reason, message, out);
    }

    /// The model went round in circles: its calls have all ended.
    pub(super) fn looping(&mut self, tool: &str, count: u32, out: &mut Vec<Effect>) {
        let message = format!("the model made the same call of {tool} with the same result {count} times in a row");
        out.push(Effect::Emit(Notice::LimitReached(message.clone())));
        self.interrupt(TerminalReason::AbortedTools, AbortReason::LoopDetected, message, out);
    }

    /// The last word of an aborted query, and its end.
    fn interrupt(&mut self, terminal: TerminalReason, reason: AbortReason, message: String, out: &mut Vec<Effect>) {
        let notice = self.message(Role::User, Origin::Interruption, vec![Block::Text(words::interruption(reason))]);
        let messages = self.record(notice, out);
        self.state = State { messages, ..self.state.clone() };
        self.finish(terminal, message, |end| end.abort = Some(reason), out);
    }

    pub(super) fn finish(
        &mut self,
        reason: TerminalReason,
        message: String,
        evidence: impl FnOnce(&mut Terminal),
        out: &mut Vec<Effect>,
    ) {
        let mut terminal = Terminal { reason, message, abort: None, error: None, hook: None, budget_exhausted: false };
        evidence(&mut terminal);
        // An end of the loop's own accord deals with every input that was taken; an error or an abort with none.
        match reason {
            TerminalReason::Completed
            | TerminalReason::MaxTurns
            | TerminalReason::StopHookPrevented
            | TerminalReason::HookStopped => {
                let taken = 0..self.state.inputs_taken;
                out.extend(taken.map(|index| Effect::Emit(Notice::InputCompleted(index))));
            }
            TerminalReason::BlockingLimit
            | TerminalReason::PromptTooLong
            | TerminalReason::ImageError
            | TerminalReason::ModelError
            | TerminalReason::AbortedStreaming
            | TerminalReason::AbortedTools => {}
        }
        self.phase = Phase::Finished;
        out.push(Effect::Finish(terminal));
    }
}
