//! The rules that hold from request to request: a conversation only grows, its system prompt and tools stay as they are,
//! and the model's messages come back as the server sent them; without their thinking after the model was switched or its
//! thinking refused.

use super::http::Request;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the server remembers of the conversations that it has seen.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    /// By the fingerprint of all messages.
    seen: BTreeMap<u64, Vec<Seen>>,
    /// The same without any thinking.
    without_thinking: BTreeMap<u64, Vec<Seen>>,
    /// The last message of each request, by the fingerprint of those before it.
    open: BTreeMap<u64, Vec<(u64, Vec<Value>)>>,
    /// Which models made the thinking of a signature.
    thinkers: BTreeMap<String, BTreeSet<String>>,
    /// Thinking was refused once: from then on a request may come without any.
    pub(super) thinking_refused: bool,
    /// Whether messages may be replaced by others, as a compaction does.
    rewrites: bool,
}

/// A request that was answered.
#[derive(Clone, Debug)]
struct Seen {
    model: String,
    /// The fingerprint of system prompt and tools.
    frame: u64,
    /// What it was answered with.
    sent: Sent,
}

/// An answer as it should come back.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sent {
    /// These blocks.
    Blocks(Vec<Value>),
    /// These blocks, and the model wants to go on from there.
    Paused(Vec<Value>),
    /// Nothing that counts: an error, a broken stream.
    Nothing,
    /// Something that this server cannot judge.
    Anything,
}

/// The messages of a request up to the last of the user, and the answer that is to go on, where one was paused.
struct Asked {
    messages: Vec<Value>,
    begun: Option<Vec<Value>>,
}

impl Asked {
    fn of(request: &Request) -> Self {
        let mut messages: Vec<Value> = request.messages().iter().map(plain).collect();
        let begun = messages.pop_if(|message| message["role"] == "assistant").map(|message| content(&message));
        Self { messages, begun }
    }
}

impl Conversations {
    pub(super) fn new(rewrites: bool) -> Self {
        Self { rewrites, ..Self::default() }
    }

    /// Checks a request against those before it.
    pub(super) fn check(&self, request: &Request) -> Result<(), String> {
        let Asked { messages, begun } = Asked::of(request);
        let model = model(request);
        let foreign = |block: &&Value| self.thinkers.get(signature(block)).is_some_and(|known| !known.contains(&model));
        let answers = messages.iter().map(content).chain(begun.clone());
        if let Some(block) = answers.flatten().find(|block| is_thinking(block) && foreign(&block)) {
            return Err(format!("messages: another model made this thinking: {block}"));
        }
        let (chain, frame) = (chain(&messages), frame(request));
        if let Some(begun) = begun {
            let paused = Sent::Paused(begun);
            let goes_on = |seen: &Seen| seen.model == model && seen.frame == frame && seen.sent == paused;
            if self.seen.get(&chain[messages.len()]).is_some_and(|known| known.iter().any(goes_on)) {
                return Ok(());
            }
            return Err(
                "This model does not support assistant message prefill. The conversation must end with a user message."
                    .into(),
            );
        }
        let [.., asked, answer, _newest] = messages.as_slice() else { return Ok(()) };
        let count = messages.len();
        let mut known = self.find(&chain, count - 2, asked).cloned().unwrap_or_default();
        if !request.messages().iter().any(|message| content(message).iter().any(is_thinking)) {
            let stripped = self.without_thinking.get(&chain[count - 2]).cloned().unwrap_or_default();
            known.extend(stripped.into_iter().filter(|seen| self.thinking_refused || seen.model != model));
        }
        if known.is_empty() {
            // A conversation that did not begin here is none of our business.
            return if self.seen.contains_key(&chain[1]) && !self.rewrites {
                Err("messages: an earlier message was changed: this request continues none that came before".into())
            } else {
                Ok(())
            };
        }
        known.retain(|seen| seen.frame == frame);
        if known.is_empty() {
            return Err("system or tools were changed in the middle of a conversation".into());
        }
        let echoed = content(answer);
        let fits = |seen: &Seen| match &seen.sent {
            Sent::Blocks(blocks) | Sent::Paused(blocks) => *blocks == echoed,
            Sent::Nothing => false,
            Sent::Anything => true,
        };
        if self.rewrites || known.iter().any(fits) {
            return Ok(());
        }
        let place = count - 2;
        let about = if echoed.iter().any(is_thinking) {
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
        } else {
            "the assistant message is not what the server sent"
        };
        let sent: Vec<&Sent> = known.iter().map(|seen| &seen.sent).collect();
        Err(format!("messages.{place}: {about}. Sent: {sent:?}. Came back: {}", Value::Array(echoed)))
    }

