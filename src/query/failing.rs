//! What the loop does with a call that gave no answer: the recovery ladder, weakest rung first.

use super::agent::{Agent, Ask, Live, Phase, Tries};
use super::answer::presentable;
use super::context::Window;
use super::effect::{Layer, ModelSlot, Notice};
use super::event::CallId;
use super::failure::{Failure, Remedy};
use super::shared::Shared;
use super::state::State;
use super::transcript::{Origin, Role, ToolUse};
use super::words;
use crate::outcome::{ModelErrorKind, Transition};
use crate::units::show_duration;
use std::sync::Arc;

/// After so many overloads or lost connections in a row the fallback model is asked.
const FALLBACK_AFTER: u32 = 3;
/// So many turns the fallback model answers before the main one is tried again.
const FALLBACK_TURNS: u32 = 5;

impl Agent {
    /// A call gave no answer. Its usage is booked.
    pub(super) fn take_failure(
        &mut self,
        sh: &mut Shared,
        call: CallId,
        ask: Ask,
        tries: Tries,
        live: Live,
        failure: Failure,
    ) {
        let counts = matches!(failure.kind, ModelErrorKind::Overloaded | ModelErrorKind::Stream);
        let overloads = if counts { tries.overloads + 1 } else { 0 };
        let tries = Tries { overloads, ..tries };
        let unknown = failure.kind == ModelErrorKind::ModelNotFound;
        if (unknown || overloads >= FALLBACK_AFTER) && self.can_fall_back(sh, tries) {
            discard(sh, call, &live);
            return self.fall_back(sh, ask, tries, &failure);
        }
        match (failure.remedy, ask) {
            (Remedy::Retry { after }, ask) => {
                discard(sh, call, &live);
                self.retry(sh, call, ask, tries, failure, after);
            }
            (Remedy::Shrink, Ask::Turn) => {
                discard(sh, call, &live);
                self.too_long(sh, failure);
            }
            (Remedy::Shrink, Ask::Compact(compaction)) => self.compaction_too_long(sh, *compaction, failure),
            (Remedy::StripMedia, Ask::Turn) => {
                discard(sh, call, &live);
                self.strip_media(sh, failure);
            }
            (Remedy::StripThinking, Ask::Turn) if !self.state.attempted_strip_thinking => {
                discard(sh, call, &live);
                self.strip_thinking(sh);
                self.state = State { attempted_strip_thinking: true, ..self.taken() };
                self.call_model(sh, Ask::Turn, tries);
            }
            (Remedy::StripMedia | Remedy::StripThinking | Remedy::GiveUp, Ask::Compact(compaction)) => {
                self.compaction_failed(sh, *compaction, failure.message);
            }
            (Remedy::StripThinking | Remedy::GiveUp, Ask::Turn) => {
                self.keep_partial(sh, live, words::crashed_result);
                self.give_up(sh, failure);
            }
        }
    }

    fn retry(
        &mut self,
        sh: &mut Shared,
        call: CallId,
        ask: Ask,
        tries: Tries,
        failure: Failure,
        after: Option<std::time::Duration>,
    ) {
        let retry = tries.retry + 1;
        let wait = sh.params.patience.wait(retry, after, sh.params.seed ^ u64::from(self.id.0));
        let until = sh.now.plus(wait);
        let why = if retry > sh.params.patience.retries {
            format!("given up after {retry} tries")
        } else if until >= sh.params.deadline {
            format!("the next try would be in {}, after the end of the job's time", show_duration(wait))
        } else {
            let Failure { kind, message, .. } = failure;
            sh.emit(Notice::Retrying { call, kind, message, wait, until });
            self.phase = Phase::Waiting { until, ask, tries: Tries { retry, ..tries } };
            return;
        };
        let message = format!("{} ({why})", failure.message);
        match ask {
            Ask::Turn => self.give_up(sh, Failure { message, ..failure }),
            Ask::Compact(compaction) => self.compaction_failed(sh, *compaction, message),
        }
    }

    /// The prompt is too long: staged digests first, then a compaction, once in a query; then it is the end.
    pub(super) fn too_long(&mut self, sh: &mut Shared, failure: Failure) {
        if self.state.view.has_staged() {
            let (stored, tools, overhead) = (self.state.messages.clone(), sh.params.tools, sh.params.overhead);
            let is_bound = sh.limits(self.state.model).binds_thinking;
            let view = self.state.view.clone();
            let all = crate::units::Tokens(0);
            if let Some((view, freed)) = view.collapsed(&stored, all, is_bound, overhead, &tools, || sh.next_message())
            {
                self.tell_boundary(sh, Layer::Collapse, freed.tokens, freed.count);
                self.state = State { view, ..self.taken() };
                return self.go_on(sh, Transition::CollapseDrainRetry);
            }
        }
        let window: Window = self.window(sh);
        if !self.state.attempted_reactive_compact && self.has_what_to_compact(window) {
            self.state = State { attempted_reactive_compact: true, ..self.taken() };
            return self.compact(sh, Some(failure));
        }
        self.prompt_too_long(sh, failure);
    }

