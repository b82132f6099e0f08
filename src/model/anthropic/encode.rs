//! A message of the conversation as bytes of the wire. Made once for each message, with the places at which a cache mark
//! can be put in later, so that nothing is encoded twice.

use crate::query::{Block, Media, Message, Role, ToolInput, ToolResult};
use bytes::Bytes;
use serde::Serialize;
use serde::ser::SerializeSeq;
use serde_json::{Map, Value};

/// What a cache mark adds to a block.
pub(super) const MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// A message as bytes.
#[derive(Clone, Debug)]
pub(super) struct WireMessage {
    /// Who speaks.
    pub(super) role: Role,
    /// Its tool results, which come first in a message of the wire.
    pub(super) results: Segment,
    /// Its other blocks.
    pub(super) others: Segment,
}

/// Blocks as bytes, separated by commas.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    /// The bytes; empty when there is no block.
    pub(super) bytes: Bytes,
    /// Where a mark goes: before the closing brace of the last block that may carry one.
    pub(super) mark: Option<usize>,
}

/// The shapes of the wire.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str, signature: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: WireInput<'a> },
    ToolResult(WireResult<'a>),
    Image { source: ImageSource<'a> },
}

#[derive(Serialize)]
struct WireResult<'a> {
    tool_use_id: &'a str,
    content: WireContent<'a>,
    #[serde(skip_serializing_if = "is_false")]
    is_error: bool,
}

/// What a call brought: text alone as it is, or the text and the images after it as blocks.
struct WireContent<'a> {
    text: &'a str,
    media: &'a [Media],
}

impl Serialize for WireContent<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.media.is_empty() {
            return serializer.serialize_str(self.text);
        }
        let mut blocks = serializer.serialize_seq(Some(1 + self.media.len()))?;
        blocks.serialize_element(&WireBlock::Text { text: self.text })?;
        for Media { media_type, data } in self.media {
            let source = ImageSource::Base64 { media_type, data };
            blocks.serialize_element(&WireBlock::Image { source })?;
        }
        blocks.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ImageSource<'a> {
    Base64 { media_type: &'a str, data: &'a str },
}

/// The arguments of a call: the object as it came, or the text that is none, wrapped into one as the API's guide has it.
enum WireInput<'a> {
    Object(&'a Map<String, Value>),
    Invalid(&'a str),
}

impl Serialize for WireInput<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(map) => map.serialize(serializer),
            Self::Invalid(raw) => serializer.collect_map([("INVALID_JSON", raw)]),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl WireMessage {
    /// Encodes a message. Blank text is left out: the API refuses it.
    pub(super) fn new(message: &Message) -> Result<Self, serde_json::Error> {
        let mut results = Writer::default();
        let mut others = Writer::default();
        for block in &message.blocks {
            match block {
                Block::Text(text) if text.trim().is_empty() => {}
                Block::Text(text) => others.push(&WireBlock::Text { text }, Markable::Yes)?,
                Block::Thinking { text, signature } => {
                    others.push(&WireBlock::Thinking { thinking: text, signature }, Markable::No)?;
                }
                Block::ToolUse(call) => {
                    let input = match &call.input {
                        ToolInput::Object(map) => WireInput::Object(map),
                        ToolInput::Invalid { raw, .. } => WireInput::Invalid(raw),
                    };
                    others.push(&WireBlock::ToolUse { id: &call.id, name: &call.name, input }, Markable::Yes)?;
                }
                Block::ToolResult(result) => {
                    let text = if result.content.trim().is_empty() { ToolResult::EMPTY } else { &result.content };
                    // The API takes nothing but text for an error.
                    let media = if result.is_error { &[] } else { result.media.as_slice() };
                    let content = WireContent { text, media };
                    let result = WireResult { tool_use_id: &result.id, content, is_error: result.is_error };
                    results.push(&WireBlock::ToolResult(result), Markable::Yes)?;
                }
                Block::Opaque(value) => others.push(value, Markable::No)?,
            }
        }
        Ok(Self { role: message.role, results: results.finish(), others: others.finish() })
    }
}

impl WireMessage {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.results.bytes.len() + self.others.bytes.len()
    }
}

/// Whether a block may carry a cache mark: thinking may not, and of blocks that we do not know nothing is promised.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Markable {
    Yes,
    No,
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    mark: Option<usize>,
}

impl Writer {
    fn push(&mut self, block: &impl Serialize, markable: Markable) -> Result<(), serde_json::Error> {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        serde_json::to_writer(&mut self.bytes, block)?;
        if markable == Markable::Yes {
            self.mark = Some(self.bytes.len().saturating_sub(1));
        }
        Ok(())
    }

    fn finish(self) -> Segment {
        Segment { bytes: self.bytes.into(), mark: self.mark }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Origin, ToolUse};
    use serde_json::json;

