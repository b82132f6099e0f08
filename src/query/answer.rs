//! What the loop does with a whole answer of the model.

use super::agent::{Agent, Ask, Live, Tries};
use super::effect::{Layer, ModelSlot, Notice};
use super::event::{CallId, Reply, Stop};
use super::failing::{discard, stop_runs};
use super::failure::{Failure, Remedy};
use super::shared::Shared;
use super::state::{OUTPUT_RECOVERIES, State};
use super::transcript::is_thinking;
use super::transcript::{Block, Origin, Role, ToolInput, ToolUse, ToolUseId};
use super::words;
use crate::outcome::{ModelErrorKind, Transition};
use crate::units::Tokens;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often a request is sent again at once whose answer made no sense.
const MALFORMED: u32 = 2;
/// How often in a row a model whose answer was empty is asked to go on.
const EMPTY_ANSWERS: u32 = 2;
/// How often in a row a paused answer is gone on with.
const PAUSES: u32 = 5;

impl Agent {
    pub(super) fn take_reply(&mut self, sh: &mut Shared, call: CallId, tries: Tries, live: Live, reply: Reply) {
        let Reply { blocks, stop, usage, cleared, request_id } = reply;
        let (usage, cost) = sh.land(call, Some(usage));
        if let Some(cleared) = cleared.filter(|cleared| cleared.tool_results > 0) {
            self.tell_boundary(sh, Layer::MicroCompact, cleared.tokens, cleared.tool_results as usize);
        }
        let blocks = presentable(blocks);
        let failure = |kind, message: String| Failure {
            remedy: Remedy::GiveUp,
            kind,
            message,
            request_id: request_id.clone(),
            status: None,
        };
        let has_calls = blocks.iter().any(|block| matches!(block, Block::ToolUse(_)));
        let cut = stop == Stop::MaxTokens;
        if cut && is_unfinished(&blocks) && self.may_escalate(sh) {
            discard(sh, call, &live);
            return self.escalate(sh);
        }
        let recovers = cut && !has_calls && self.state.output_recovery_count < OUTPUT_RECOVERIES;
        match &stop {
            Stop::Refusal(why) => {
                discard(sh, call, &live);
                return self.give_up(sh, failure(ModelErrorKind::Refused, why.clone()));
            }
            // With whole calls in it the answer is of use; before the next one the context is managed.
            Stop::ContextWindow if !has_calls => {
                discard(sh, call, &live);
                let message = "the answer reached the end of the model's context window";
                return self.too_long(sh, failure(ModelErrorKind::ContextExhausted, message.into()));
            }
            Stop::MaxTokens if !has_calls && !recovers => {
                discard(sh, call, &live);
                let message =
                    format!("the answer was cut at the output limit again, after {OUTPUT_RECOVERIES} recoveries");
                return self.give_up(sh, failure(ModelErrorKind::OutputTruncated, message));
            }
            Stop::MaxTokens | Stop::ContextWindow | Stop::Pause | Stop::Ordinary(_) => {}
        }
        if let Some(id) = self.repeated_id(&blocks) {
            discard(sh, call, &live);
            if tries.malformed < MALFORMED {
                return self.call_model(sh, Ask::Turn, Tries { malformed: tries.malformed + 1, ..tries });
            }
            let message = format!("the answer uses the id of an earlier call again: {id}");
            return self.give_up(sh, failure(ModelErrorKind::MalformedOutput, message));
        }

        sh.turns = sh.turns.next();
        let message = sh.message(Role::Assistant, Origin::Model, blocks);
        let model = self.state.model;
        // After tool results a model may have nothing to say and not be done (the provider's guide to stop reasons, 2026).
        let last = self.state.messages.last().map(|message| message.origin);
        let answers_results = matches!(last, Some(Origin::ToolResults | Origin::Recovery));
        // An empty answer is a turn, but providers refuse an empty message, so it never enters the history.
        let is_empty = message.blocks.is_empty();
        if !is_empty {
            self.append(sh, &message);
        }
        let turn = sh.turns;
        let notice =
            Notice::Turn { agent: self.id, turn, message: Arc::clone(&message), model, usage, cost, request_id };
        sh.emit(notice);
        let size = if usage.prompt() == Tokens(0) { Tokens(0) } else { usage.prompt() + usage.output };
        self.accepted(sh, size, is_empty, stop == Stop::Pause);
        if recovers {
            stop_runs(sh, &live);
            return self.go_on_where_cut(sh);
        }

        // Whether to go on is decided by one thing: did calls arrive.
        let calls: Vec<ToolUse> = message.tool_uses().cloned().collect();
        if !calls.is_empty() {
            self.seen_ids.extend(calls.iter().map(|call| Arc::clone(&call.id)));
            return self.run_whole(sh, live, calls, message.id);
        }
        // What was shown stays; a call that began early and is not in the whole answer does not.
        stop_runs(sh, &live);
        if is_empty && answers_results && self.state.empty_answers <= EMPTY_ANSWERS {
            if !self.may_turn(sh) {
                return self.out_of_turns(sh);
            }
            self.say(sh, Origin::Recovery, words::EMPTY);
            return self.go_on(sh, Transition::NextTurn);
        }
        if stop == Stop::Pause && !is_empty && self.state.pauses <= PAUSES {
            return self.next_turn(sh);
        }
        self.conclude(sh);
    }

