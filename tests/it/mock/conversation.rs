//! The rules that hold from request to request: a conversation only grows, its system prompt and tools stay as they are,
//! and the model's messages come back as the server sent them.

use super::http::Request;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the server remembers of the conversations that it has seen.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    /// By the fingerprint of all messages.
    seen: BTreeMap<u64, Vec<Seen>>,
    /// The last message of each request, by the fingerprint of those before it.
    open: BTreeMap<u64, Vec<(u64, Vec<Value>)>>,
}

/// A request that was answered.
#[derive(Debug)]
struct Seen {
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
    /// Nothing that counts: an error, a broken stream.
    Nothing,
    /// Something that this server cannot judge.
    Anything,
}

impl Conversations {
    /// Checks a request against those before it.
    pub(super) fn check(&self, request: &Request) -> Result<(), String> {
        let messages: Vec<Value> = request.messages().iter().map(plain).collect();
        let [.., asked, answer, _newest] = messages.as_slice() else { return Ok(()) };
        let chain = chain(&messages);
        let count = messages.len();
        let Some(known) = self.find(&chain, count - 2, asked) else {
            // A conversation that did not begin here is none of our business.
            return if self.seen.contains_key(&chain[1]) {
                Err("messages: an earlier message was changed: this request continues none that came before".into())
            } else {
                Ok(())
            };
        };
        let frame = frame(request);
        let same: Vec<&Seen> = known.iter().filter(|seen| seen.frame == frame).collect();
        if same.is_empty() {
            return Err("system or tools were changed in the middle of a conversation".into());
        }
        let echoed = answer["content"].as_array().cloned().unwrap_or_default();
        let fits = |seen: &&Seen| match &seen.sent {
            Sent::Blocks(blocks) => *blocks == echoed,
            Sent::Nothing => false,
            Sent::Anything => true,
        };
        if same.iter().any(fits) {
            return Ok(());
        }
        let place = count - 2;
        let about = if echoed.iter().any(|block| block["type"] == "thinking") {
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
        } else {
            "the assistant message is not what the server sent"
        };
        let sent: Vec<&Sent> = same.iter().map(|seen| &seen.sent).collect();
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

    /// Remembers what a request was answered with.
    pub(super) fn note(&mut self, request: &Request, sent: Sent) {
        let messages: Vec<Value> = request.messages().iter().map(plain).collect();
        let chain = chain(&messages);
        let [.., before, whole] = *chain.as_slice() else { return };
        let last = messages.last().and_then(|message| message["content"].as_array()).cloned().unwrap_or_default();
        self.open.entry(before).or_default().push((whole, last));
        self.seen.entry(whole).or_default().push(Seen { frame: frame(request), sent });
    }
}

/// The blocks that a client sends back: no blank text, no thinking at the end.
pub(super) fn echo(blocks: &[Value]) -> Vec<Value> {
    let blank = |block: &&Value| block["text"].as_str().is_some_and(|text| text.trim().is_empty());
    let mut blocks: Vec<Value> = blocks.iter().filter(|block| !blank(block)).cloned().collect();
    while blocks.last().is_some_and(|block| matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))) {
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
    fingerprint(&(
        request.body["system"].to_string(),
        request.body["tools"].to_string(),
        request.body["model"].to_string(),
    ))
}

fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
