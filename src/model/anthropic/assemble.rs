//! Frames of a stream in, one whole message out. Pure.
//!
//! A message counts only after `message_stop`: whatever was streamed before a break is thrown away with the attempt. What
//! cannot be sent back is left out here, once: blank text, and thinking at the end of the message, which the API refuses
//! as the last block. Only the tail of thinking goes: the blocks before it are untouched, so their signatures still hold.
//!
//! A block is told as soon as nothing that may follow can change it, so that a tool can run while the rest still streams.

use super::blocks::{Ending, OpenBlock, Piece};
use super::errors;
use crate::model::json;
use crate::model::progress::Progress;
use crate::model::sse::Frame;
use crate::query::{Block, CallId, Cleared, Failure, Reply, Stop, ToolUseId};
use crate::units::{Tokens, Usage};
use imbl::OrdSet;
use serde_json::Value;
use std::sync::Arc;

/// A message while it streams.
#[derive(Debug)]
pub(in crate::model) struct Assembler {
    call: CallId,
    /// The ids of calls that must not come again.
    known: OrdSet<ToolUseId>,
    /// What has begun and may still change, in the order of the starts.
    open: Vec<OpenBlock>,
    /// How many blocks have begun.
    begun: u64,
    /// The message so far, as it will stay.
    blocks: Vec<Block>,
    /// Thinking that joins the message when something follows it.
    thinking: Vec<Block>,
    usage: Usage,
    has_usage: bool,
    stop_reason: Option<String>,
    refusal: Option<String>,
    cleared: Option<Cleared>,
    stopped: bool,
}

/// What a frame brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Step {
    /// A part of the message.
    Content,
    /// Nothing of the message: a ping, or something that we do not know.
    Aside,
}

impl Assembler {
    /// For the answer to a call of a conversation in which these ids were used.
    pub(in crate::model) const fn new(call: CallId, known: OrdSet<ToolUseId>) -> Self {
        Self {
            call,
            known,
            open: Vec::new(),
            begun: 0,
            blocks: Vec::new(),
            thinking: Vec::new(),
            usage: Usage { input: Tokens(0), output: Tokens(0), cache_read: Tokens(0), cache_write: Tokens(0) },
            has_usage: false,
            stop_reason: None,
            refusal: None,
            cleared: None,
            stopped: false,
        }
    }

