//! One iteration: the context is managed, the hard limit is watched, the model is called.

use super::agent::{Agent, Ask, Live, Phase, Tries};
use super::budget::{CapReached, MIN_OUTPUT, estimate};
use super::context::{View, Window};
use super::effect::{Clearing, Effect, Layer, ModelCall, Notice, Source, TaskBudget};
use super::event::CallId;
use super::shared::{Flight, Shared};
use super::state::{COMPACT_FAILURES, State};
use crate::outcome::{AbortReason, Transition};
use crate::units::Tokens;

/// The most that a summary of a conversation may have, in tokens: the room that the window keeps for an answer.
const SUMMARY_OUTPUT: Tokens = Tokens(20_000);

impl Agent {
    /// The next turn of its own accord.
    pub(super) fn next_turn(&mut self, sh: &mut Shared) {
        if !self.may_turn(sh) {
            return self.out_of_turns(sh);
        }
        self.go_on(sh, Transition::NextTurn);
    }

    /// The one place where an iteration follows another: with a whole new state that says why.
    pub(super) fn go_on(&mut self, sh: &mut Shared, transition: Transition) {
        self.state = State { transition: Some(transition), ..self.taken() };
        sh.emit(Notice::Continued { agent: self.id, transition });
        self.save(sh, Some(transition));
        self.iterate(sh, Tries::default(), false);
    }

    /// Manages the context and calls the model. `compacted`: a compaction was tried in this iteration.
    pub(super) fn iterate(&mut self, sh: &mut Shared, tries: Tries, compacted: bool) {
        if sh.now >= sh.params.deadline {
            return self.abort(sh, AbortReason::Timeout);
        }
        let prompt = self.manage_context(sh);
        let window = self.window(sh);
        if prompt >= window.auto_compact_at {
            let may = sh.params.features.auto_compact
                && self.state.auto_compact.failures < COMPACT_FAILURES
                && self.has_what_to_compact(window);
            if may && (!compacted || prompt >= window.blocking_limit) {
                return self.compact(sh, None);
            }
            if prompt >= window.blocking_limit {
                return self.blocking_limit(sh, prompt, window);
            }
        }
        self.call_model(sh, Ask::Turn, tries);
    }

    /// The thresholds of the model that is asked.
    pub(super) fn window(&self, sh: &Shared) -> Window {
        let limits = sh.limits(self.state.model);
        Window::new(limits.context_window, limits.escalated_output.unwrap_or(limits.max_output).max(limits.max_output))
    }

    /// Layers 1 to 3, in their order; layer 0 has worked when the results came. Gives back the size of the next prompt.
    fn manage_context(&mut self, sh: &mut Shared) -> Tokens {
        let (window, overhead, tools) = (self.window(sh), sh.params.overhead, sh.params.tools);
        let is_bound = sh.limits(self.state.model).binds_thinking;
        let stored = self.state.messages.clone();
        let size = |view: &View| view.prompt(overhead);
        let mut view = self.state.view.clone();
        if size(&view) < window.relief_at() {
            return size(&view);
        }
        // Thinking that is bound to what comes before it forbids both. Turns are left out only when the provider has to read everything
        // anew in any case.
        let clears = !is_bound && view.has_enough_to_clear(&stored, window, size(&view));
        if (clears || (!is_bound && size(&view) >= window.collapse_at()))
            && let Some((next, freed)) = view.snipped(&stored, window, size(&view), &tools, || sh.next_message())
        {
            self.tell_boundary(sh, Layer::Snip, freed.tokens, freed.count);
            view = next;
        }
        if clears
            && let Some((next, freed)) =
                view.micro_compacted(&stored, window, size(&view), &tools, || sh.next_message())
        {
            self.tell_boundary(sh, Layer::MicroCompact, freed.tokens, freed.count);
            view = next;
        }
        let summaries = &self.state.summaries;
        if let Some((next, _)) = view.staged(&stored, window, size(&view), &tools, summaries, || sh.next_message()) {
            view = next;
        }
        if size(&view) >= window.collapse_at()
            && let Some((next, freed)) =
                view.collapsed(&stored, window.stage_at(), is_bound, overhead, &tools, || sh.next_message())
        {
            self.tell_boundary(sh, Layer::Collapse, freed.tokens, freed.count);
            view = next;
        }
        let prompt = size(&view);
        self.state = State { view, ..self.taken() };
        prompt
    }

    pub(super) fn tell_boundary(&self, sh: &mut Shared, layer: Layer, freed: Tokens, count: usize) {
        sh.emit(Notice::ContextBoundary { agent: self.id, layer, freed, count });
    }

