//! Messages and the history they form: immutable, shared, cheap to replace whole.
//!
//! The wire's shapes live in `model/`; here is only what the loop needs to know about a message. [`History`] clones in
//! constant time and shares its messages, so a new state, a fork or a snapshot never copies the conversation.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person, or the runner on their behalf: prompts, tool results, gate output.
    User,
    /// The model.
    Assistant,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The job's prompt, with its context files.
    Prompt,
    /// A queued input of the job, counted from 0.
    FollowUp(usize),
    /// The model.
    Model,
    /// Results of tool calls.
    ToolResults,
    /// A meta message: what a blocking gate or hook said.
    Gate,
    /// A meta message: the answer was cut at the output limit, or empty.
    Recovery,
    /// A meta message: there is budget left.
    Budget,
    /// A notice: a background command ended.
    Command,
    /// The task and a summary, in place of the conversation before it.
    Summary,
    /// A digest of old turns, in place of them.
    Digest,
    /// A meta message: the query was interrupted.
    Interruption,
}

/// The id of a tool call, as the model gave it.
pub type ToolUseId = Arc<str>;

/// A message of the conversation. It never changes once made.
#[derive(Debug, PartialEq)]
pub struct Message {
    /// Unique in its query and rising: the key under which its wire form may be kept.
    pub id: u64,
    /// Who speaks.
    pub role: Role,
    /// Where it came from.
    pub origin: Origin,
    /// What is said; never empty.
    pub blocks: Vec<Block>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Text with something in it besides white space.
    Text(String),
    /// The model's thinking, kept byte for byte as long as the provider wants it back.
    Thinking {
        /// The visible text, often empty.
        text: String,
        /// The provider's signature over it.
        signature: String,
    },
    /// A call of a tool.
    ToolUse(ToolUse),
    /// The result of a call.
    ToolResult(ToolResult),
    /// A block of a kind that we do not know, sent back unchanged. `redacted_thinking` among them.
    Opaque(Value),
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The model's id of the call.
    pub id: ToolUseId,
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub input: ToolInput,
}

/// Arguments of a call: a JSON object, or what came instead.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput {
    /// A well-formed object.
    Object(Map<String, Value>),
    /// Text that is no JSON object, with what is wrong with it. The call is never run; the model is told.
    Invalid {
        /// The text as it came.
        raw: String,
        /// What is wrong, in words.
        problem: String,
    },
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call that it answers.
    pub id: ToolUseId,
    /// What the model reads; never blank.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Images that belong to it, after the text; mostly none.
    pub media: Vec<Media>,
}

impl ToolResult {
    /// What stands for a result without any text.
    pub const EMPTY: &'static str = "(no output)";

    /// A result; blank text is replaced by a marker, since providers refuse blank blocks.
    pub fn new(id: ToolUseId, content: impl Into<String>, is_error: bool) -> Self {
        let content = content.into();
        let content = if content.trim().is_empty() { Self::EMPTY.to_owned() } else { content };
        Self { id, content, is_error, media: Vec::new() }
    }
}

/// An image, as providers take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// `image/png` and its like.
    pub media_type: &'static str,
    /// The bytes in base64.
    pub data: Arc<str>,
}

impl Message {
    /// The calls in it, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            Block::Text(_) | Block::Thinking { .. } | Block::ToolResult(_) | Block::Opaque(_) => None,
        })
    }

    /// The results in it, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) | Block::Opaque(_) => None,
        })
    }

    /// Its visible text, blocks joined by newlines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                Block::Thinking { .. } | Block::ToolUse(_) | Block::ToolResult(_) | Block::Opaque(_) => None,
            })
            .collect();
        texts.join("\n")
    }

    /// About how many bytes it is on the wire: what an estimate of its tokens starts from.
    #[must_use]
    pub fn weight(&self) -> usize {
        const FRAME: usize = 60; // Field names, quotes and braces of a block.
        const MEDIA: usize = 12_000; // An image is 4,784 tokens at most (the provider's document on vision, 2026).
        self.blocks
            .iter()
            .map(|block| {
                FRAME
                    + match block {
                        Block::Text(text) => text.len(),
                        Block::Thinking { text, signature } => text.len() + signature.len(),
                        Block::ToolUse(call) => call.name.len() + call.id.len() + call.input.weight(),
                        Block::ToolResult(result) => {
                            result.id.len() + result.content.len() + result.media.len() * MEDIA
                        }
                        Block::Opaque(value) => value.to_string().len(),
                    }
            })
            .sum()
    }
}

