//! One content block while it streams, and what becomes of it.

use crate::model::json;
use crate::query::{Block, ToolInput, ToolUse};
use serde_json::{Map, Value};

/// A block that has begun.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OpenBlock {
    /// The stream's number of the block.
    pub(super) index: u64,
    /// Its stop has not come yet.
    pub(super) open: bool,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    ToolUse {
        id: String,
        name: String,
        start: Value,
        json: String,
        /// The arguments, once they are known to be whole, whatever ends the message.
        whole: Option<Map<String, Value>>,
    },
    /// A kind that we do not know, with arguments where it streams some (`server_tool_use`).
    Other {
        value: Value,
        json: String,
    },
}

/// How the message around a block ended: what decides about arguments that are not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As the model wished.
    Ordinary,
    /// At a limit, which may have cut the last block.
    Cut,
}

/// What a delta was, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// Nothing to show.
    Silent,
}

impl OpenBlock {
    /// From `content_block_start`. Everything that the start says already counts.
    pub(super) fn start(index: u64, value: Value) -> Self {
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let content = match value.get("type").and_then(Value::as_str) {
            Some("text") => Content::Text(field("text")),
            Some("thinking") => Content::Thinking { text: field("thinking"), signature: field("signature") },
            Some("tool_use") => Content::ToolUse {
                id: field("id"),
                name: field("name"),
                start: value.get("input").cloned().unwrap_or_default(),
                json: String::new(),
                whole: None,
            },
            _ => Content::Other { value, json: String::new() },
        };
        Self { index, open: true, content }
    }

    /// For a delta whose block never began: some gateways leave the start of a text out.
    pub(super) fn implied(index: u64, delta: &Value) -> Option<Self> {
        let content = match delta.get("type").and_then(Value::as_str) {
            Some("text_delta") => Content::Text(String::new()),
            Some("thinking_delta") => Content::Thinking { text: String::new(), signature: String::new() },
            _ => return None,
        };
        Some(Self { index, open: true, content })
    }

    /// The name of the tool that it calls.
    pub(super) fn tool(&self) -> Option<&str> {
        match &self.content {
            Content::ToolUse { name, .. } => Some(name),
            Content::Text(_) | Content::Thinking { .. } | Content::Other { .. } => None,
        }
    }

    /// Takes a delta; one of an unknown kind, or one that does not belong to this kind of block, is ignored.
    pub(super) fn delta(&mut self, delta: &Value) -> Piece {
        let field = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match (delta.get("type").and_then(Value::as_str), &mut self.content) {
            (Some("text_delta"), Content::Text(text)) => {
                text.push_str(field("text"));
                Piece::Text(field("text").to_owned())
            }
            (Some("thinking_delta"), Content::Thinking { text, .. }) => {
                text.push_str(field("thinking"));
                Piece::Thinking(field("thinking").to_owned())
            }
            (Some("signature_delta"), Content::Thinking { signature, .. }) => {
                signature.push_str(field("signature"));
                Piece::Silent
            }
            (Some("input_json_delta"), Content::ToolUse { json, .. } | Content::Other { json, .. }) => {
                json.push_str(field("partial_json"));
                Piece::Silent
            }
            _ => Piece::Silent,
        }
    }

    /// From `content_block_stop`.
    pub(super) fn close(&mut self) {
        self.open = false;
        if let Content::ToolUse { start, json, whole, .. } = &mut self.content {
            *whole = match tool_input(json, start, Some(Cut::Perhaps)) {
                ToolInput::Object(map) => Some(map),
                ToolInput::Invalid { .. } => None,
            };
        }
    }

    /// Whether it is closed and would be the same should a limit end the message right after it.
    pub(super) const fn is_settled(&self) -> bool {
        let whole = match &self.content {
            Content::ToolUse { whole, .. } => whole.is_some(),
            Content::Text(_) | Content::Thinking { .. } | Content::Other { .. } => true,
        };
        whole && !self.open
    }

    /// The whole block; `None` for what cannot be sent back, such as blank text. `last` says that nothing follows it in the message.
    pub(super) fn finish(self, ending: Ending, last: bool) -> Option<Block> {
        match self.content {
            Content::Text(text) => (!text.trim().is_empty()).then_some(Block::Text(text)),
            Content::Thinking { text, signature } => Some(Block::Thinking { text, signature }),
            Content::ToolUse { id, name, start, json, whole } => {
                let cut = ending == Ending::Cut && (self.open || last);
                let cut = cut.then_some(if self.open { Cut::Surely } else { Cut::Perhaps });
                let input = whole.map_or_else(|| tool_input(&json, &start, cut), ToolInput::Object);
                Some(Block::ToolUse(ToolUse { id: id.into(), name, input }))
            }
            Content::Other { mut value, json } => {
                if let (Some(map), Ok(input)) = (value.as_object_mut(), json::parse(&json)) {
                    map.insert("input".to_owned(), input);
                }
                // What names no type is no block, and could not be sent back.
                value.get("type").is_some_and(Value::is_string).then_some(Block::Opaque(value))
            }
        }
    }
}

/// Whether the output limit has cut a call off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Its stop never came.
    Surely,
    /// It is the last block of a message that a limit ended: its arguments tell.
    Perhaps,
}

