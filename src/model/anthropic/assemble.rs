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
mod tests {
    use super::*;
    use crate::outcome::ModelErrorKind;
    use crate::query::{Message, Origin, Role, ToolInput, ToolResult, ToolUse};
    use proptest::prelude::*;
    use serde_json::json;

    /// Plays events, then finishes.
    fn play(events: &[Value]) -> Result<Reply, (Failure, Option<Usage>)> {
        play_after(events, &History::default())
    }

    fn play_after(events: &[Value], history: &History) -> Result<Reply, (Failure, Option<Usage>)> {
        let mut assembler = Assembler::default();
        for event in events {
            let frame = Frame { event: "message".into(), data: event.to_string(), id: String::new() };
            assembler.push(&frame).map_err(|failure| (failure, assembler.usage()))?;
        }
        assembler.finish(CallId(7), history, Some("req_1".into()))
    }

    fn start(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }
    fn delta(index: u64, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }
    fn text(index: u64, text: &str) -> Value {
        delta(index, json!({"type": "text_delta", "text": text}))
    }
    fn arguments(index: u64, json: &str) -> Value {
        delta(index, json!({"type": "input_json_delta", "partial_json": json}))
    }
    fn tool(index: u64, id: &str) -> Value {
        start(index, json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}}))
    }
    fn stop(index: u64) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }
    fn end(reason: &str) -> [Value; 2] {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ]
    }
    fn call(id: &str, input: Value) -> Block {
        let Value::Object(input) = input else { panic!() };
        Block::ToolUse(ToolUse { id: id.into(), name: "Bash".into(), input: ToolInput::Object(input) })
    }

    #[test]
    fn b029_blocks_are_put_together_by_number() {
        let events = [
            &[start(0, json!({"type": "text", "text": ""})), text(0, "Hel"), tool(2, "t2"), tool(1, "t1")][..],
            &[arguments(1, "{\"a\""), arguments(2, "{\"b\":2}"), text(0, "lo"), arguments(1, ":1}")],
            &[stop(2), stop(0), stop(1)],
            &end("tool_use"),
        ]
        .concat();
        let reply = play(&events).unwrap();
        assert_eq!(
            reply.blocks,
            [Block::Text("Hello".into()), call("t1", json!({"a": 1})), call("t2", json!({"b": 2}))]
        );
        assert_eq!(reply.stop, Stop::Ordinary("tool_use".into()));
        assert_eq!(reply.request_id.as_deref(), Some("req_1"));
    }

    #[test]
    fn b029_a_block_told_again_is_one_block_and_a_number_used_again_is_two() {
        let events = [
            &[tool(0, "t1"), tool(0, "t1"), arguments(0, "{}"), stop(0)][..],
            &[tool(0, "t2"), stop(0)],
            &end("tool_use"),
        ]
        .concat();
        assert_eq!(play(&events).unwrap().blocks, [call("t1", json!({})), call("t2", json!({}))]);
    }

    #[test]
    fn b034_signature_pieces_are_joined() {
        let signature = |piece| delta(0, json!({"type": "signature_delta", "signature": piece}));
        let events = [
            &[
                start(0, json!({"type": "thinking", "thinking": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            ][..],
            &[
                signature("ab"),
                signature("c="),
                signature("d"),
                stop(0),
                start(1, json!({"type": "text", "text": "x"})),
                stop(1),
            ],
            &end("end_turn"),
        ]
        .concat();
        let thinking = Block::Thinking { text: "hm".into(), signature: "abc=d".into() };
        assert_eq!(play(&events).unwrap().blocks, [thinking, Block::Text("x".into())]);
    }

    #[test]
    fn b036_b039_thinking_at_the_end_and_blank_text_are_left_out() {
        let redacted = json!({"type": "redacted_thinking", "data": "z"});
        let thinking = json!({"type": "thinking", "thinking": "", "signature": "s"});
        let events = [
            &[start(0, redacted.clone()), start(1, json!({"type": "text", "text": " \n"})), tool(2, "t"), stop(2)][..],
            &[start(3, thinking), stop(3), start(4, redacted.clone()), start(5, json!({"type": "text", "text": ""}))],
            &end("tool_use"),
        ]
        .concat();
        assert_eq!(play(&events).unwrap().blocks, [Block::Opaque(redacted), call("t", json!({}))]);
        assert_eq!(play(&end("end_turn")).unwrap().blocks, [], "an empty answer is an answer");
    }

    #[test]
    fn b047_b053_a_message_without_its_end_is_no_message() {
        let whole = [tool(0, "t1"), arguments(0, "{\"command\":\"touch x\"}"), stop(0)];
        for events in [&[][..], &whole, &[&whole[..], &end("tool_use")[..1]].concat()] {
            let (failure, _) = play(events).unwrap_err();
            assert_eq!(failure.kind, ModelErrorKind::Stream);
            assert_ne!(failure.remedy, crate::query::Remedy::GiveUp);
            assert_eq!(failure.request_id.as_deref(), Some("req_1"));
        }
    }

    #[test]
    fn usage_is_overwritten_and_known_even_when_the_call_fails() {
        let begin = json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 900, "output_tokens": 1}}});
        let later = json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 6, "cache_creation_input_tokens": 20, "cache_read_input_tokens": null, "output_tokens": 4}});
        let expected = |output| Usage {
            input: Tokens(6),
            cache_read: Tokens(900),
            cache_write: Tokens(20),
            output: Tokens(output),
        };
        let reply = play(&[&[begin.clone(), later.clone()][..], &end("end_turn")].concat()).unwrap();
        assert_eq!(reply.usage, expected(9));
        let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        let (failure, usage) = play(&[begin, later, error.clone()]).unwrap_err();
        assert_eq!((failure.kind, usage), (ModelErrorKind::Overloaded, Some(expected(4))));
        assert_eq!(play(&[error]).unwrap_err().1, None);
    }

    #[test]
    fn stop_reasons_are_folded() {
        let stop = |reason: &str| play(&end(reason)).unwrap().stop;
        for reason in ["end_turn", "tool_use", "stop_sequence", "pause_turn", "brand_new"] {
            assert_eq!(stop(reason), Stop::Ordinary(reason.into()));
        }
        assert_eq!(stop("max_tokens"), Stop::MaxTokens);
        assert_eq!(stop("model_context_window_exceeded"), Stop::ContextWindow);
        assert_eq!(stop("refusal"), Stop::Refusal(String::new()));
        let details = json!({"type": "refusal", "category": "cyber", "explanation": "It looks like an attack."});
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}});
        let reply =
            play(&[end, json!({"type": "message_delta", "delta": {}}), json!({"type": "message_stop"})]).unwrap();
        assert_eq!(reply.stop, Stop::Refusal("It looks like an attack. (cyber)".into()));
    }

    #[test]
    fn b060_an_open_call_at_the_limit_is_never_whole() {
        let events = [&[tool(0, "t1"), arguments(0, "{\"a\":1}")][..], &end("max_tokens")].concat();
        let reply = play(&events).unwrap();
        assert!(matches!(&reply.blocks[..], [Block::ToolUse(ToolUse { input: ToolInput::Invalid { .. }, .. })]));
        let open_but_whole = [&[tool(0, "t1"), arguments(0, "{\"a\":1}")][..], &end("tool_use")].concat();
        assert_eq!(play(&open_but_whole).unwrap().blocks, [call("t1", json!({"a": 1}))]);
    }

    #[test]
    fn b028_ids_are_made_unique() {
        let known = Message {
            id: 1,
            role: Role::Assistant,
            origin: Origin::Model,
            blocks: vec![call("old", json!({})), call("toolu_7_1", json!({}))],
        };
        let history = History::default().with(Arc::new(known));
        let events = [
            &[tool(0, "new"), stop(0), tool(1, "old"), stop(1), tool(2, "new"), stop(2), tool(3, ""), stop(3)][..],
            &end("tool_use"),
        ]
        .concat();
        let reply = play_after(&events, &history).unwrap();
        let ids: Vec<String> = reply
            .blocks
            .iter()
            .map(|block| {
                let Block::ToolUse(tool_use) = block else { panic!("{block:?}") };
                tool_use.id.to_string()
            })
            .collect();
        assert_eq!(ids, ["new", "toolu_7_1_1", "toolu_7_2", "toolu_7_3"]);
    }

    #[test]
    fn gateways_may_drop_names_numbers_and_starts() {
        let mut assembler = Assembler::default();
        let mut push = |event: &str, data: Value| {
            let frame = Frame { event: event.into(), data: data.to_string(), id: String::new() };
            assembler.push(&frame).unwrap()
        };
        push("content_block_delta", json!({"delta": {"type": "text_delta", "text": "a"}}));
        push("content_block_delta", json!({"delta": {"type": "text_delta", "text": "b"}}));
        assert_eq!(push("brand_new", json!({"type": "brand_new"})), Step::Aside);
        assert_eq!(push("ping", json!({"type": "ping"})), Step::Aside);
        push("content_block_start", json!({"content_block": {"type": "tool_use", "name": "Bash", "id": "t"}}));
        push("content_block_delta", json!({"delta": {"type": "input_json_delta", "partial_json": "{}"}}));
        push("content_block_delta", json!({"delta": {"type": "brand_new_delta"}}));
        push("message_stop", json!({}));
        push("error", json!({"type": "error"}));
        let reply = assembler.finish(CallId(1), &History::default(), None).unwrap();
        assert_eq!(reply.blocks, [Block::Text("ab".into()), call("t", json!({}))]);
        assert_eq!(reply.stop, Stop::Ordinary(String::new()));
    }

    #[test]
    fn what_is_no_json_is_a_broken_stream_unless_it_is_a_marker() {
        let mut assembler = Assembler::default();
        let mut push = |event: &str, data: &str| {
            assembler.push(&Frame { event: event.into(), data: data.into(), id: String::new() })
        };
        assert_eq!(push("message", "[DONE]"), Ok(Step::Aside));
        assert_eq!(push("message", ""), Ok(Step::Aside));
        assert_eq!(push("ping", "pong"), Ok(Step::Aside));
        assert_eq!(push("message", "{\"type\":").unwrap_err().kind, ModelErrorKind::Stream);
        assert!(push("content_block_delta", r#"{"index":0,"delta":{"type":"text_delta","text":"\ud83d"}}"#).is_ok());
    }

    proptest! {
        #[test]
        fn any_stream_gives_a_message_that_can_be_sent_back(
            picks in prop::collection::vec((0_usize..14, 0_u64..3), 0..30),
            reason in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "refusal"]),
        ) {
            let palette = |pick: usize, index: u64| match pick {
                0 => start(index, json!({"type": "text", "text": ""})),
                1 => start(index, json!({"type": "thinking"})),
                2 => tool(index, "t1"),
                3 => tool(index, ""),
                4 => start(index, json!({"type": "redacted_thinking", "data": "x"})),
                5 => start(index, json!(null)),
                6 => text(index, " "),
                7 => text(index, "word"),
                8 => arguments(index, "{\"a\""),
                9 => arguments(index, ":1}"),
                10 => delta(index, json!({"type": "signature_delta", "signature": "s"})),
                11 => stop(index),
                12 => json!({"type": "message_start"}),
                _ => json!([index]),
            };
            let events: Vec<Value> = picks.iter().map(|(pick, index)| palette(*pick, *index)).chain(end(reason)).collect();
            let prompt = Message { id: 1, role: Role::User, origin: Origin::Prompt, blocks: vec![Block::Text("x".into())] };
            let history = History::default().with(Arc::new(prompt));
            let reply = play_after(&events, &history).unwrap();
            if reply.blocks.is_empty() {
                return Ok(());
            }
            prop_assert!(reply.blocks.iter().all(|block| !matches!(block, Block::Opaque(value) if !value["type"].is_string())));
            let answer = Message { id: 2, role: Role::Assistant, origin: Origin::Model, blocks: reply.blocks };
            let results: Vec<Block> = answer.tool_uses().map(|call| Block::ToolResult(ToolResult::new(Arc::clone(&call.id), "ok", false))).collect();
            let blocks = if results.is_empty() { vec![Block::Text("go on".into())] } else { results };
            let next = Message { id: 3, role: Role::User, origin: Origin::ToolResults, blocks };
            prop_assert_eq!(history.with(Arc::new(answer)).with(Arc::new(next)).check(), Ok(()));
        }
    }
}