    /// Takes the next frame; `shown` takes what it has to tell.
    ///
    /// # Errors
    /// When the frame is an error, or no JSON where there must be some.
    pub(in crate::model) fn push(&mut self, frame: &Frame, shown: &mut Vec<Progress>) -> Result<Step, Failure> {
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
                shown.extend(self.usage().map(Progress::Usage));
            }
            "content_block_start" => {
                shown.extend(self.start(&value));
                self.settle(None, shown);
            }
            "content_block_delta" => shown.extend(self.delta(&value)),
            "content_block_stop" => {
                if let Some(block) = self.find(index(&value)) {
                    block.close();
                }
                self.settle(None, shown);
            }
            "message_delta" => {
                let delta = value.get("delta").unwrap_or(&Value::Null);
                if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop_reason = Some(reason.to_owned());
                }
                self.refusal = refusal(delta.get("stop_details")).or_else(|| self.refusal.take());
                self.cleared = cleared(value.get("context_management")).or(self.cleared);
                self.take_usage(value.get("usage"));
            }
            "message_stop" => {
                self.stopped = true;
                let cut = matches!(self.stop_reason.as_deref(), Some("max_tokens" | "model_context_window_exceeded"));
                self.settle(Some(if cut { Ending::Cut } else { Ending::Ordinary }), shown);
            }
            "error" => return Err(errors::of_event(&value)),
            _ => return Ok(Step::Aside),
        }
        Ok(Step::Content)
    }

    /// Whether the message is whole.
    pub(in crate::model) const fn is_done(&self) -> bool {
        self.stopped
    }

    /// What the stream has said so far about usage.
    pub(in crate::model) fn usage(&self) -> Option<Usage> {
        self.has_usage.then_some(self.usage)
    }

    /// The message, whose blocks were all told.
    ///
    /// # Errors
    /// When the stream ended before the message did.
    pub(in crate::model) fn finish(mut self, request_id: Option<String>) -> Result<Reply, (Failure, Option<Usage>)> {
        if !self.stopped {
            return Err((errors::cut_short(self.begun > 0, request_id), self.usage()));
        }
        let stop = self.stop();
        Ok(Reply { blocks: self.blocks, stop, usage: self.usage, cleared: self.cleared, request_id })
    }

    /// Moves what can no longer change from the open blocks to the message, lowest number first. Without an `ending`, the
    /// message goes on, and a block that another follows is not the one that a limit cut.
    fn settle(&mut self, ending: Option<Ending>, shown: &mut Vec<Progress>) {
        // Of equal numbers, the first that came.
        while let Some((at, first)) = self.open.iter().enumerate().min_by_key(|(_, block)| block.index) {
            let last = self.open.len() == 1;
            if ending.is_none() && (first.open || (last && !first.is_settled())) {
                return;
            }
            let block = self.open.remove(at).finish(ending.unwrap_or(Ending::Ordinary), last);
            if let Some(block) = block {
                self.join(block, shown);
            }
        }
    }

    /// The next block of the message.
    fn join(&mut self, block: Block, shown: &mut Vec<Progress>) {
        self.thinking.push(block);
        if self.thinking.last().is_none_or(is_thinking) {
            return;
        }
        for mut block in std::mem::take(&mut self.thinking) {
            self.renew_id(&mut block);
            shown.push(Progress::Block(block.clone()));
            self.blocks.push(block);
        }
    }

    /// Gives a fresh id to a call whose id is missing or was used before: the API refuses a conversation that holds one
    /// twice.
    fn renew_id(&mut self, block: &mut Block) {
        let Block::ToolUse(tool_use) = block else { return };
        if self.is_used(&tool_use.id) {
            let base = format!("toolu_{}_{}", self.call.0, self.blocks.len());
            let mut id = base.clone();
            let mut round = 0_u32;
            while self.is_used(&id) {
                round += 1;
                id = format!("{base}_{round}");
            }
            tool_use.id = id.into();
        }
        self.known.insert(Arc::clone(&tool_use.id));
    }

    fn is_used(&self, id: &str) -> bool {
        id.trim().is_empty() || self.known.contains(id)
    }

    fn start(&mut self, value: &Value) -> Option<Progress> {
        let index = index(value).unwrap_or(self.begun);
        let block = OpenBlock::start(index, value.get("content_block").cloned().unwrap_or_default());
        let progress = block.tool().map(|name| Progress::ToolCall(name.to_owned()));
        // A second start of a block that is still open is the same block, told again.
        match self.open.iter_mut().find(|known| known.open && known.index == index) {
            Some(known) => *known = block,
            None => self.begin(block),
        }
        progress
    }

    fn delta(&mut self, value: &Value) -> Option<Progress> {
        let delta = value.get("delta").unwrap_or(&Value::Null);
        let at = index(value);
        if self.find(at).is_none() {
            let block = OpenBlock::implied(at.unwrap_or(self.begun), delta)?;
            self.begin(block);
        }
        match self.find(at)?.delta(delta) {
            Piece::Text(text) => Some(Progress::Text(text)),
            Piece::Thinking(text) => Some(Progress::Thinking(text)),
            Piece::Silent => None,
        }
    }

    fn begin(&mut self, block: OpenBlock) {
        self.begun += 1;
        self.open.push(block);
    }

    /// The open block of that number; the newest open one when the stream gives no number.
    fn find(&mut self, index: Option<u64>) -> Option<&mut OpenBlock> {
        self.open.iter_mut().rev().find(|block| block.open && index.is_none_or(|index| block.index == index))
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
            "pause_turn" => Stop::Pause,
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

/// What the provider says that it cleared of the tool results, all its edits together.
fn cleared(report: Option<&Value>) -> Option<Cleared> {
    let edits = report?.get("applied_edits")?.as_array()?.iter();
    let of_tools = |edit: &&Value| {
        edit.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("clear_tool_uses"))
    };
    let mut sum = Cleared::default();
    for edit in edits.filter(of_tools) {
        let count = |name: &str| edit.get(name).and_then(Value::as_u64).unwrap_or_default();
        sum.tool_results = sum.tool_results.saturating_add(count("cleared_tool_uses"));
        sum.tokens = Tokens(sum.tokens.0.saturating_add(count("cleared_input_tokens")));
    }
    (sum != Cleared::default()).then_some(sum)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without a borrow")]
mod tests;