    /// Reserves and calls.
    pub(super) fn call_model(&mut self, sh: &mut Shared, ask: Ask, tries: Tries) {
        if sh.now >= sh.params.deadline {
            return self.abort(sh, AbortReason::Timeout);
        }
        if ask == Ask::Turn && !self.may_turn(sh) {
            return self.out_of_turns(sh);
        }
        let limits = sh.limits(self.state.model);
        let (prompt, cap) = match &ask {
            Ask::Turn => {
                let most = limits.escalated_output.unwrap_or(limits.max_output).max(limits.max_output);
                let cap = self.state.output_tokens_override.map_or(limits.max_output, |cap| cap.min(most));
                (self.state.view.prompt(sh.params.overhead), cap)
            }
            Ask::Compact(compaction) => {
                let bytes = compaction.history.iter().map(|message| message.weight()).sum();
                let most = limits.escalated_output.unwrap_or(limits.max_output);
                let shown = self.state.view.prompt(sh.params.overhead) + Tokens(1_000);
                let prompt = (sh.params.overhead + estimate(bytes)).min(shown);
                (prompt, most.min(SUMMARY_OUTPUT).min(Tokens(limits.context_window.0 / 4)))
            }
        };
        // A prompt that fills the window is the provider's to refuse; here the output cap only shrinks to what is left.
        let room = limits.context_window.minus(prompt);
        let wanted = if room >= MIN_OUTPUT { cap.min(room) } else { cap };
        let prices = limits.prices.clone();
        let mut reserved = sh.ledger.reserve(prompt, wanted, &prices);
        if reserved.is_err() && self.drop_summary(sh) {
            reserved = sh.ledger.reserve(prompt, wanted, &prices);
        }
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(_) if sh.ledger.is_holding() => {
                self.phase = Phase::Starved { ask, tries };
                return;
            }
            Err(cap) => return self.out_of_budget(sh, ask, cap, prompt),
        };
        let source = match &ask {
            Ask::Turn => self.source(),
            Ask::Compact(_) => Source::Compact,
        };
        let call = ModelCall {
            history: match &ask {
                Ask::Turn => self.state.view.shown().clone(),
                Ask::Compact(compaction) => compaction.history.clone(),
            },
            max_output: reserved.output,
            thinking_stripped: match &ask {
                Ask::Turn => self.state.view.lacks_thinking(),
                Ask::Compact(_) => true,
            },
            clearing: if ask == Ask::Turn { self.clearing(sh, prompt) } else { None },
            task_budget: if source == Source::Job { task_budget(sh) } else { None },
            model: self.state.model,
            source,
            ..ModelCall::first(super::History::default())
        };
        let id = self.send(sh, call, reserved, prompt);
        self.phase = Phase::Calling { call: id, ask, tries, live: Live::default() };
    }

    /// A call does not fit under a cap. An error that a compaction was to recover from surfaces then.
    fn out_of_budget(&mut self, sh: &mut Shared, ask: Ask, cap: CapReached, prompt: Tokens) {
        let withheld = match ask {
            Ask::Turn => None,
            Ask::Compact(compaction) => compaction.after,
        };
        match (withheld, cap) {
            (Some(failure), _) => self.prompt_too_long(sh, failure),
            (None, CapReached::Tokens) => self.budget_exhausted(sh, prompt),
            (None, CapReached::Cost) => self.abort(sh, AbortReason::CostLimit),
        }
    }

    /// Numbers a call, books it, and asks the driver for it.
    pub(super) fn send(
        &self,
        sh: &mut Shared,
        call: ModelCall,
        reserved: super::budget::Reservation,
        estimate: Tokens,
    ) -> CallId {
        sh.last_call += 1;
        let id = CallId(sh.last_call);
        let (source, model, worst_cost) = (call.source, call.model, reserved.cost);
        sh.flights.insert(id, Flight { agent: self.id, model, source, reserved, told: None });
        sh.emit(Notice::ModelCalled { call: id, source, turn: self.state.turn_count, estimate });
        sh.out.push(Effect::CallModel(ModelCall { id, agent: self.id, kind: self.kind, worst_cost, ..call }));
        id
    }

    /// What the provider is asked to clear: on models that bind their thinking nothing can be cleared here.
    fn clearing(&self, sh: &Shared, prompt: Tokens) -> Option<Clearing> {
        if !sh.params.features.provider_clearing || !sh.limits(self.state.model).binds_thinking {
            return None;
        }
        let window = self.window(sh);
        // Long before there is anything to clear, a server need not even know the field.
        if prompt.0.saturating_mul(2) < window.relief_at().0 {
            return None;
        }
        Some(Clearing {
            trigger: window.relief_at(),
            keep: View::protected_results(&self.state.messages),
            at_least: Tokens(window.auto_compact_at.0 / 10),
        })
    }
}

fn task_budget(sh: &Shared) -> Option<TaskBudget> {
    let total = sh.params.task_budget?;
    Some(TaskBudget { total, remaining: total.minus(sh.task_spent) })
}
