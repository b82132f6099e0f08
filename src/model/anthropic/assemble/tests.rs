//! The assembler, event by event.

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
    assert_eq!(reply.blocks, [Block::Text("Hello".into()), call("t1", json!({"a": 1})), call("t2", json!({"b": 2}))]);
    assert_eq!(reply.stop, Stop::Ordinary("tool_use".into()));
    assert_eq!(reply.request_id.as_deref(), Some("req_1"));
}

#[test]
fn b029_a_block_told_again_is_one_block_and_a_number_used_again_is_two() {
    let events =
        [&[tool(0, "t1"), tool(0, "t1"), arguments(0, "{}"), stop(0)][..], &[tool(0, "t2"), stop(0)], &end("tool_use")]
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
    let expected =
        |output| Usage { input: Tokens(6), cache_read: Tokens(900), cache_write: Tokens(20), output: Tokens(output) };
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
    let reply = play(&[end, json!({"type": "message_delta", "delta": {}}), json!({"type": "message_stop"})]).unwrap();
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
    let mut push =
        |event: &str, data: &str| assembler.push(&Frame { event: event.into(), data: data.into(), id: String::new() });
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
