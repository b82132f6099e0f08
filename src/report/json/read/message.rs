//! A `message` line of a transcript back to the [`Message`].

use crate::query::{Block, Media, Message, Origin, Role, ToolInput, ToolResult, ToolUse};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A line of the kind `message`.
#[derive(Deserialize)]
pub(super) struct MessageLine {
    pub(super) agent: Option<u32>,
    id: u64,
    role: String,
    origin: String,
    blocks: Vec<BlockValue>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockValue {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        signature: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Option<Map<String, Value>>,
        invalid: Option<InvalidValue>,
    },
    ToolResult {
        id: String,
        content: String,
        is_error: bool,
        #[serde(default)]
        media: Vec<MediaValue>,
    },
    Opaque {
        value: Value,
    },
}

#[derive(Deserialize)]
struct InvalidValue {
    raw: String,
    problem: String,
}

#[derive(Deserialize)]
struct MediaValue {
    media_type: String,
    data: String,
}

impl MessageLine {
    /// The message.
    pub(super) fn message(self) -> Result<Message, String> {
        let role = match self.role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            other => return Err(format!("unknown role {other:?}")),
        };
        let blocks = self.blocks.into_iter().map(block).collect::<Result<_, _>>()?;
        Ok(Message { id: self.id, role, origin: origin(&self.origin)?, blocks })
    }
}

fn origin(code: &str) -> Result<Origin, String> {
    if let Some(index) = code.strip_prefix("follow_up:") {
        return index.parse().map(Origin::FollowUp).map_err(|_| format!("unknown origin {code:?}"));
    }
    Ok(match code {
        "prompt" => Origin::Prompt,
        "model" => Origin::Model,
        "tool_results" => Origin::ToolResults,
        "budget" => Origin::Budget,
        "command" => Origin::Command,
        "summary" => Origin::Summary,
        "digest" => Origin::Digest,
        "gate" => Origin::Gate,
        "recovery" => Origin::Recovery,
        "interruption" => Origin::Interruption,
        other => return Err(format!("unknown origin {other:?}")),
    })
}

fn block(value: BlockValue) -> Result<Block, String> {
    Ok(match value {
        BlockValue::Text { text } => Block::Text(text),
        BlockValue::Thinking { text, signature } => Block::Thinking { text, signature },
        BlockValue::ToolUse { id, name, input, invalid } => {
            let input = match (input, invalid) {
                (Some(input), _) => ToolInput::Object(input),
                (None, Some(InvalidValue { raw, problem })) => ToolInput::Invalid { raw, problem },
                (None, None) => return Err(format!("the call {id} has no input")),
            };
            Block::ToolUse(ToolUse { id: id.into(), name, input })
        }
        BlockValue::ToolResult { id, content, is_error, media } => {
            let media = media.into_iter().map(picture).collect::<Result<_, _>>()?;
            Block::ToolResult(ToolResult { id: id.into(), content, is_error, media })
        }
        BlockValue::Opaque { value } => Block::Opaque(value),
    })
}

fn picture(value: MediaValue) -> Result<Media, String> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let media_type = known.into_iter().find(|known| *known == value.media_type);
    let media_type = media_type.ok_or_else(|| format!("unknown kind of image {:?}", value.media_type))?;
    Ok(Media { media_type, data: value.data.into() })
}