impl ToolInput {
    fn weight(&self) -> usize {
        match self {
            Self::Object(map) => map.iter().map(|(key, value)| key.len() + 6 + value_weight(value)).sum(),
            Self::Invalid { raw, .. } => raw.len() + 20,
        }
    }
}

fn value_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string().len(),
    }
}

impl FromIterator<Arc<Message>> for History {
    fn from_iter<T: IntoIterator<Item = Arc<Message>>>(messages: T) -> Self {
        Self { messages: messages.into_iter().collect() }
    }
}

/// A thinking block, readable or not.
pub(super) fn is_thinking(block: &Block) -> bool {
    match block {
        Block::Thinking { .. } => true,
        Block::Opaque(value) => value.get("type").and_then(|kind| kind.as_str()) == Some("redacted_thinking"),
        Block::Text(_) | Block::ToolUse(_) | Block::ToolResult(_) => false,
    }
}

/// The conversation so far. Clones share everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    messages: imbl::Vector<Arc<Message>>,
}

impl History {
    /// This history with one message more.
    #[must_use]
    pub fn with(&self, message: Arc<Message>) -> Self {
        let mut messages = self.messages.clone();
        messages.push_back(message);
        Self { messages }
    }

    /// The messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.messages.iter()
    }

    /// One of them, by its place.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&Arc<Message>> {
        self.messages.get(at)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The newest message.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// Checks the rules that hold at every request (the spec's section 11), as the strictest provider would.
    ///
    /// # Errors
    /// Names the first rule that is broken and the message that breaks it. Neighbouring messages of one role count as
    /// one, as on the wire.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<ToolUseId> = Vec::new();
        let mut previous: Option<Role> = None;
        let last_assistant_start = self.messages.iter().rposition(|message| message.role == Role::User);
        if self.messages.front().is_none_or(|first| first.role != Role::User) {
            return Err("the first message is not the user's".into());
        }
        for (index, message) in self.messages.iter().enumerate() {
            let fail = |what: &str| Err(format!("message {index} ({:?}): {what}", message.origin));
            if message.blocks.is_empty() {
                return fail("it has no content");
            }
            if message.blocks.iter().any(|block| matches!(block, Block::Text(text) if text.trim().is_empty())) {
                return fail("it has a blank text block");
            }
            let continues = previous == Some(message.role);
            match message.role {
                Role::User => {
                    if !open.is_empty() {
                        let answered: Vec<_> = message.tool_results().map(|result| Arc::clone(&result.id)).collect();
                        if answered != open {
                            return fail("its results are not exactly those of the calls before, in their order");
                        }
                        let results_first = message.blocks.iter().take(open.len());
                        if !results_first.clone().all(|block| matches!(block, Block::ToolResult(_))) {
                            return fail("its results do not come first");
                        }
                        open.clear();
                    } else if message.tool_results().next().is_some() {
                        return fail("it has a result without a call");
                    }
                    if message.tool_uses().next().is_some() {
                        return fail("a user message has a call");
                    }
                }
                Role::Assistant => {
                    // After a pause the model goes on in a message of its own; the wire makes one of both.
                    if continues && !open.is_empty() {
                        return fail("an assistant message follows calls without results");
                    }
                    if message.blocks.last().is_some_and(is_thinking) {
                        return fail("it ends with thinking");
                    }
                    for call in message.tool_uses() {
                        if !seen.insert(Arc::clone(&call.id)) {
                            return fail("a call's id is used twice");
                        }
                        open.push(Arc::clone(&call.id));
                    }
                }
            }
            previous = Some(message.role);
        }
        if !open.is_empty() && last_assistant_start.is_some() {
            return Err("the last calls have no results".into());
        }
        Ok(())
    }
}
