//! [`View`]: the projection of the stored conversation that requests are made from.

use super::collapse::Span;
use super::micro;
use crate::query::budget::estimate;
use crate::query::transcript::{Block, History, Message, Role, ToolResult, is_thinking};
use crate::query::{ToolUse, Usable};
use crate::units::Tokens;
use imbl::{OrdMap, Vector};
use std::sync::Arc;

/// What is shown of a conversation, and how large that is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::query) struct View {
    pub(super) shown: History,
    /// Messages of the stored conversation.
    pub(super) count: usize,
    /// Messages up to the last one that asks something of the model, instead of answering its calls.
    pub(super) asked: usize,
    /// Bytes of what is shown.
    pub(super) weight: usize,
    /// What the provider said of the size when it last answered, less what was taken away since.
    pub(super) known: Option<Tokens>,
    /// Bytes that came since then.
    pub(super) fresh: usize,
    /// Tokens and bytes of the last answer's whole conversation: how dense it is.
    pub(super) density: Option<(Tokens, usize)>,
    pub(super) marks: Marks,
    pub(super) spans: Vector<Span>,
    /// Messages as they are shown instead, by the stored message's id and how they differ: a message is replaced by the same one
    /// each time, which keeps its wire form and the provider's cache.
    pub(super) replaced: OrdMap<(u64, u8), Arc<Message>>,
}

/// Up to where in the stored conversation what is shown differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::query) struct Marks {
    /// Messages between the first and this one are not shown.
    pub(super) snipped: usize,
    /// Results before it are stubs.
    pub(super) cleared: usize,
    /// Thinking before it is not shown.
    pub(super) thinking: usize,
    /// Images before it are not shown.
    pub(super) media: usize,
}

/// What a change of the view freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::query) struct Freed {
    /// Tokens, erring low.
    pub(in crate::query) tokens: Tokens,
    /// How many messages, results, turns or spans it was about.
    pub(in crate::query) count: usize,
}

impl View {
    /// The messages that a request is made of.
    pub(in crate::query) const fn shown(&self) -> &History {
        &self.shown
    }

    /// Whether thinking is left out of what the model is in the middle of.
    pub(in crate::query) const fn lacks_thinking(&self) -> bool {
        self.marks.thinking > self.asked
    }

    /// Takes one message more, as it is.
    #[must_use]
    pub(in crate::query) fn with(&self, message: &Arc<Message>) -> Self {
        let weight = message.weight();
        let count = self.count + 1;
        let asks = message.role == Role::User && message.tool_results().next().is_none();
        Self {
            count,
            asked: if asks { count } else { self.asked },
            shown: self.shown.with(Arc::clone(message)),
            weight: self.weight + weight,
            fresh: self.fresh + weight,
            ..self.clone()
        }
    }

    /// Takes over what the provider said of the size of everything so far. Nothing said means nothing learnt, and no text has more than
    /// eight bytes a token for long: what is less is taken for that.
    #[must_use]
    pub(in crate::query) fn measured(&self, tokens: Tokens, overhead: Tokens) -> Self {
        if tokens == Tokens(0) {
            return self.clone();
        }
        let tokens = tokens.max(Tokens(self.weight as u64 / 8));
        let bytes = self.weight + bytes_of(overhead);
        Self { known: Some(tokens), fresh: 0, density: Some((tokens, bytes.max(1))), ..self.clone() }
    }

    /// Forgets what the provider said, as another model counts in another way.
    #[must_use]
    pub(in crate::query) fn unmeasured(&self) -> Self {
        Self { known: None, fresh: self.weight, density: None, ..self.clone() }
    }

    /// The tokens of the next prompt, erring high: what the last answer said, plus an estimate of what came after.
    pub(in crate::query) fn prompt(&self, overhead: Tokens) -> Tokens {
        self.known.unwrap_or(overhead) + estimate(self.fresh)
    }

    /// Tokens that so many bytes of the conversation are, erring low.
    pub(super) fn low_tokens(&self, bytes: usize) -> Tokens {
        match self.density {
            Some((tokens, all)) => {
                let exact = u128::from(tokens.0) * bytes as u128 * 9 / (all as u128 * 10);
                Tokens(u64::try_from(exact).unwrap_or(u64::MAX))
            }
            None => Tokens(bytes as u64 / 5),
        }
    }

    /// Stops showing the thinking of everything before `end`.
    pub(in crate::query) fn strip_thinking(
        &self,
        stored: &History,
        end: usize,
        tools: &Usable,
        next_id: impl FnMut() -> u64,
    ) -> Self {
        let marks = Marks { thinking: end, ..self.marks };
        Self { marks, ..self.clone() }.rebuilt(stored, tools, next_id)
    }

