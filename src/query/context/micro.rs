//! Layer 2: results that are several turns old become one-line stubs that name their tool.

use super::turns::{messages_of, start_of_last};
use super::view::{Freed, Marks, View};
use super::window::Window;
use crate::query::transcript::{Block, History, ToolResult};
use crate::query::{ToolUse, Usable};
use crate::units::Tokens;
use std::sync::Arc;

/// The results of so many turns stay as they are.
pub(super) const PROTECTED: usize = 3;
/// A result up to this size stays: its stub would be no shorter.
const SMALL: usize = 160;

/// Whether a stub would be shorter than the result.
pub(super) fn is_worth_it(result: &ToolResult) -> bool {
    result.content.len() > SMALL || !result.media.is_empty()
}

/// What stands for a cleared result: the same for the same call each time.
pub(super) fn stub(result: &ToolResult, calls: &[ToolUse], tools: &Usable) -> ToolResult {
    let call = calls.iter().find(|call| call.id == result.id);
    let about = call.map_or_else(|| "tool".to_owned(), |call| tools.line(call));
    let failed = if result.is_error { ", an error" } else { "" };
    // What changed something must not be done twice for its words.
    let again = if call.is_some_and(|call| tools.only_looks(call)) { "; call it again if you need it" } else { "" };
    let content = format!("[old result cleared: {about}{failed}{again}]");
    ToolResult { id: Arc::clone(&result.id), content, is_error: result.is_error, media: Vec::new() }
}

impl View {
    /// Whether to clear the results older than the last turns frees enough.
    pub(in crate::query) fn has_enough_to_clear(&self, stored: &History, window: Window, prompt: Tokens) -> bool {
        if prompt < window.relief_at() {
            return false;
        }
        let (end, from) = (start_of_last(stored, PROTECTED), self.marks.cleared.max(self.marks.snipped));
        let old = messages_of(stored, from..end.max(from)).flat_map(|message| message.tool_results());
        let frees = |result: &ToolResult| result.content.len().saturating_sub(SMALL);
        let gone: usize = old.filter(|result| is_worth_it(result)).map(frees).sum();
        // Each clearing makes the provider read the rest anew: it has to be worth that.
        let enough = Tokens(window.auto_compact_at.0 / 5);
        gone > 0 && (self.low_tokens(gone) >= enough || prompt >= window.collapse_at())
    }

    /// Clears the results older than the last turns.
    pub(in crate::query) fn micro_compacted(
        &self,
        stored: &History,
        window: Window,
        prompt: Tokens,
        tools: &Usable,
        next_id: impl FnMut() -> u64,
    ) -> Option<(Self, Freed)> {
        let (end, from) = (start_of_last(stored, PROTECTED), self.marks.cleared.max(self.marks.snipped));
        if end <= from || prompt < window.relief_at() {
            return None;
        }
        let old = messages_of(stored, from..end).flat_map(|message| message.tool_results());
        let count = old.filter(|result| is_worth_it(result)).count();
        let marks = Marks { cleared: end, ..self.marks };
        let view = Self { marks, ..self.clone() }.rebuilt(stored, tools, next_id);
        let tokens = self.prompt(Tokens(0)).minus(view.prompt(Tokens(0)));
        (count > 0).then_some((view, Freed { tokens, count }))
    }

    /// How many results the last turns have, which a provider that clears by itself is to keep.
    pub(in crate::query) fn protected_results(stored: &History) -> u32 {
        let from = start_of_last(stored, PROTECTED);
        let count = messages_of(stored, from..stored.len())
            .flat_map(|message| &message.blocks)
            .filter(|block| matches!(block, Block::ToolResult(_)))
            .count();
        count.max(PROTECTED) as u32
    }
}
