//! How a loop ends: each end with its evidence, and in a state that can be resumed.

use super::agent::{Agent, Ask, Phase};
use super::context::Window;
use super::effect::{Effect, Notice, QueuedInput};
use super::failure::Failure;
use super::shared::Shared;
use super::transcript::Origin;
use super::words;
use crate::outcome::{AbortReason, HookEvidence, ModelError, Terminal, TerminalReason};
use crate::units::Tokens;

impl Agent {
    pub(super) fn complete(&mut self, sh: &mut Shared) {
        let message = "the model finished and nothing objected".to_owned();
        self.finish(sh, TerminalReason::Completed, message, |_| {});
    }

    pub(super) fn budget_exhausted(&mut self, sh: &mut Shared, prompt: Tokens) {
        let (used, cap) = (sh.ledger.used().counted(), sh.ledger.caps().tokens);
        let message = format!(
            "the token budget is used up: {} of {} tokens, and the next call could need {} and an answer",
            used.0, cap.0, prompt.0
        );
        sh.emit(Notice::LimitReached(message.clone()));
        // Where the budget is a target and the work was done once already, to reach it is no failure.
        let wanted = self.state.budget.continuations > 0;
        self.finish(sh, TerminalReason::Completed, message, |end| end.budget_exhausted = !wanted);
    }

    pub(super) fn out_of_turns(&mut self, sh: &mut Shared) {
        let message = self.out_of_turns_message(sh);
        sh.emit(Notice::LimitReached(message.clone()));
        self.finish(sh, TerminalReason::MaxTurns, message, |_| {});
    }

    fn out_of_turns_message(&self, sh: &Shared) -> String {
        let (turns, max) = match self.parent {
            None => (sh.turns, sh.params.max_turns),
            Some(_) => (self.turns(), self.max_turns),
        };
        format!("the turn limit was reached: {turns} of {max} turns")
    }

    pub(super) fn blocking_limit(&mut self, sh: &mut Shared, prompt: Tokens, window: Window) {
        let why = if !sh.params.features.auto_compact {
            "compaction is switched off"
        } else if self.has_what_to_compact(window) {
            "compacting it did not help"
        } else {
            "the task itself fills it, so there is nothing to compact"
        };
        let message = format!(
            "the conversation is full: the next prompt needs {} tokens, at most {} of the model's window of {} can be sent, and {why}",
            prompt.0,
            window.blocking_limit.0,
            sh.limits(self.state.model).context_window.0
        );
        sh.emit(Notice::LimitReached(message.clone()));
        self.finish(sh, TerminalReason::BlockingLimit, message, |_| {});
    }

    /// An error without recovery.
    pub(super) fn give_up(&mut self, sh: &mut Shared, failure: Failure) {
        self.fail(sh, TerminalReason::ModelError, failure);
    }

    /// The withheld error surfaces: every recovery has failed.
    pub(super) fn prompt_too_long(&mut self, sh: &mut Shared, failure: Failure) {
        self.fail(sh, TerminalReason::PromptTooLong, failure);
    }

    pub(super) fn image_error(&mut self, sh: &mut Shared, failure: Failure) {
        self.fail(sh, TerminalReason::ImageError, failure);
    }

    fn fail(&mut self, sh: &mut Shared, reason: TerminalReason, failure: Failure) {
        let Failure { kind, message, request_id, status, remedy: _ } = failure;
        let error = ModelError { kind, message: message.clone(), request_id, status };
        self.finish(sh, reason, message, |end| end.error = Some(error));
    }

    /// A tool hook ended the query.
    pub(super) fn hook_stopped(&mut self, sh: &mut Shared, hook: HookEvidence) {
        let message = format!("hook `{}` stopped the work: {}", hook.name, hook.tail.trim());
        self.finish(sh, TerminalReason::HookStopped, message, |end| end.hook = Some(hook));
    }

