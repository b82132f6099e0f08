//! Frames of a stream in, one whole message out. Pure.
//!
//! A message counts only after `message_stop`: whatever was streamed before a break is thrown away with the attempt. What
//! cannot be sent back is left out here, once: blank text, and thinking at the end of the message, which the API refuses
//! as the last block. Only the tail of thinking goes: the blocks before it are untouched, so their signatures still hold.

use super::blocks::{Ending, OpenBlock, Piece};
use super::errors;
use crate::model::json;
use crate::model::progress::Progress;
use crate::model::sse::Frame;
use crate::query::{Block, CallId, Failure, History, Reply, Stop};
use crate::units::{Tokens, Usage};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A message while it streams.
#[derive(Debug, Default)]
pub(in crate::model) struct Assembler {
    /// In the order of their starts.
    blocks: Vec<OpenBlock>,
    usage: Usage,
    has_usage: bool,
    stop_reason: Option<String>,
    refusal: Option<String>,
    stopped: bool,
}

/// What a frame brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::model) enum Step {
    /// A part of the message; perhaps something to show.
    Content(Option<Progress>),
    /// Nothing of the message: a ping, or something that we do not know.
    Aside,
}

impl Assembler {
    /// Takes the next frame.
    ///
    /// # Errors
    /// When the frame is an error, or no JSON where there must be some.
    pub(in crate::model) fn push(&mut self, frame: &Frame) -> Result<Step, Failure> {
        if self.stopped || frame.data.trim() == "[DONE]" {
            return Ok(Step::Aside);
        }
        let value = match json::parse(&frame.data) {
            Ok(value) => value,
            Err(_) if frame.data.trim().is_empty() || frame.event == "ping" => return Ok(Step::Aside),
            Err(error) => return Err(errors::broken_event(&frame.event, &frame.data, &error)),
        };
        // Gateways drop the one or the other.
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(&frame.event);
        match kind {
            "message_start" => {
                let message = value.get("message").unwrap_or(&Value::Null);
                self.take_usage(message.get("usage"));
                let told = self.usage().map(Progress::Usage);
                Ok(Step::Content(told))
            }
            "content_block_start" => Ok(Step::Content(self.start(&value))),
            "content_block_delta" => Ok(Step::Content(self.delta(&value))),
            "content_block_stop" => {
                if let Some(block) = self.find(index(&value)) {
                    block.open = false;
                }
                Ok(Step::Content(None))
            }
            "message_delta" => {
                let delta = value.get("delta").unwrap_or(&Value::Null);
                if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop_reason = Some(reason.to_owned());
                }
                self.refusal = refusal(delta.get("stop_details")).or_else(|| self.refusal.take());
                self.take_usage(value.get("usage"));
                Ok(Step::Content(None))
            }
            "message_stop" => {
                self.stopped = true;
                Ok(Step::Content(None))
            }
            "error" => Err(errors::of_event(&value)),
            _ => Ok(Step::Aside),
        }
    }

    /// Whether the message is whole.
    pub(in crate::model) const fn is_done(&self) -> bool {
        self.stopped
    }

    /// What the stream has said so far about usage.
    pub(in crate::model) fn usage(&self) -> Option<Usage> {
        self.has_usage.then_some(self.usage)
    }

    /// The message. `history` is the conversation that it answers: ids of its calls are not used again.
    ///
    /// # Errors
    /// When the stream ended before the message did.
    pub(in crate::model) fn finish(
        mut self,
        call: CallId,
        history: &History,
        request_id: Option<String>,
    ) -> Result<Reply, (Failure, Option<Usage>)> {
        if !self.stopped {
            return Err((errors::cut_short(!self.blocks.is_empty(), request_id), self.usage()));
        }
        let stop = self.stop();
        let ending = match stop {
            Stop::MaxTokens | Stop::ContextWindow => Ending::Cut,
            Stop::Ordinary(_) | Stop::Pause | Stop::Refusal(_) => Ending::Ordinary,
        };
        self.blocks.sort_by_key(|block| block.index); // Stable: equal numbers stay in the order of arrival.
        let last = self.blocks.len().saturating_sub(1);
        let blocks = self.blocks.into_iter().enumerate().filter_map(|(at, block)| block.finish(ending, at == last));
        let mut blocks: Vec<Block> = blocks.collect();
        while blocks.last().is_some_and(is_thinking) {
            blocks.pop();
        }
        renew_ids(&mut blocks, call, history);
        Ok(Reply { blocks, stop, usage: self.usage, cleared: None, request_id })
    }

    fn start(&mut self, value: &Value) -> Option<Progress> {
        let index = index(value).unwrap_or(self.blocks.len() as u64);
        let block = OpenBlock::start(index, value.get("content_block").cloned().unwrap_or_default());
        let progress = block.tool().map(|name| Progress::ToolCall(name.to_owned()));
        // A second start of a block that is still open is the same block, told again.
        match self.blocks.iter_mut().find(|known| known.open && known.index == index) {
            Some(known) => *known = block,
            None => self.blocks.push(block),
        }
        progress
    }

    fn delta(&mut self, value: &Value) -> Option<Progress> {
        let delta = value.get("delta").unwrap_or(&Value::Null);
        let at = index(value);
        if self.find(at).is_none() {
            let next = at.unwrap_or(self.blocks.len() as u64);
            self.blocks.push(OpenBlock::implied(next, delta)?);
        }
        match self.find(at)?.delta(delta) {
            Piece::Text(text) => Some(Progress::Text(text)),
            Piece::Thinking(text) => Some(Progress::Thinking(text)),
            Piece::Silent => None,
        }
    }

    /// The open block of that number; the newest open one when the stream gives no number.
    fn find(&mut self, index: Option<u64>) -> Option<&mut OpenBlock> {
        self.blocks.iter_mut().rev().find(|block| block.open && index.is_none_or(|index| block.index == index))
    }

    /// Fields that are there replace what was known: the numbers are totals, never additions.
    fn take_usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.and_then(Value::as_object) else { return };
        let read = |name: &str, field: &mut Tokens| {
            if let Some(count) = usage.get(name).and_then(Value::as_u64) {
                *field = Tokens(count);
            }
        };
        read("input_tokens", &mut self.usage.input);
        read("cache_read_input_tokens", &mut self.usage.cache_read);
        read("cache_creation_input_tokens", &mut self.usage.cache_write);
        read("output_tokens", &mut self.usage.output);
        self.has_usage = true;
    }

    fn stop(&mut self) -> Stop {
        let reason = self.stop_reason.take().unwrap_or_default();
        match reason.as_str() {
            "max_tokens" => Stop::MaxTokens,
            "model_context_window_exceeded" => Stop::ContextWindow,
            "refusal" => Stop::Refusal(self.refusal.take().unwrap_or_default()),
            _ => Stop::Ordinary(reason),
        }
    }
}

