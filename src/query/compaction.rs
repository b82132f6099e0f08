//! Compactions: a forked conversation summarises everything, and the summary takes its place.

use super::AutoCompact;
use super::agent::{Agent, Ask, Compaction, Tries};
use super::context::{View, Window, instruction, replacement, sanitised, shrunk, tail_start};
use super::effect::{Effect, Layer, Notice};
use super::event::{CallId, Reply, Stop};
use super::failure::Failure;
use super::shared::Shared;
use super::state::State;
use super::transcript::Block;
use crate::outcome::Transition;

/// How often the request of one compaction is made smaller.
const SHRINKS: u32 = 3;
/// A conversation that has to be compacted again within so many turns was not helped by it.
const THRASH: u32 = 2;

impl Agent {
    /// Whether a compaction would replace anything but the first message.
    pub(super) fn has_what_to_compact(&self, window: Window) -> bool {
        tail_start(&self.state.messages, window) > 1
    }

    /// Asks for a summary. `after`: the failure that it is to recover from.
    pub(super) fn compact(&mut self, sh: &mut Shared, after: Option<Failure>) {
        self.drop_summary(sh);
        let shown = self.state.view.shown().clone();
        let history = sanitised(&shown, || sh.next_message());
        let history = history.with(instruction(sh.next_message()));
        let ask = Ask::Compact(Box::new(Compaction { after, history, shrinks: 0 }));
        self.call_model(sh, ask, Tries::default());
    }

    /// The request of a compaction was itself too long: once more without its older half.
    pub(super) fn compaction_too_long(&mut self, sh: &mut Shared, compaction: Compaction, failure: Failure) {
        if compaction.shrinks < SHRINKS
            && let Some(history) = shrunk(&compaction.history)
        {
            let shrinks = compaction.shrinks + 1;
            let ask = Ask::Compact(Box::new(Compaction { history, shrinks, ..compaction }));
            return self.call_model(sh, ask, Tries::default());
        }
        self.compaction_failed(sh, compaction, failure.message);
    }

    /// There is no summary: the iteration goes on without, or the failure surfaces that it was to recover from.
    pub(super) fn compaction_failed(&mut self, sh: &mut Shared, compaction: Compaction, why: String) {
        let failures = self.count_failure(sh, &compaction, why);
        let auto_compact = AutoCompact { failures, ..self.state.auto_compact };
        self.state = State { auto_compact, ..self.taken() };
        match compaction.after {
            Some(failure) => self.prompt_too_long(sh, failure),
            None => self.iterate(sh, Tries::default(), true),
        }
    }

    /// One that answers a refused request has its own guard: it comes once.
    fn count_failure(&self, sh: &mut Shared, compaction: &Compaction, why: String) -> u32 {
        let failures = self.state.auto_compact.failures + u32::from(compaction.after.is_none());
        sh.emit(Notice::CompactFailed { why, failures });
        failures
    }

    pub(super) fn take_compaction(&mut self, sh: &mut Shared, call: CallId, compaction: Compaction, reply: Reply) {
        let Reply { blocks, stop, usage, cleared: _, request_id: _ } = reply;
        sh.land(call, Some(usage));
        let texts: Vec<&str> = blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                Block::Thinking { .. } | Block::ToolUse(_) | Block::ToolResult(_) | Block::Opaque(_) => None,
            })
            .collect();
        let summary = texts.join("\n");
        let why = match stop {
            Stop::Refusal(why) => format!("the model declined to summarise: {why}"),
            Stop::ContextWindow => "the summary did not fit into the window".to_owned(),
            _ if summary.trim().is_empty() => "the model gave no summary".to_owned(),
            Stop::MaxTokens | Stop::Pause | Stop::Ordinary(_) => return self.compacted(sh, &compaction, &summary),
        };
        self.compaction_failed(sh, compaction, why);
    }

    /// The summary takes the place of all but the tail.
    fn compacted(&mut self, sh: &mut Shared, compaction: &Compaction, summary: &str) {
        let window = self.window(sh);
        let (stored, overhead) = (self.state.messages.clone(), sh.params.overhead);
        let before = self.state.view.prompt(overhead);
        let from = tail_start(&stored, window);
        let first = replacement(sh.next_message(), &self.task, summary, window);
        sh.out.push(Effect::Record { agent: self.id, message: std::sync::Arc::clone(&first) });
        let kept_from = stored.get(from).map(|message| message.id);
        sh.emit(Notice::Compacted { agent: self.id, summary: first.id, kept_from });
        let tail = stored.iter().skip(from).cloned();
        let messages: super::History = std::iter::once(first).chain(tail).collect();
        let tools = sh.params.tools;
        let mut view = View::after_compaction(&messages, &self.state.view, from, &tools, || sh.next_message());
        if sh.limits(self.state.model).binds_thinking {
            view = view.strip_thinking(&messages, messages.len(), &tools, || sh.next_message());
        }
        // The provider cannot see any more what it held. It counts for the job's own conversation only.
        if self.parent.is_none() {
            sh.task_spent += before;
        }
        let after = view.prompt(overhead);
        let AutoCompact { turns_since, count, .. } = self.state.auto_compact;
        self.tell_boundary(sh, Layer::AutoCompact, before.minus(after), from);
        let helped = after < window.auto_compact_at && turns_since >= THRASH;
        let failures = if helped { 0 } else { self.count_failure(sh, compaction, "it freed too little".into()) };
        let auto_compact = AutoCompact { turns_since: 0, count: count + 1, failures };
        self.state = State { messages, view, auto_compact, ..self.taken() };
        if compaction.after.is_some() {
            return self.go_on(sh, Transition::ReactiveCompactRetry);
        }
        self.save(sh, None);
        self.iterate(sh, Tries::default(), true);
    }
}