    /// Ends the loop in a state that can be resumed: every call has its result, and the last word says what happened.
    pub(super) fn abort(&mut self, sh: &mut Shared, reason: AbortReason) {
        let terminal = match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Calling { call, ask, live, .. } => {
                // The provider bills what it had read and said by then.
                sh.stop_call(call);
                if ask == Ask::Turn {
                    self.keep_partial(sh, live, words::aborted_result);
                }
                TerminalReason::AbortedStreaming
            }
            Phase::New | Phase::Waiting { .. } | Phase::Starved { .. } | Phase::Finished => {
                TerminalReason::AbortedStreaming
            }
            Phase::Tools(calls) => {
                self.stop_calls(sh, calls, words::aborted_result);
                if !self.may_turn(sh) {
                    let message = self.out_of_turns_message(sh);
                    sh.emit(Notice::LimitReached(message));
                }
                TerminalReason::AbortedTools
            }
            Phase::Hooks { .. } => TerminalReason::AbortedTools,
        };
        let message = match reason {
            AbortReason::Interrupt => "interrupted by a signal".to_owned(),
            AbortReason::Timeout => "the job's time ran out".to_owned(),
            AbortReason::FailFast => "stopped because another job failed".to_owned(),
            AbortReason::LoopDetected => "the model went round in circles".to_owned(),
            AbortReason::Input => "a newer input replaced the turn".to_owned(),
            AbortReason::CostLimit => {
                let (spent, cap) = (sh.ledger.spent(), sh.ledger.caps().cost.unwrap_or_default());
                let message = format!("the spending cap is reached: {spent} of {cap}, and the next call could pass it");
                sh.emit(Notice::LimitReached(message.clone()));
                message
            }
        };
        self.interrupt(sh, terminal, reason, message);
    }

    /// The model went round in circles: its calls have all ended.
    pub(super) fn looping(&mut self, sh: &mut Shared, evidence: &str) {
        let message = format!("the model went round in circles: {evidence}");
        sh.emit(Notice::LimitReached(message.clone()));
        self.interrupt(sh, TerminalReason::AbortedTools, AbortReason::LoopDetected, message);
    }

    /// The last word of an aborted loop, and its end.
    fn interrupt(&mut self, sh: &mut Shared, terminal: TerminalReason, reason: AbortReason, message: String) {
        // A newer input says itself why it goes on otherwise.
        if reason != AbortReason::Input {
            self.say(sh, Origin::Interruption, words::interruption(reason));
        }
        self.finish(sh, terminal, message, |end| end.abort = Some(reason));
    }

    pub(super) fn finish(
        &mut self,
        sh: &mut Shared,
        reason: TerminalReason,
        message: String,
        evidence: impl FnOnce(&mut Terminal),
    ) {
        let mut terminal = Terminal { reason, message, abort: None, error: None, hook: None, budget_exhausted: false };
        evidence(&mut terminal);
        self.drop_summary(sh);
        // An end of the loop's own accord deals with every input that was taken; an error or an abort with none.
        let own_accord = match reason {
            TerminalReason::Completed
            | TerminalReason::MaxTurns
            | TerminalReason::StopHookPrevented
            | TerminalReason::HookStopped => true,
            TerminalReason::BlockingLimit
            | TerminalReason::PromptTooLong
            | TerminalReason::ImageError
            | TerminalReason::ModelError
            | TerminalReason::AbortedStreaming
            | TerminalReason::AbortedTools => false,
        };
        if own_accord && self.parent.is_none() {
            let follow_ups = (0..self.state.inputs_taken).map(QueuedInput::FollowUp);
            let commands = self.notices_taken.iter().cloned().map(QueuedInput::Command);
            for input in follow_ups.chain(commands) {
                sh.out.push(Effect::Emit(Notice::InputCompleted(input)));
            }
        }
        self.phase = Phase::Finished;
        self.terminal = Some(terminal);
    }
}
