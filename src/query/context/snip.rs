//! Layer 1: the oldest turns that say nothing any more are left out.
//!
//! Such a turn only looked (every call may run beside others and changes nothing), all its results have been cleared, and the model said
//! no more than a line. What is left out is in the transcript.

use super::turns::{messages_of, within};
use super::view::{Freed, Marks, View};
use super::window::Window;
use crate::query::Usable;
use crate::query::transcript::{Block, History, Origin};
use crate::units::Tokens;
use std::ops::Range;

/// The most that the model may have said in a turn that is left out, in bytes.
const A_LINE: usize = 300;

impl View {
    /// Leaves out the oldest turns, as far as they say nothing, if the conversation has grown; gives back how many tokens that frees,
    /// which the check for a compaction has to know.
    pub(in crate::query) fn snipped(
        &self,
        stored: &History,
        window: Window,
        prompt: Tokens,
        tools: &Usable,
        next_id: impl FnMut() -> u64,
    ) -> Option<(Self, Freed)> {
        if prompt < window.relief_at() || self.spans.iter().any(|span| span.applied) {
            return None;
        }
        let from = self.marks.snipped.max(1);
        if self.marks.cleared <= from {
            return None;
        }
        let turns = within(stored, from..self.marks.cleared);
        let spent: Vec<&Range<usize>> =
            turns.iter().take_while(|turn| says_nothing(stored, Range::clone(turn), tools)).collect();
        let end = spent.last()?.end;
        let marks = Marks { snipped: end, ..self.marks };
        let mut view = Self { marks, ..self.clone() };
        // Staged spans that lie in what is gone would digest nothing.
        view.spans.retain(|span| span.range().start >= end);
        let view = view.rebuilt(stored, tools, next_id);
        let tokens = self.prompt(Tokens(0)).minus(view.prompt(Tokens(0)));
        Some((view, Freed { tokens, count: spent.len() }))
    }
}

fn says_nothing(stored: &History, turn: Range<usize>, tools: &Usable) -> bool {
    let mut said = 0;
    for message in messages_of(stored, turn) {
        if !matches!(message.origin, Origin::Model | Origin::ToolResults) {
            return false;
        }
        for block in &message.blocks {
            match block {
                Block::Text(text) => said += text.len(),
                Block::ToolUse(call) if !tools.only_looks(call) => return false,
                Block::ToolUse(_) | Block::ToolResult(_) | Block::Thinking { .. } | Block::Opaque(_) => {}
            }
        }
    }
    said <= A_LINE
}