fn index(value: &Value) -> Option<u64> {
    value.get("index").and_then(Value::as_u64)
}

/// Why the model declined: its explanation, else the category.
fn refusal(details: Option<&Value>) -> Option<String> {
    let field = |name: &str| details?.get(name)?.as_str().filter(|text| !text.trim().is_empty());
    match (field("explanation"), field("category")) {
        (Some(text), Some(category)) => Some(format!("{text} ({category})")),
        (Some(text), None) | (None, Some(text)) => Some(text.to_owned()),
        (None, None) => None,
    }
}

fn is_thinking(block: &Block) -> bool {
    match block {
        Block::Thinking { .. } => true,
        Block::Opaque(value) => value.get("type").and_then(Value::as_str) == Some("redacted_thinking"),
        Block::Text(_) | Block::ToolUse(_) | Block::ToolResult(_) => false,
    }
}

/// Gives a fresh id to each call whose id is missing or was used before: the API refuses a conversation that holds one
/// twice.
fn renew_ids(blocks: &mut [Block], call: CallId, history: &History) {
    let mut fresh = BTreeSet::new();
    for (at, block) in blocks.iter_mut().enumerate() {
        let Block::ToolUse(tool_use) = block else { continue };
        let used = |id: &str, fresh: &BTreeSet<Arc<str>>| {
            id.trim().is_empty()
                || fresh.contains(id)
                || history.iter().any(|message| message.tool_uses().any(|known| *known.id == *id))
        };
        if used(&tool_use.id, &fresh) {
            let base = format!("toolu_{}_{at}", call.0);
            let mut id = base.clone();
            let mut round = 0_u32;
            while used(&id, &fresh) {
                round += 1;
                id = format!("{base}_{round}");
            }
            tool_use.id = id.into();
        }
        fresh.insert(Arc::clone(&tool_use.id));
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without a borrow")]
mod tests;