    /// An image was refused: all of them are taken out, once in a query; then it is the end.
    fn strip_media(&mut self, sh: &mut Shared, failure: Failure) {
        if self.state.attempted_reactive_compact {
            return self.image_error(sh, failure);
        }
        let (stored, tools) = (self.state.messages.clone(), sh.params.tools);
        let mut view = self.state.view.strip_media(&stored, &tools, || sh.next_message());
        if sh.limits(self.state.model).binds_thinking {
            // What came before it has changed.
            view = view.strip_thinking(&stored, stored.len(), &tools, || sh.next_message());
        }
        self.state = State { view, attempted_reactive_compact: true, ..self.taken() };
        self.go_on(sh, Transition::ReactiveCompactRetry);
    }

    /// Stops showing all thinking so far.
    fn strip_thinking(&mut self, sh: &mut Shared) {
        let (stored, tools) = (self.state.messages.clone(), sh.params.tools);
        let view = self.state.view.strip_thinking(&stored, stored.len(), &tools, || sh.next_message());
        self.state = State { view, ..self.taken() };
    }

    fn can_fall_back(&self, sh: &Shared, tries: Tries) -> bool {
        !tries.fell_back && self.state.model == ModelSlot::Main && sh.params.models.fallback.is_some()
    }

    /// The main model stays out of reach: the same request goes to the other one.
    fn fall_back(&mut self, sh: &mut Shared, ask: Ask, tries: Tries, failure: &Failure) {
        self.switch_model(sh, ModelSlot::Fallback, &failure.message);
        // A model that is not there will not be there later.
        let gone = failure.kind == ModelErrorKind::ModelNotFound;
        let fallback_turns = if gone { u32::MAX } else { FALLBACK_TURNS };
        self.state = State { fallback_turns, ..self.taken() };
        let tries = Tries { fell_back: true, ..Tries { malformed: tries.malformed, ..Tries::default() } };
        match ask {
            // The other model's window may be smaller.
            Ask::Turn => self.iterate(sh, tries, false),
            Ask::Compact(_) => self.call_model(sh, ask, tries),
        }
    }

    /// Another model answers from now on: thinking is bound to the one that thought it.
    pub(super) fn switch_model(&mut self, sh: &mut Shared, to: ModelSlot, why: &str) {
        let from = self.state.model;
        let larger = sh.limits(to).context_window > sh.limits(from).context_window;
        let (from, name) = (sh.limits(from).name.clone(), sh.limits(to).name.clone());
        sh.emit(Notice::ModelFallback { agent: self.id, from, to: name, why: why.to_owned() });
        self.strip_thinking(sh);
        let (stored, tools) = (self.state.messages.clone(), sh.params.tools);
        let view = self.state.view.unmeasured();
        let lifted = if larger { view.lifted(&stored, &tools, || sh.next_message()) } else { None };
        self.state = State { model: to, view: lifted.unwrap_or(view), ..self.taken() };
    }

    /// Keeps what has arrived of an answer that nothing will complete: results that have ended, and stand-ins for the others.
    pub(super) fn keep_partial(
        &mut self,
        sh: &mut Shared,
        live: Live,
        missing: impl Fn(&super::ToolUseId) -> super::ToolResult,
    ) {
        let blocks = presentable(live.blocks);
        if blocks.is_empty() || self.repeated_id(&blocks).is_some() {
            return stop_runs(sh, &Live { blocks: Vec::new(), calls: live.calls });
        }
        for run in live.calls.running() {
            sh.stop_run(run);
        }
        let message = sh.message(Role::Assistant, Origin::Model, blocks);
        self.append(sh, &message);
        let calls: Vec<ToolUse> = message.tool_uses().cloned().collect();
        self.seen_ids.extend(calls.iter().map(|call| Arc::clone(&call.id)));
        if !calls.is_empty() {
            let limits = live.calls.result_limits();
            self.append_results(sh, live.calls.into_results(missing), &limits, Vec::new());
        }
    }
}

/// Gives up what has arrived of an answer: it is void, and so is what its calls brought.
pub(super) fn discard(sh: &mut Shared, call: CallId, live: &Live) {
    stop_runs(sh, live);
    let blocks = live.blocks.len();
    if blocks > 0 {
        sh.emit(Notice::Tombstone { call, blocks });
    }
}

/// Stops the calls of an answer that still run.
pub(super) fn stop_runs(sh: &mut Shared, live: &Live) {
    for run in live.calls.running() {
        sh.stop_run(run);
    }
}