    /// Stops showing the images of everything so far.
    pub(in crate::query) fn strip_media(&self, stored: &History, tools: &Usable, next_id: impl FnMut() -> u64) -> Self {
        let marks = Marks { media: stored.len(), ..self.marks };
        Self { marks, ..self.clone() }.rebuilt(stored, tools, next_id)
    }

    /// Makes what is shown anew from the stored conversation: the only place where it takes time with its length.
    pub(super) fn rebuilt(mut self, stored: &History, tools: &Usable, mut next_id: impl FnMut() -> u64) -> Self {
        let before = self.weight;
        let mut shown = Vec::with_capacity(stored.len());
        let mut calls: Vec<ToolUse> = Vec::new();
        let mut digested = 0;
        for (at, message) in stored.iter().enumerate() {
            if let Some(span) = self.spans.iter().find(|span| span.applied && span.range().start == at) {
                shown.push(Arc::clone(&span.digest));
                digested = span.range().end;
            }
            if at < digested || (at >= 1 && at < self.marks.snipped) {
                continue;
            }
            if message.tool_uses().next().is_some() {
                calls = message.tool_uses().cloned().collect();
            }
            let bits = self.differences(at, message);
            if bits == 0 {
                shown.push(Arc::clone(message));
                continue;
            }
            let key = (message.id, bits);
            let known = self.replaced.get(&key).cloned();
            let replacement = known.unwrap_or_else(|| {
                let blocks = without(message, bits, &calls, tools);
                Arc::new(Message { id: next_id(), role: message.role, origin: message.origin, blocks })
            });
            self.replaced.insert(key, Arc::clone(&replacement));
            shown.push(replacement);
        }
        self.weight = shown.iter().map(|message| message.weight()).sum();
        self.shown = shown.into_iter().collect();
        self.discount(before);
        self
    }

    /// Lowers what is known of the size by what is shown no longer.
    fn discount(&mut self, before: usize) {
        let gone = before.saturating_sub(self.weight);
        match self.known {
            Some(known) => self.known = Some(known.minus(self.low_tokens(gone))),
            None => self.fresh = self.weight,
        }
    }

    /// In which ways a stored message is shown in another form.
    fn differences(&self, at: usize, message: &Message) -> u8 {
        let has = |what: fn(&Block) -> bool| message.blocks.iter().any(what);
        let mut bits = 0;
        if at < self.marks.cleared
            && has(|block| matches!(block, Block::ToolResult(result) if micro::is_worth_it(result)))
        {
            bits |= CLEARED;
        }
        if at < self.marks.thinking && has(is_thinking) {
            bits |= UNTHOUGHT;
        }
        if at < self.marks.media && has(is_media) {
            bits |= UNPICTURED;
        }
        bits
    }
}

const CLEARED: u8 = 1;
const UNTHOUGHT: u8 = 2;
const UNPICTURED: u8 = 4;

fn bytes_of(tokens: Tokens) -> usize {
    (tokens.0 * 5 / 2) as usize
}

fn is_media(block: &Block) -> bool {
    match block {
        Block::ToolResult(result) => !result.media.is_empty(),
        Block::Opaque(value) => {
            matches!(value.get("type").and_then(|kind| kind.as_str()), Some("image" | "document"))
        }
        Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) => false,
    }
}

/// A message's blocks in the form in which they are shown; never none.
fn without(message: &Message, bits: u8, calls: &[ToolUse], tools: &Usable) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(message.blocks.len());
    for block in &message.blocks {
        if bits & UNTHOUGHT != 0 && is_thinking(block) {
            continue;
        }
        if let Block::ToolResult(result) = block {
            blocks.push(Block::ToolResult(reduced(result, bits, calls, tools)));
        } else if bits & UNPICTURED != 0 && is_media(block) {
            blocks.push(Block::Text("[an image was taken out of the conversation]".into()));
        } else {
            blocks.push(block.clone());
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("[thinking left out]".into()));
    }
    blocks
}

fn reduced(result: &ToolResult, bits: u8, calls: &[ToolUse], tools: &Usable) -> ToolResult {
    let mut result = result.clone();
    if bits & CLEARED != 0 && micro::is_worth_it(&result) {
        result = micro::stub(&result, calls, tools);
    }
    if bits & UNPICTURED != 0 && !result.media.is_empty() {
        result.media.clear();
        result.content.push_str("\n[its image was taken out of the conversation]");
    }
    result
}