const CUT_OFF: &str = "the output limit cut the call off before its arguments were complete; \
                       write less in one call, for example a smaller piece of the file";

fn tool_input(json: &str, start: &Value, cut: Option<Cut>) -> ToolInput {
    let invalid = |raw: &str, problem: &str| ToolInput::Invalid { raw: raw.to_owned(), problem: problem.to_owned() };
    if cut == Some(Cut::Surely) {
        return invalid(json, CUT_OFF);
    }
    if json.trim().is_empty() {
        return match start {
            Value::Object(map) if !map.is_empty() => ToolInput::Object(map.clone()),
            _ if cut.is_some() => invalid(json, CUT_OFF),
            Value::String(text) => tool_input(text, &Value::Null, None),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                ToolInput::Object(Map::new())
            }
        };
    }
    match json::parse(json) {
        Ok(Value::Object(map)) => ToolInput::Object(map),
        Ok(Value::Null) => ToolInput::Object(Map::new()),
        Ok(Value::String(text)) if text.trim().is_empty() => ToolInput::Object(Map::new()),
        // Encoded twice, as some gateways do.
        Ok(Value::String(text)) => match json::parse(&text) {
            Ok(Value::Object(map)) => ToolInput::Object(map),
            Ok(_) | Err(_) => invalid(json, "the arguments are a JSON string, not an object"),
        },
        Ok(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            invalid(json, "the arguments are JSON, but not an object")
        }
        Err(_) if cut.is_some() => invalid(json, CUT_OFF),
        Err(error) => invalid(json, &format!("the arguments are not valid JSON: {error}")),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without a borrow")]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(pieces: &[&str], start: Value, ending: Ending, open: bool) -> ToolInput {
        let mut block = OpenBlock::start(0, json!({"type": "tool_use", "id": "t", "name": "Bash", "input": start}));
        for piece in pieces {
            assert_eq!(block.delta(&json!({"type": "input_json_delta", "partial_json": piece})), Piece::Silent);
        }
        block.open = open;
        match block.finish(ending, true) {
            Some(Block::ToolUse(call)) => call.input,
            other => panic!("{other:?}"),
        }
    }

    fn object(value: &Value) -> ToolInput {
        ToolInput::Object(value.as_object().unwrap().clone())
    }

    fn problem(input: ToolInput) -> String {
        match input {
            ToolInput::Invalid { problem, .. } => problem,
            ToolInput::Object(map) => panic!("{map:?}"),
        }
    }

    #[test]
    fn arguments_come_in_any_of_the_known_ways() {
        let whole = |pieces: &[&str], start| input(pieces, start, Ending::Ordinary, false);
        let expected = object(&json!({"command": "ls"}));
        assert_eq!(whole(&["", "{\"comm", "and\":\"ls\"  }"], json!({})), expected);
        assert_eq!(whole(&[], json!({"command": "ls"})), expected);
        assert_eq!(whole(&[r#""{\"command\":\"ls\"}""#], json!({})), expected);
        assert_eq!(whole(&[], json!("{\"command\":\"ls\"}")), expected);
        for nothing in [&["null"][..], &["\"\""], &[""], &["{}"], &[]] {
            assert_eq!(whole(nothing, json!({})), object(&json!({})), "{nothing:?}");
        }
        assert_eq!(whole(&[], Value::Null), object(&json!({})));
    }

    #[test]
    fn b059_arguments_that_are_no_object_are_kept_with_their_problem() {
        for raw in [r#"{"path":"a"}}"#, "[1]", "3", "{", r#""text""#, "{\"a\":\"\u{1}\"}"] {
            match input(&[raw], json!({}), Ending::Ordinary, false) {
                ToolInput::Invalid { raw: kept, .. } => assert_eq!(kept, raw),
                ToolInput::Object(map) => panic!("{raw}: {map:?}"),
            }
        }
    }

    #[test]
    fn b060_b061_a_call_that_the_limit_cut_is_never_whole() {
        assert!(problem(input(&["{\"path\":\"a"], json!({}), Ending::Cut, true)).contains("output limit"));
        assert!(problem(input(&["{\"path\":\"a\"}"], json!({}), Ending::Cut, true)).contains("output limit"));
        assert!(problem(input(&["{\"path\":\"a"], json!({}), Ending::Cut, false)).contains("output limit"));
        assert!(problem(input(&[], json!({}), Ending::Cut, false)).contains("output limit"));
        assert_eq!(input(&["{\"a\":1}"], json!({}), Ending::Cut, false), object(&json!({"a": 1})));
    }

    #[test]
    fn unknown_blocks_keep_their_fields_and_take_streamed_arguments() {
        let mut block = OpenBlock::start(0, json!({"type": "server_tool_use", "id": "s", "input": {}, "x": [1]}));
        block.delta(&json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"}));
        block.delta(&json!({"type": "sparkle_delta", "sparkle": "*"}));
        let expected = json!({"type": "server_tool_use", "id": "s", "input": {"q": 1}, "x": [1]});
        assert_eq!(block.finish(Ending::Ordinary, true), Some(Block::Opaque(expected)));
    }
}
