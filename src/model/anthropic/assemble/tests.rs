//! The assembler, event by event.

use super::*;
use crate::outcome::ModelErrorKind;
use crate::query::{History, Message, Origin, Role, ToolInput, ToolResult, ToolUse};
use proptest::prelude::*;
use serde_json::json;

/// Plays events, then finishes. The blocks that were told must be those of the message.
fn play(events: &[Value]) -> Result<Reply, (Failure, Option<Usage>)> {
    play_after(events, &[])
}

fn play_after(events: &[Value], known: &[&str]) -> Result<Reply, (Failure, Option<Usage>)> {
    let mut assembler = assembler(known);
    let mut shown = Vec::new();
    for event in events {
        push(&mut assembler, event, &mut shown).map_err(|failure| (failure, assembler.usage()))?;
    }
    let reply = assembler.finish(Some("req_1".into()))?;
    assert_eq!(blocks(&shown), reply.blocks);
    Ok(reply)
}

/// The blocks that are told by then.
fn told(events: &[Value]) -> Vec<Block> {
    let (mut assembler, mut shown) = (assembler(&[]), Vec::new());
    for event in events {
        push(&mut assembler, event, &mut shown).unwrap();
    }
    blocks(&shown)
}

fn assembler(known: &[&str]) -> Assembler {
    Assembler::new(CallId(7), known.iter().map(|id| ToolUseId::from(*id)).collect())
}

fn push(assembler: &mut Assembler, event: &Value, shown: &mut Vec<Progress>) -> Result<Step, Failure> {
    assembler.push(&Frame { event: "message".into(), data: event.to_string(), id: String::new() }, shown)
}

fn blocks(shown: &[Progress]) -> Vec<Block> {
    let block = |progress: &Progress| if let Progress::Block(block) = progress { Some(block.clone()) } else { None };
    shown.iter().filter_map(block).collect()
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
    for reason in ["end_turn", "tool_use", "stop_sequence", "brand_new"] {
        assert_eq!(stop(reason), Stop::Ordinary(reason.into()));
    }
    assert_eq!(stop("max_tokens"), Stop::MaxTokens);
    assert_eq!(stop("pause_turn"), Stop::Pause);
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
    let events = [
        &[tool(0, "new"), stop(0), tool(1, "old"), stop(1), tool(2, "new"), stop(2), tool(3, ""), stop(3)][..],
        &end("tool_use"),
    ]
    .concat();
    let reply = play_after(&events, &["old", "toolu_7_1"]).unwrap();
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
    let mut assembler = assembler(&[]);
    let mut push = |event: &str, data: Value| {
        let frame = Frame { event: event.into(), data: data.to_string(), id: String::new() };
        assembler.push(&frame, &mut Vec::new()).unwrap()
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
    let reply = assembler.finish(None).unwrap();
    assert_eq!(reply.blocks, [Block::Text("ab".into()), call("t", json!({}))]);
    assert_eq!(reply.stop, Stop::Ordinary(String::new()));
}

#[test]
fn what_is_no_json_is_a_broken_stream_unless_it_is_a_marker() {
    let mut assembler = assembler(&[]);
    let mut push = |event: &str, data: &str| {
        let frame = Frame { event: event.into(), data: data.into(), id: String::new() };
        assembler.push(&frame, &mut Vec::new())
    };
    assert_eq!(push("message", "[DONE]"), Ok(Step::Aside));
    assert_eq!(push("message", ""), Ok(Step::Aside));
    assert_eq!(push("ping", "pong"), Ok(Step::Aside));
    assert_eq!(push("message", "{\"type\":").unwrap_err().kind, ModelErrorKind::Stream);
    assert!(push("content_block_delta", r#"{"index":0,"delta":{"type":"text_delta","text":"\ud83d"}}"#).is_ok());
}

#[test]
fn a_block_is_told_when_nothing_can_change_it_any_more() {
    let ls = [tool(0, "t1"), arguments(0, "{\"command\":\"ls\"}")];
    assert_eq!(told(&ls), []);
    assert_eq!(told(&[&ls[..], &[stop(0)]].concat()), [call("t1", json!({"command": "ls"}))]);
    let words = [start(0, json!({"type": "text", "text": ""})), text(0, "Hello")];
    assert_eq!(told(&words), []);
    assert_eq!(told(&[&words[..], &[stop(0)]].concat()), [Block::Text("Hello".into())]);
    let unknown = json!({"type": "server_tool_use", "id": "s", "name": "x", "input": {}});
    assert_eq!(told(&[start(0, unknown.clone()), stop(0)]), [Block::Opaque(unknown)]);
}

#[test]
fn b029_blocks_are_told_in_the_order_of_the_message() {
    let events = [tool(0, "t0"), tool(1, "t1"), arguments(1, "{\"b\":1}"), stop(1)];
    assert_eq!(told(&events), [], "another block comes before it");
    let both = [call("t0", json!({"a": 1})), call("t1", json!({"b": 1}))];
    assert_eq!(told(&[&events[..], &[arguments(0, "{\"a\":1}"), stop(0)]].concat()), both);
}

#[test]
fn b036_thinking_is_told_together_with_what_follows_it() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let events = [start(0, thinking), stop(0), start(1, json!({"type": "text", "text": " "})), stop(1)];
    assert_eq!(told(&events), [], "it would be left out at the end");
    let expected = [Block::Thinking { text: "hm".into(), signature: "s".into() }, call("t", json!({"a": 1}))];
    assert_eq!(told(&[&events[..], &[tool(2, "t"), arguments(2, "{\"a\":1}"), stop(2)]].concat()), expected);
}

#[test]
fn b060_b061_a_call_that_may_have_been_cut_is_told_when_it_is_known() {
    for json in ["", "{\"path\":\"a"] {
        let closed = [tool(0, "t1"), arguments(0, json), stop(0)];
        assert_eq!(told(&closed), [], "{json}: a limit may be next");
        let [Block::ToolUse(ordinary)] = &told(&[&closed[..], &[tool(1, "t2")]].concat())[..] else { panic!() };
        let [Block::ToolUse(cut)] = &told(&[&closed[..], &end("max_tokens")].concat())[..] else { panic!() };
        assert!(
            matches!(&cut.input, ToolInput::Invalid { problem, .. } if problem.contains("output limit")),
            "{cut:?}"
        );
        match &ordinary.input {
            ToolInput::Object(map) => assert!(json.is_empty() && map.is_empty()),
            ToolInput::Invalid { problem, .. } => assert!(problem.contains("not valid JSON"), "{problem}"),
        }
    }
}

#[test]
fn what_the_provider_cleared_is_added_up() {
    let report = |edits: Value| {
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "context_management": {"applied_edits": edits}});
        play(&[end, json!({"type": "message_delta", "delta": {}}), json!({"type": "message_stop"})]).unwrap().cleared
    };
    let edit = |kind: &str, uses: u64, tokens: u64| json!({"type": kind, "cleared_tool_uses": uses, "cleared_input_tokens": tokens});
    assert_eq!(
        report(json!([
            edit("clear_tool_uses_20250919", 3, 5000),
            {"type": "clear_thinking_20251015", "cleared_thinking_turns": 2, "cleared_input_tokens": 70},
            edit("clear_tool_uses_20250919", 1, 20),
        ])),
        Some(Cleared { tool_results: 4, tokens: Tokens(5020) })
    );
    for nothing in [json!([]), json!(null), json!([edit("clear_tool_uses_20250919", 0, 0)]), json!([{"type": "other"}])]
    {
        assert_eq!(report(nothing), None);
    }
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
        let reply = play(&events).unwrap();
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