    /// Takes note of a response that counts.
    fn accepted(&mut self, sh: &mut Shared, size: Tokens, is_empty: bool, is_pause: bool) {
        let state = &self.state;
        let compact = state.auto_compact;
        self.state = State {
            turn_count: state.turn_count.next(),
            view: if is_empty { state.view.clone() } else { state.view.measured(size, sh.params.overhead) },
            output_tokens_override: None,
            empty_answers: if is_empty { state.empty_answers + 1 } else { 0 },
            pauses: if is_pause { state.pauses + 1 } else { 0 },
            auto_compact: super::AutoCompact { turns_since: compact.turns_since.saturating_add(1), ..compact },
            ..self.taken()
        };
        if self.state.model == ModelSlot::Fallback {
            let left = self.state.fallback_turns.saturating_sub(1);
            self.state = State { fallback_turns: left, ..self.taken() };
            if left == 0 {
                self.switch_model(sh, ModelSlot::Main, "it is tried again");
            }
        }
    }

    /// Whether the answer may be asked for once more with a larger output cap.
    fn may_escalate(&self, sh: &Shared) -> bool {
        !self.state.has_escalated && sh.limits(self.state.model).escalated_output.is_some()
    }

    /// The first rung after a cut: the same request with a larger cap, once in a query.
    fn escalate(&mut self, sh: &mut Shared) {
        let output_tokens_override = sh.limits(self.state.model).escalated_output;
        self.state = State { output_tokens_override, has_escalated: true, ..self.taken() };
        self.go_on(sh, Transition::MaxOutputTokensEscalate);
    }

    /// The second rung: the part that came is kept, and the model goes on where it was cut off.
    fn go_on_where_cut(&mut self, sh: &mut Shared) {
        if !self.may_turn(sh) {
            return self.out_of_turns(sh);
        }
        self.say(sh, Origin::Recovery, words::GO_ON);
        let output_recovery_count = self.state.output_recovery_count + 1;
        self.state = State { output_recovery_count, ..self.taken() };
        self.go_on(sh, Transition::MaxOutputTokensRecovery);
    }

    pub(super) fn repeated_id(&self, blocks: &[Block]) -> Option<ToolUseId> {
        let mut new = BTreeSet::new();
        blocks.iter().find_map(|block| match block {
            Block::ToolUse(call) => {
                (self.seen_ids.contains(&call.id) || !new.insert(&call.id)).then(|| Arc::clone(&call.id))
            }
            Block::Text(_) | Block::Thinking { .. } | Block::ToolResult(_) | Block::Opaque(_) => None,
        })
    }
}

/// The blocks of an answer that may be sent back: no blank text, no results, and no thinking at the end.
pub(super) fn presentable(blocks: Vec<Block>) -> Vec<Block> {
    let mut blocks: Vec<Block> = blocks
        .into_iter()
        .filter(|block| match block {
            Block::Text(text) => !text.trim().is_empty(),
            Block::ToolResult(_) => false,
            Block::Thinking { .. } | Block::ToolUse(_) | Block::Opaque(_) => true,
        })
        .collect();
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    blocks
}

/// Whether a cut answer is of little use as it is: its text was cut, or its last call.
fn is_unfinished(blocks: &[Block]) -> bool {
    match blocks.last() {
        Some(Block::ToolUse(call)) => matches!(call.input, ToolInput::Invalid { .. }),
        Some(Block::Text(_) | Block::Thinking { .. } | Block::ToolResult(_) | Block::Opaque(_)) | None => true,
    }
}
