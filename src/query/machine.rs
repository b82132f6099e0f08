//! [`Query`]: the loop itself.

use super::budget::{CapReached, Ledger, MIN_OUTPUT, Reservation};
use super::calls::Calls;
use super::effect::{Effect, ModelCall, Notice};
use super::event::{CallId, Event, HookResult, HookStatus, Reply, Stop};
use super::failure::{Failure, Remedy};
use super::params::{OnRed, Params};
use super::repetition::{Repetition, Verdict};
use super::state::{Measured, OUTPUT_RECOVERIES, State};
use super::transcript::{Block, History, Message, Origin, Role, ToolInput, ToolResult, ToolUse, ToolUseId};
use super::words;
use crate::outcome::{AbortReason, HookEvidence, HookKind, ModelErrorKind, TerminalReason, Transition};
use crate::units::{Elapsed, Turns, Usage, show_duration};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One query: a conversation with a model that calls tools, driven by events, until one [`Terminal`](crate::outcome::Terminal).
///
/// Call order: [`step`](Self::step) with [`Event::Start`] once, then with whatever the performed effects bring; with
/// [`Event::Tick`] at [`deadline`](Self::deadline) at the latest. `now` never goes back. Each effect is performed in order.
/// Nothing follows [`Effect::Finish`]: later events give no effects.
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) params: Params,
    pub(super) state: State,
    pub(super) phase: Phase,
    pub(super) ledger: Ledger,
    seen_ids: BTreeSet<ToolUseId>,
    repetition: Repetition,
    last_call: u32,
    last_message: u64,
}

/// What the query waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    New,
    Calling { call: CallId, retry: u32, reserved: Reservation, told: Option<Usage> },
    Waiting { until: Elapsed, retry: u32 },
    Tools(Calls),
    Hooks { index: usize, reds: Vec<(usize, HookResult)> },
    Finished,
}

impl Query {
    /// A query that has not begun.
    #[must_use]
    pub fn new(params: Params) -> Self {
        let state = State::first(History::default(), params.hooks.len());
        let ledger = Ledger::new(params.caps.clone());
        Self {
            params,
            state,
            phase: Phase::New,
            ledger,
            seen_ids: BTreeSet::new(),
            repetition: Repetition::default(),
            last_call: 0,
            last_message: 0,
        }
    }

    /// Takes one event and says what is to be done.
    pub fn step(&mut self, now: Elapsed, event: Event) -> Vec<Effect> {
        let mut out = Vec::new();
        match (std::mem::replace(&mut self.phase, Phase::Finished), event) {
            (Phase::Finished, _) => {}
            (phase, Event::Cancel(reason)) => self.abort(phase, reason, &mut out),
            (phase, Event::Tick) if now >= self.params.deadline => self.abort(phase, AbortReason::Timeout, &mut out),
            (Phase::New, Event::Start) => self.open(now, &mut out),
            (Phase::Waiting { until, retry }, Event::Tick) if now >= until => self.call_model(now, retry, &mut out),
            (Phase::Calling { call, reserved, .. }, Event::Reply { call: id, reply }) if call == id => {
                self.take_reply(now, call, reserved, reply, &mut out);
            }
            (Phase::Calling { call, retry, reserved, .. }, Event::UsageTold { call: id, usage }) if call == id => {
                self.phase = Phase::Calling { call, retry, reserved, told: Some(usage) };
            }
            (Phase::Calling { call, retry, told, .. }, Event::ModelFailed { call: id, failure, usage })
                if call == id =>
            {
                self.take_failure(now, call, retry, failure, usage.or(told), &mut out);
            }
            (Phase::Tools(calls), Event::ToolDone(result)) => self.take_result(now, calls, result, &mut out),
            (Phase::Hooks { index, reds }, Event::HookDone { index: done, result }) if index == done => {
                self.take_hook(now, index, reds, result, &mut out);
            }
            // Late news of something that was given up, or a tick before its time: nothing changes.
            (phase, _) => self.phase = phase,
        }
        out
    }

