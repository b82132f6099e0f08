//! Layer 3: spans of old turns are shown as digests.
//!
//! A projection at reading: the stored messages do not change, the spans stay from turn to turn, and all of them can be lifted again.
//! A span is staged first, with its digest, and applied when the conversation has grown further or when a provider refused it as too
//! long. A digest says what was called and how it ended; where a small model has summarised a turn, its words.

use super::turns::{messages_of, start_of_last, within};
use super::view::{Freed, Marks, View};
use super::window::Window;
use crate::query::Usable;
use crate::query::transcript::{Block, History, Message, Origin, Role, ToolResult, ToolUse, is_thinking};
use crate::units::Tokens;
use imbl::OrdMap;
use std::ops::Range;
use std::sync::Arc;

/// So many of the last turns are never in a span.
const PROTECTED: usize = 4;
/// How many turns a span has at most.
const SPAN: usize = 8;
/// The most of a turn's text that goes into a digest, in bytes.
const TEXT: usize = 200;

/// A span of old turns.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) struct Span {
    from: usize,
    to: usize,
    /// What is shown in place of it.
    pub(super) digest: Arc<Message>,
    /// It is shown so; else it is only staged.
    pub(super) applied: bool,
}

impl Span {
    fn new(range: Range<usize>, digest: String, applied: bool, id: u64) -> Self {
        let blocks = vec![Block::Text(digest)];
        let digest = Arc::new(Message { id, role: Role::User, origin: Origin::Digest, blocks });
        Self { from: range.start, to: range.end, digest, applied }
    }

    /// A span over these messages, as it was before.
    pub(super) fn over(
        stored: &History,
        range: Range<usize>,
        applied: bool,
        tools: &Usable,
        summaries: &OrdMap<u64, Arc<str>>,
        mut next_id: impl FnMut() -> u64,
    ) -> Self {
        let turns = within(stored, Range::clone(&range));
        Self::new(range, digest(stored, &turns, tools, summaries), applied, next_id())
    }

    /// Its messages, by their places in the stored conversation.
    pub(super) const fn range(&self) -> Range<usize> {
        self.from..self.to
    }
}

impl View {
    /// Stages spans of turns that are old enough; gives back how many are new.
    pub(in crate::query) fn staged(
        &self,
        stored: &History,
        window: Window,
        prompt: Tokens,
        tools: &Usable,
        summaries: &OrdMap<u64, Arc<str>>,
        mut next_id: impl FnMut() -> u64,
    ) -> Option<(Self, usize)> {
        if prompt < window.stage_at() {
            return None;
        }
        let from = self.spans.last().map_or(self.marks.snipped.max(1), |span| span.to);
        let turns = within(stored, from..start_of_last(stored, PROTECTED).max(from));
        let mut view = self.clone();
        let mut count = 0;
        for group in turns.chunks(SPAN) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let range = first.start..last.end;
            let weight: usize = messages_of(stored, Range::clone(&range)).map(|message| message.weight()).sum();
            let text = digest(stored, group, tools, summaries);
            // A digest that is hardly shorter is worth no change.
            if text.len() * 4 > weight * 3 {
                continue;
            }
            view.spans.push_back(Span::new(range, text, false, next_id()));
            count += 1;
        }
        (count > 0).then_some((view, count))
    }

    /// Whether a span is staged and not applied.
    pub(in crate::query) fn has_staged(&self) -> bool {
        self.spans.iter().any(|span| !span.applied)
    }

    /// Applies staged spans, oldest first, while the conversation is at or over `until`.
    ///
    /// `is_bound`: changed messages make later thinking invalid, so it is not shown any more.
    pub(in crate::query) fn collapsed(
        &self,
        stored: &History,
        until: Tokens,
        is_bound: bool,
        overhead: Tokens,
        tools: &Usable,
        mut next_id: impl FnMut() -> u64,
    ) -> Option<(Self, Freed)> {
        let mut view = self.clone();
        let mut count = 0;
        while view.prompt(overhead) >= until {
            let Some(span) = view.spans.iter_mut().find(|span| !span.applied) else { break };
            span.applied = true;
            count += 1;
            let shows_thinking = || view.shown().iter().any(|message| message.blocks.iter().any(is_thinking));
            if is_bound && shows_thinking() {
                view.marks = Marks { thinking: stored.len(), ..view.marks };
            }
            view = view.rebuilt(stored, tools, &mut next_id);
        }
        let tokens = self.prompt(overhead).minus(view.prompt(overhead));
        (count > 0).then_some((view, Freed { tokens, count }))
    }

    /// Shows every collapsed span as it was again, as a model with a larger window can take it.
    pub(in crate::query) fn lifted(
        &self,
        stored: &History,
        tools: &Usable,
        next_id: impl FnMut() -> u64,
    ) -> Option<Self> {
        if !self.spans.iter().any(|span| span.applied) {
            return None;
        }
        let mut view = self.clone();
        view.spans.clear();
        Some(view.rebuilt(stored, tools, next_id).unmeasured())
    }
}

/// What the turns of a span did, a line each.
fn digest(stored: &History, turns: &[Range<usize>], tools: &Usable, summaries: &OrdMap<u64, Arc<str>>) -> String {
    let mut text = format!("[{} earlier turns in short; what they changed is in the files:", turns.len());
    for turn in turns {
        let mut results: Vec<&ToolResult> = Vec::new();
        let mut calls: Vec<&ToolUse> = Vec::new();
        for message in messages_of(stored, Range::clone(turn)) {
            results.extend(message.tool_results());
            calls.extend(message.tool_uses());
        }
        let summary = stored.get(turn.start).and_then(|message| summaries.get(&message.id));
        for message in messages_of(stored, Range::clone(turn)) {
            let said = message.text();
            let said = said.trim();
            if said.is_empty() {
                continue;
            }
            let said = match message.origin {
                // What people asked for is never shortened.
                Origin::FollowUp(_) | Origin::Prompt | Origin::Summary => said.to_owned(),
                Origin::Model
                | Origin::ToolResults
                | Origin::Gate
                | Origin::Recovery
                | Origin::Budget
                | Origin::Command
                | Origin::Digest
                | Origin::Interruption => start(said, TEXT),
            };
            let who = if message.role == Role::Assistant { "you" } else { "user" };
            text.push_str(&format!("\n- {who}: {said}"));
        }
        if let Some(summary) = summary {
            text.push_str(&format!("\n- {summary}"));
            continue;
        }
        for call in calls {
            let result = results.iter().find(|result| result.id == call.id);
            let how = result.map_or("no result", |result| if result.is_error { "failed" } else { "ok" });
            text.push_str(&format!("\n- {}: {how}", start(&tools.line(call), TEXT)));
            if let Some(line) = result.filter(|result| result.is_error).and_then(|result| result.content.lines().last())
            {
                text.push_str(&format!(" ({})", start(line.trim(), 100)));
            }
        }
    }
    text.push(']');
    text
}

/// The first bytes of a text, in one line.
pub(super) fn start(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most.min(text.len()));
    let line = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    if end < text.len() { format!("{line}...") } else { line }
}
