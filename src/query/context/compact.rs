//! Layer 4: the parts of a compaction. The loop asks a model for a summary of everything; here is what it is asked with, and what
//! takes the conversation's place.

use super::turns::{messages_of, start_of_last};
use super::view::{Marks, View};
use super::window::Window;
use crate::query::Usable;
use crate::query::budget::estimate;
use crate::query::transcript::{Block, History, Message, Origin, Role, ToolResult, is_thinking};
use std::sync::Arc;

/// The tail has so many turns at most.
const TAIL: usize = 3;

/// What the model is asked.
const INSTRUCTION: &str = "The conversation has become too long to go on with. Write a summary by which you can go on with the task \
without it. Call no tool; answer with the summary alone. Say, in this order: what the task asks for and every constraint on it; \
what has been done so far, with the files and functions that were changed; what was found out about the code, with exact names, paths \
and commands; what was tried and did not work, with the errors; what is being done at this moment; and what comes next.";

/// Where the tail begins that a compaction keeps as it is: the last turns, as far as they are small; at most all but the first message.
pub(in crate::query) fn tail_start(stored: &History, window: Window) -> usize {
    let fits = |from: usize, most: u64| {
        let bytes: usize = messages_of(stored, from..stored.len()).map(|message| message.weight()).sum();
        estimate(bytes).0 <= most
    };
    for turns in (2..=TAIL).rev() {
        let from = start_of_last(stored, turns);
        if from > 1 && fits(from, window.tail().0) {
            return from;
        }
    }
    // The newest turn is what the model is at: it stays unless it is most of the problem.
    let from = start_of_last(stored, 1);
    if from > 1 && fits(from, window.tail().0 * 2) { from } else { stored.len() }
}

/// The conversation that a compaction is asked about: as it is shown, without thinking and images, so that no rule about them can
/// be broken by it.
pub(in crate::query) fn sanitised(shown: &History, mut next_id: impl FnMut() -> u64) -> History {
    shown
        .iter()
        .map(|message| {
            let has_media = message.tool_results().any(|result| !result.media.is_empty());
            if !has_media && !message.blocks.iter().any(is_thinking) {
                return Arc::clone(message);
            }
            let blocks = message.blocks.iter().filter(|block| !is_thinking(block)).map(|block| match block {
                Block::ToolResult(result) => Block::ToolResult(ToolResult { media: Vec::new(), ..result.clone() }),
                block @ (Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) | Block::Opaque(_)) => {
                    block.clone()
                }
            });
            let mut blocks: Vec<Block> = blocks.collect();
            if blocks.is_empty() {
                blocks.push(Block::Text("[thinking left out]".into()));
            }
            Arc::new(Message { id: next_id(), role: message.role, origin: message.origin, blocks })
        })
        .collect()
}

/// The conversation without its older half, for a compaction that was itself too long: each try is smaller. `None` when nothing is
/// left to take away.
pub(in crate::query) fn shrunk(history: &History) -> Option<History> {
    let half = history.len() / 2;
    let from = (half.max(2)..history.len()).find(|at| {
        let role = |at: usize| history.get(at).map(|message| message.role);
        role(*at) == Some(Role::Assistant) && role(*at - 1) == Some(Role::User)
    })?;
    let first = history.get(0).cloned();
    Some(first.into_iter().chain(messages_of(history, from..history.len()).cloned()).collect())
}

/// The message that asks for the summary.
pub(in crate::query) fn instruction(id: u64) -> Arc<Message> {
    let blocks = vec![Block::Text(INSTRUCTION.into())];
    Arc::new(Message { id, role: Role::User, origin: Origin::Summary, blocks })
}

/// What takes the place of the conversation: the task, word for word as far as it is not too long, and the summary.
pub(in crate::query) fn replacement(id: u64, task: &[Block], summary: &str, window: Window) -> Arc<Message> {
    let most = window.result_bytes();
    let mut blocks: Vec<Block> = task
        .iter()
        .map(|block| match block {
            Block::Text(text) if text.len() > most => {
                let (head, tail) = (text.floor_char_boundary(most / 2), text.ceil_char_boundary(text.len() - most / 2));
                Block::Text(format!("{}\n[... left out ...]\n{}", &text[..head], &text[tail..]))
            }
            block @ (Block::Text(_)
            | Block::Thinking { .. }
            | Block::ToolUse(_)
            | Block::ToolResult(_)
            | Block::Opaque(_)) => block.clone(),
        })
        .collect();
    blocks.push(Block::Text(format!(
        "[The conversation so far was too long and has been replaced by this summary of it, which you wrote. Go on with the task \
         from here.]\n\n{}",
        summary.trim()
    )));
    Arc::new(Message { id, role: Role::User, origin: Origin::Summary, blocks })
}

impl View {
    /// A view of a conversation whose first message has just taken the place of all before `from`. What was not shown any more of the
    /// rest (thinking of another model, refused images) stays away.
    pub(in crate::query) fn after_compaction(
        stored: &History,
        old: &Self,
        from: usize,
        tools: &Usable,
        next_id: impl FnMut() -> u64,
    ) -> Self {
        let moved = |mark: usize| if mark > from { mark - from + 1 } else { 0 };
        let marks = Marks { thinking: moved(old.marks.thinking), media: moved(old.marks.media), ..Marks::default() };
        let view = stored.iter().fold(Self::default(), |view, message| view.with(message));
        if marks == Marks::default() { view } else { Self { marks, ..view }.rebuilt(stored, tools, next_id) }
    }
}