    /// The latest moment for the next [`Event::Tick`]; `None` when the query has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Elapsed> {
        match &self.phase {
            Phase::Finished => None,
            Phase::Waiting { until, .. } => Some(self.params.deadline.min(*until)),
            Phase::New | Phase::Calling { .. } | Phase::Tools(_) | Phase::Hooks { .. } => Some(self.params.deadline),
        }
    }

    /// The state between iterations.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// What it has used and spent.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Responses that the loop has accepted.
    #[must_use]
    pub const fn turns(&self) -> Turns {
        Turns(self.state.turn_count.0.saturating_sub(1))
    }

    /// Model calls that were sent, retries included.
    #[must_use]
    pub const fn model_calls(&self) -> u32 {
        self.last_call
    }

    // --- the iteration, in the order in which it runs ---

    fn open(&mut self, now: Elapsed, out: &mut Vec<Effect>) {
        let prompt = std::mem::take(&mut self.params.prompt);
        let blocks = prompt.into_iter().filter(|text| !text.trim().is_empty()).map(Block::Text).collect();
        let message = self.message(Role::User, Origin::Prompt, blocks);
        self.state = State { messages: self.record(message, out), ..self.state.clone() };
        self.call_model(now, 0, out);
    }

    /// Reserves and calls; `retry` counts how often this very request has failed.
    fn call_model(&mut self, now: Elapsed, retry: u32, out: &mut Vec<Effect>) {
        if now >= self.params.deadline {
            return self.abort(Phase::New, AbortReason::Timeout, out);
        }
        let prompt = self.state.prompt_estimate(self.params.overhead);
        let room = self.params.context_window.minus(prompt);
        // A prompt that fills the window is the provider's to refuse; here the output cap only shrinks to what is left.
        let cap = self.state.output_tokens_override.unwrap_or(self.params.max_output);
        let wanted = if room >= MIN_OUTPUT { cap.min(room) } else { cap };
        let reserved = match self.ledger.reserve(prompt, wanted) {
            Ok(reserved) => reserved,
            Err(CapReached::Tokens) => return self.budget_exhausted(prompt, out),
            Err(CapReached::Cost) => return self.abort(Phase::New, AbortReason::CostLimit, out),
        };
        self.last_call += 1;
        let call = CallId(self.last_call);
        out.push(Effect::Emit(Notice::ModelCalled { call, turn: self.state.turn_count, estimate: prompt }));
        let history = self.state.messages.clone();
        out.push(Effect::CallModel(ModelCall {
            id: call,
            history,
            max_output: reserved.output,
            source: super::effect::Source::Job,
            model: super::effect::ModelSlot::Main,
            task_budget: None,
            clearing: None,
            thinking_stripped: false,
        }));
        self.phase = Phase::Calling { call, retry, reserved, told: None };
    }

    fn take_reply(&mut self, now: Elapsed, call: CallId, reserved: Reservation, reply: Reply, out: &mut Vec<Effect>) {
        let Reply { blocks, stop, usage, cleared: _, request_id } = reply;
        let cost = self.settle(call, Some(reserved), &usage, out);
        let error = |kind, message: String, request_id| {
            Some(Failure { remedy: Remedy::GiveUp, kind, message, request_id, status: None })
        };
        let blocks = presentable(blocks);
        let cut = stop == Stop::MaxTokens;
        if cut && is_unfinished(&blocks) && self.escalate(now, out) {
            return;
        }
        let recovers = cut && has_no_call(&blocks) && self.state.output_recovery_count < OUTPUT_RECOVERIES;
        let failure = match stop {
            Stop::Refusal(why) => error(ModelErrorKind::Refused, why, request_id.clone()),
            Stop::ContextWindow => {
                let message = "the answer reached the end of the model's context window".to_owned();
                error(ModelErrorKind::ContextExhausted, message, request_id.clone())
            }
            // With calls in it a cut answer goes on: a cut call has an error result, the model reads why.
            Stop::MaxTokens if has_no_call(&blocks) && !recovers => {
                let message = format!("the answer was cut at the output limit of {} tokens", reserved.output.0);
                error(ModelErrorKind::OutputTruncated, message, request_id.clone())
            }
            Stop::MaxTokens | Stop::Pause | Stop::Ordinary(_) => self.repeated_id(&blocks).and_then(|id| {
                let message = format!("the answer uses the id of an earlier call again: {id}");
                error(ModelErrorKind::MalformedOutput, message, request_id.clone())
            }),
        };
        if let Some(failure) = failure {
            return self.give_up(failure, out);
        }

        let message = self.message(Role::Assistant, Origin::Model, blocks);
        let turn = self.state.turn_count;
        // An empty answer is a turn, but providers refuse an empty message, so it never enters the history.
        let messages = if message.blocks.is_empty() {
            self.state.messages.clone()
        } else {
            self.record(Arc::clone(&message), out)
        };
        let measured = Some(Measured { tokens: usage.prompt() + usage.output, messages: messages.len() });
        let notice = Notice::Turn { turn, message: Arc::clone(&message), usage, cost, request_id };
        out.push(Effect::Emit(notice));
        let output_tokens_override = None;
        self.state =
            State { messages, turn_count: turn.next(), measured, output_tokens_override, ..self.state.clone() };
        if recovers {
            return self.go_on_where_cut(now, out);
        }

        // Whether to go on is decided by one thing: did calls arrive.
        let calls: Vec<ToolUse> = message.tool_uses().cloned().collect();
        if calls.is_empty() {
            return self.conclude(now, out);
        }
        self.seen_ids.extend(calls.iter().map(|call| Arc::clone(&call.id)));
        self.run_calls(now, Calls::new(calls.into_iter(), self.params.concurrency), out);
    }

    /// The first rung after a cut: the same request with a larger cap, once in a query. Says whether it was taken.
    fn escalate(&mut self, now: Elapsed, out: &mut Vec<Effect>) -> bool {
        let Some(larger) = self.params.escalated_output.take() else { return false };
        let state = State { output_tokens_override: Some(larger), ..self.state.clone() };
        self.go_on(now, Transition::MaxOutputTokensEscalate, state, out);
        true
    }

    /// The second rung: the part that came is kept, and the model goes on where it was cut off.
    fn go_on_where_cut(&mut self, now: Elapsed, out: &mut Vec<Effect>) {
        if self.turns() >= self.params.max_turns {
            return self.max_turns(out);
        }
        let message = self.message(Role::User, Origin::Recovery, vec![Block::Text(words::GO_ON.into())]);
        let messages = self.record(message, out);
        let output_recovery_count = self.state.output_recovery_count + 1;
        let state = State { messages, output_recovery_count, ..self.state.clone() };
        self.go_on(now, Transition::MaxOutputTokensRecovery, state, out);
    }

    fn take_failure(
        &mut self,
        now: Elapsed,
        call: CallId,
        retry: u32,
        failure: Failure,
        usage: Option<Usage>,
        out: &mut Vec<Effect>,
    ) {
        if let Some(usage) = usage {
            self.settle(call, None, &usage, out);
        }
        let Remedy::Retry { after } = failure.remedy else { return self.give_up(failure, out) };
        let retry = retry + 1;
        if retry > self.params.patience.retries {
            let message = format!("{} (given up after {} tries)", failure.message, retry);
            return self.give_up(Failure { message, ..failure }, out);
        }
        let wait = self.params.patience.wait(retry, after, self.params.seed);
        let until = now.plus(wait);
        if until >= self.params.deadline {
            let message = format!(
                "{} (the next try would be in {}, after the end of the job's time)",
                failure.message,
                show_duration(wait)
            );
            return self.give_up(Failure { message, ..failure }, out);
        }
        out.push(Effect::Emit(Notice::Retrying { call, kind: failure.kind, message: failure.message, wait, until }));
        self.phase = Phase::Waiting { until, retry };
    }

    fn run_calls(&mut self, now: Elapsed, mut calls: Calls, out: &mut Vec<Effect>) {
        out.extend(calls.start().into_iter().map(Effect::RunTool));
        if calls.all_done() {
            let verdict = self.repetition.add_all(calls.ended(), self.params.loop_limit);
            let note = match &verdict {
                Verdict::Notice(count) => Some(words::repeated(*count)),
                Verdict::Fine | Verdict::Stop { .. } => None,
            };
            let messages = self.record_results(calls.into_results(words::aborted_result), note, out);
            if let Verdict::Stop { tool, count } = verdict {
                self.state = State { messages, ..self.state.clone() };
                return self.looping(&tool, count, out);
            }
            self.next_turn(now, State { messages, ..self.state.clone() }, out);
        } else {
            self.phase = Phase::Tools(calls);
        }
    }

    fn take_result(&mut self, now: Elapsed, mut calls: Calls, result: ToolResult, out: &mut Vec<Effect>) {
        calls.finish(result);
        self.run_calls(now, calls, out);
    }

    /// The model has finished with what it was given: the next input, or the stop hooks.
    fn conclude(&mut self, now: Elapsed, out: &mut Vec<Effect>) {
        let index = self.state.inputs_taken;
        if let Some(input) = self.params.follow_ups.get(index) {
            if self.turns() >= self.params.max_turns {
                return self.max_turns(out);
            }
            let message = self.message(Role::User, Origin::FollowUp(index), vec![Block::Text(input.clone())]);
            out.push(Effect::Emit(Notice::InputStarted(index)));
            let messages = self.record(message, out);
            let state = State { messages, inputs_taken: index + 1, stop_hook_active: false, ..self.state.clone() };
            return self.next_turn(now, state, out);
        }
        if self.params.hooks.is_empty() {
            return self.complete(out);
        }
        out.push(Effect::RunHook { index: 0 });
        self.phase = Phase::Hooks { index: 0, reds: Vec::new() };
    }

    fn take_hook(
        &mut self,
        now: Elapsed,
        index: usize,
        mut reds: Vec<(usize, HookResult)>,
        result: HookResult,
        out: &mut Vec<Effect>,
    ) {
        let passed = result.status == HookStatus::Pass;
        let mut blocks = self.state.blocks.clone();
        let mut count = 0;
        if let Some(block) = blocks.get_mut(index) {
            *block = if passed { 0 } else { block.saturating_add(1) };
            count = *block;
        }
        self.state = State { blocks, ..self.state.clone() };
        out.push(Effect::Emit(Notice::HookJudged { index, passed, blocks: count }));
        let Some(rule) = self.params.hooks.get(index) else { return self.complete(out) };
        let ends = match (&result.status, rule.on_red) {
            (HookStatus::Pass, _) => None,
            (HookStatus::Broken(_), _) => Some(format!("gate `{}` {}", rule.name, words::describe(&result))),
            (HookStatus::Fail { .. } | HookStatus::TimedOut, OnRed::Stop) => {
                Some(format!("gate `{}` {}, and it is set to stop the job", rule.name, words::describe(&result)))
            }
            (HookStatus::Fail { .. } | HookStatus::TimedOut, OnRed::Block) => (count > rule.max_blocks).then(|| {
                let how = words::describe(&result);
                format!(
                    "gate `{}` {how}, after it had sent the model back {} times in a row",
                    rule.name, rule.max_blocks
                )
            }),
        };
        if let Some(message) = ends {
            let broken = matches!(result.status, HookStatus::Broken(_));
            let gate = HookEvidence { kind: HookKind::Gate, name: rule.name.clone(), tail: result.tail, broken };
            return self.finish(TerminalReason::StopHookPrevented, message, |end| end.hook = Some(gate), out);
        }
        if !passed {
            reds.push((index, result));
        }
        if index + 1 < self.params.hooks.len() {
            out.push(Effect::RunHook { index: index + 1 });
            self.phase = Phase::Hooks { index: index + 1, reds };
        } else if reds.is_empty() {
            self.complete(out);
        } else {
            self.send_back(now, &reds, out);
        }
    }

    /// Stop hooks objected: their output becomes a message, and the model works on.
    fn send_back(&mut self, now: Elapsed, reds: &[(usize, HookResult)], out: &mut Vec<Effect>) {
        if self.turns() >= self.params.max_turns {
            return self.max_turns(out);
        }
        let reds: Vec<_> =
            reds.iter().filter_map(|(index, result)| Some((self.params.hooks.get(*index)?, result))).collect();
        let text = words::blocked(&reds);
        let message = self.message(Role::User, Origin::Gate, vec![Block::Text(text)]);
        let messages = self.record(message, out);
        let state = State { messages, stop_hook_active: true, ..self.state.clone() };
        self.go_on(now, Transition::StopHookBlocking, state, out);
    }

    fn next_turn(&mut self, now: Elapsed, state: State, out: &mut Vec<Effect>) {
        if self.turns() >= self.params.max_turns {
            self.state = state;
            return self.max_turns(out);
        }
        self.go_on(now, Transition::NextTurn, state, out);
    }

    /// The one place where an iteration follows another: a whole new state, and why.
    fn go_on(&mut self, now: Elapsed, transition: Transition, state: State, out: &mut Vec<Effect>) {
        self.state = State { transition: Some(transition), ..state };
        out.push(Effect::Emit(Notice::Continued(transition)));
        self.call_model(now, 0, out);
    }

    // --- bookkeeping ---

    pub(super) fn settle(
        &mut self,
        call: CallId,
        reserved: Option<Reservation>,
        usage: &Usage,
        out: &mut Vec<Effect>,
    ) -> crate::units::Usd {
        if let Some(reserved) = reserved.filter(|reserved| usage.prompt() + usage.output > reserved.total()) {
            let used = usage.prompt() + usage.output;
            out.push(Effect::Emit(Notice::ReserveExceeded { call, reserved: reserved.total(), used }));
        }
        self.ledger.settle(usage)
    }

    pub(super) fn message(&mut self, role: Role, origin: Origin, blocks: Vec<Block>) -> Arc<Message> {
        self.last_message += 1;
        Arc::new(Message { id: self.last_message, role, origin, blocks })
    }

    pub(super) fn record(&self, message: Arc<Message>, out: &mut Vec<Effect>) -> History {
        out.push(Effect::Record(Arc::clone(&message)));
        self.state.messages.with(message)
    }

    pub(super) fn record_results(
        &mut self,
        results: Vec<ToolResult>,
        note: Option<String>,
        out: &mut Vec<Effect>,
    ) -> History {
        let blocks = results.into_iter().map(Block::ToolResult).chain(note.map(Block::Text)).collect();
        let message = self.message(Role::User, Origin::ToolResults, blocks);
        self.record(message, out)
    }

    fn repeated_id(&self, blocks: &[Block]) -> Option<ToolUseId> {
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
fn presentable(blocks: Vec<Block>) -> Vec<Block> {
    let mut blocks: Vec<Block> = blocks
        .into_iter()
        .filter(|block| match block {
            Block::Text(text) => !text.trim().is_empty(),
            Block::ToolResult(_) => false,
            Block::Thinking { .. } | Block::ToolUse(_) | Block::Opaque(_) => true,
        })
        .collect();
    while matches!(blocks.last(), Some(Block::Thinking { .. })) {
        blocks.pop();
    }
    blocks
}

fn has_no_call(blocks: &[Block]) -> bool {
    !blocks.iter().any(|block| matches!(block, Block::ToolUse(_)))
}

/// Whether a cut answer is of little use as it is: its text was cut, or its last call.
fn is_unfinished(blocks: &[Block]) -> bool {
    match blocks.last() {
        Some(Block::ToolUse(call)) => matches!(call.input, ToolInput::Invalid { .. }),
        Some(Block::Text(_) | Block::Thinking { .. } | Block::ToolResult(_) | Block::Opaque(_)) | None => true,
    }
}