    fn encode(blocks: Vec<Block>) -> WireMessage {
        WireMessage::new(&Message { id: 1, role: Role::Assistant, origin: Origin::Model, blocks }).unwrap()
    }

    fn read(segment: &Segment) -> Value {
        serde_json::from_slice(&[b"[", &segment.bytes[..], b"]"].concat()).unwrap()
    }

    #[test]
    fn b032_b034_thinking_and_unknown_blocks_go_back_as_they_came() {
        let opaque = json!({"type": "redacted_thinking", "data": "abc=", "z": 1, "a": null});
        let wire = encode(vec![
            Block::Thinking { text: "hm \"é\"\n".into(), signature: "sig+/=".into() },
            Block::Opaque(opaque.clone()),
            Block::Thinking { text: String::new(), signature: "s2".into() },
            Block::Text("done ".into()),
        ]);
        assert_eq!(
            read(&wire.others),
            json!([
                {"type": "thinking", "thinking": "hm \"é\"\n", "signature": "sig+/="},
                opaque,
                {"type": "thinking", "thinking": "", "signature": "s2"},
                {"type": "text", "text": "done "},
            ])
        );
        let text = String::from_utf8(wire.others.bytes.to_vec()).unwrap();
        assert!(
            text.contains(r#"{"type":"redacted_thinking","data":"abc=","z":1,"a":null}"#),
            "keys keep their order: {text}"
        );
    }

    #[test]
    fn b037_b039_blank_text_is_never_sent() {
        let wire = encode(vec![Block::Text(" \n".into()), Block::Text("x".into()), Block::Text(String::new())]);
        assert_eq!(read(&wire.others), json!([{"type": "text", "text": "x"}]));
        let empty = ToolResult { id: "t".into(), content: "\n".into(), is_error: false, media: Vec::new() };
        let wire = encode(vec![Block::ToolResult(empty)]);
        assert_eq!(read(&wire.results)[0]["content"], ToolResult::EMPTY);
    }

    #[test]
    fn images_follow_the_text_of_their_result() {
        let image = |data: &str| Media { media_type: "image/png", data: data.into() };
        let mut result = ToolResult::new("t".into(), "a.png", false);
        let plain = encode(vec![Block::ToolResult(result.clone())]);
        assert_eq!(&plain.results.bytes[..], br#"{"type":"tool_result","tool_use_id":"t","content":"a.png"}"#);
        result.media = vec![image("aGk="), image("aG8=")];
        let source = |data: &str| json!({"type": "base64", "media_type": "image/png", "data": data});
        let content = json!([
            {"type": "text", "text": "a.png"},
            {"type": "image", "source": source("aGk=")},
            {"type": "image", "source": source("aG8=")},
        ]);
        let wire = encode(vec![Block::ToolResult(result.clone())]);
        assert_eq!(read(&wire.results), json!([{"type": "tool_result", "tool_use_id": "t", "content": content}]));
        let (before, after) = wire.results.bytes.split_at(wire.results.mark.unwrap());
        let marked: Value = serde_json::from_slice(&[before, MARK, after].concat()).unwrap();
        assert_eq!(marked["cache_control"], json!({"type": "ephemeral"}), "the mark is the result's");
        result.is_error = true;
        assert_eq!(read(&encode(vec![Block::ToolResult(result)]).results)[0]["content"], "a.png");
    }

    #[test]
    fn arguments_that_are_no_object_are_wrapped() {
        let call = |input| Block::ToolUse(ToolUse { id: "t1".into(), name: "Edit".into(), input });
        let wire = encode(vec![
            call(ToolInput::Invalid { raw: "{\"a".into(), problem: "cut".into() }),
            call(ToolInput::Object(Map::new())),
        ]);
        assert_eq!(read(&wire.others)[0]["input"], json!({"INVALID_JSON": "{\"a"}));
        assert_eq!(read(&wire.others)[1]["input"], json!({}));
    }

    #[test]
    fn the_mark_goes_into_the_last_block_that_may_carry_one() {
        let wire = encode(vec![
            Block::Text("a".into()),
            Block::Thinking { text: "b".into(), signature: "c".into() },
            Block::ToolResult(ToolResult::new("t".into(), "out", true)),
        ]);
        let at = wire.others.mark.unwrap();
        let (before, after) = wire.others.bytes.split_at(at);
        let marked: Value = serde_json::from_slice(&[b"[", before, MARK, after, b"]"].concat()).unwrap();
        assert_eq!(marked[0]["cache_control"], json!({"type": "ephemeral"}));
        assert_eq!(marked[1].get("cache_control"), None);
        assert_eq!(
            read(&wire.results),
            json!([{"type": "tool_result", "tool_use_id": "t", "content": "out", "is_error": true}])
        );
        assert_eq!(encode(vec![Block::Thinking { text: "b".into(), signature: "c".into() }]).others.mark, None);
    }
}
