//! A whole message as the events of a stream: what the server would have sent, had it sent it bit by bit.

use serde_json::{Value, json};

/// The longest piece of text in one delta, in characters.
const PIECE: usize = 40;

/// The events of a message object, in order.
pub(in crate::model) fn events(message: &Value) -> Vec<Value> {
    let usage = message.get("usage").cloned().unwrap_or_else(|| json!({}));
    let mut head = message.clone();
    if let Some(fields) = head.as_object_mut() {
        fields.insert("content".into(), json!([]));
        fields.insert("stop_reason".into(), Value::Null);
        fields.shift_remove("stop_details");
        fields.shift_remove("context_management");
    }
    let mut events = vec![json!({"type": "message_start", "message": head})];
    for (index, block) in message.get("content").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let (start, deltas) = parts(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let mut end = json!({"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")});
    if let (Some(details), Some(end)) = (message.get("stop_details"), end.as_object_mut()) {
        end.insert("stop_details".into(), details.clone());
    }
    let mut end = json!({"type": "message_delta", "delta": end, "usage": usage});
    if let (Some(report), Some(end)) = (message.get("context_management"), end.as_object_mut()) {
        end.insert("context_management".into(), report.clone());
    }
    events.push(end);
    events.push(json!({"type": "message_stop"}));
    events
}

/// How a block begins, and the deltas that complete it. A block of another kind comes whole.
fn parts(block: &Value) -> (Value, Vec<Value>) {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match block.get("type").and_then(Value::as_str) {
        Some("text") => {
            let deltas = pieces(text("text")).map(|piece| json!({"type": "text_delta", "text": piece}));
            (json!({"type": "text", "text": ""}), deltas.collect())
        }
        Some("thinking") => {
            let thinking = pieces(text("thinking")).map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
            let signature =
                pieces(text("signature")).map(|piece| json!({"type": "signature_delta", "signature": piece}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), thinking.chain(signature).collect())
        }
        Some("tool_use") => {
            let input = block.get("input").map(Value::to_string).unwrap_or_default();
            let deltas = pieces(&input).map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
            (
                json!({"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": {}}),
                deltas.collect(),
            )
        }
        _ => (block.clone(), Vec::new()),
    }
}

/// The text in pieces of a few characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