    /// The requests that these first `count` messages made. Their last message may have grown since: an answer without
    /// content leaves two user messages that are one on the wire.
    fn find(&self, chain: &[u64], count: usize, asked: &Value) -> Option<&Vec<Seen>> {
        let grown = || {
            let content = asked["content"].as_array()?;
            let (whole, _) = self.open.get(&chain[count - 1])?.iter().find(|(_, known)| content.starts_with(known))?;
            self.seen.get(whole)
        };
        self.seen.get(&chain[count]).or_else(grown)
    }

    /// Remembers what a request was answered with. What a paused answer goes on with is one message with it.
    pub(super) fn note(&mut self, request: &Request, sent: Sent) {
        let Asked { messages, begun } = Asked::of(request);
        let model = model(request);
        let sent = sent.after(begun.unwrap_or_default());
        for block in sent.blocks().iter().filter(|block| is_thinking(block)) {
            self.thinkers.entry(signature(block).to_owned()).or_default().insert(model.clone());
        }
        let whole = chain(&messages);
        let [.., before, whole] = *whole.as_slice() else { return };
        let last = messages.last().map(content).unwrap_or_default();
        self.open.entry(before).or_default().push((whole, last));
        let seen = Seen { model, frame: frame(request), sent };
        let stripped: Vec<Value> = messages.into_iter().map(strip_message).collect();
        let bare = Seen { sent: seen.sent.clone().stripped(), ..seen.clone() };
        self.seen.entry(whole).or_default().push(seen);
        if let Some(whole) = chain(&stripped).last() {
            self.without_thinking.entry(*whole).or_default().push(bare);
        }
    }
}

impl Sent {
    fn blocks(&self) -> &[Value] {
        match self {
            Self::Blocks(blocks) | Self::Paused(blocks) => blocks,
            Self::Nothing | Self::Anything => &[],
        }
    }

    fn changed(self, change: impl FnOnce(Vec<Value>) -> Vec<Value>) -> Self {
        match self {
            Self::Blocks(blocks) => Self::Blocks(change(blocks)),
            Self::Paused(blocks) => Self::Paused(change(blocks)),
            Self::Nothing | Self::Anything => self,
        }
    }

    fn after(self, begun: Vec<Value>) -> Self {
        self.changed(|blocks| [begun, blocks].concat())
    }

    fn stripped(self) -> Self {
        self.changed(|mut blocks| {
            blocks.retain(|block| !is_thinking(block));
            blocks
        })
    }
}

fn content(message: &Value) -> Vec<Value> {
    message["content"].as_array().cloned().unwrap_or_default()
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// What tells a thinking block from others.
fn signature(block: &Value) -> &str {
    block["signature"].as_str().or_else(|| block["data"].as_str()).unwrap_or_default()
}

fn strip_message(mut message: Value) -> Value {
    if let Some(blocks) = message["content"].as_array_mut() {
        blocks.retain(|block| !is_thinking(block));
    }
    message
}

fn model(request: &Request) -> String {
    request.body["model"].as_str().unwrap_or_default().to_owned()
}

/// The blocks that a client sends back: no blank text, no thinking at the end.
pub(super) fn echo(blocks: &[Value]) -> Vec<Value> {
    let blank = |block: &&Value| block["text"].as_str().is_some_and(|text| text.trim().is_empty());
    let mut blocks: Vec<Value> = blocks.iter().filter(|block| !blank(block)).cloned().collect();
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    blocks
}

/// A message without its marks.
fn plain(message: &Value) -> Value {
    let mut message = message.clone();
    for block in message["content"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        block.shift_remove("cache_control");
    }
    message
}

/// The fingerprints of the first 0, 1, 2, … messages.
fn chain(messages: &[Value]) -> Vec<u64> {
    let mut chain = vec![0];
    for message in messages {
        chain.push(fingerprint(&(chain.last(), message.to_string())));
    }
    chain
}

fn frame(request: &Request) -> u64 {
    fingerprint(&(request.body["system"].to_string(), request.body["tools"].to_string()))
}

fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
