//! What the server answers: a message, a stream of events, raw bytes, an error, silence.
#![expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without a borrow")]

use super::stream::{Cut, How, LineEnd, Place, Wire};
use serde_json::{Value, json as value};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One answer, cloned for each call that it is given to.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(super) kind: Kind,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delay: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) wire: Wire,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Message(Box<Message>),
    Events(Vec<Value>),
    Whole {
        status: u16,
        content_type: &'static str,
        body: Vec<u8>,
    },
    /// Nothing, until the client goes away.
    Hang,
    /// The connection is closed without a word.
    Close,
}

/// A message of the model.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) blocks: Vec<Value>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_details: Option<Value>,
    pub(super) usage: Value,
    /// How many tool results, of how many tokens, the server cleared by itself.
    pub(super) cleared: Option<(u64, u64)>,
    /// The last block is a call that the limit cut: it has no stop, and its arguments are this text.
    pub(super) cut_arguments: Option<String>,
    /// The deltas of neighbouring blocks come in turns.
    pub(super) interleaved: bool,
}

/// A condition that the server waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(CancellationToken);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        self.0.cancel();
    }

    pub(super) async fn passed(&self) {
        self.0.cancelled().await;
    }
}

impl From<Kind> for Answer {
    fn from(kind: Kind) -> Self {
        Self { kind, headers: Vec::new(), delay: Duration::ZERO, gate: None, wire: Wire::default() }
    }
}

/// A message of these blocks, as the API writes them.
pub(crate) fn message(blocks: impl IntoIterator<Item = Value>) -> Answer {
    Kind::Message(Box::new(Message {
        blocks: blocks.into_iter().collect(),
        stop_reason: None,
        stop_details: None,
        usage: value!({"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}),
        cleared: None,
        cut_arguments: None,
        interleaved: false,
    }))
    .into()
}

/// A message that says something and ends the turn.
pub(crate) fn text(text: &str) -> Answer {
    message([]).text(text)
}

/// A message that calls a tool. Its id is made by the server.
pub(crate) fn tool(name: &str, input: Value) -> Answer {
    message([]).tool(name, input)
}

/// A stream of these events.
pub(crate) fn stream(events: impl IntoIterator<Item = Value>) -> Answer {
    Kind::Events(events.into_iter().collect()).into()
}

/// An error with the API's body.
pub(crate) fn status(status: u16, kind: &str, message: &str) -> Answer {
    json(status, &value!({"type": "error", "error": {"type": kind, "message": message}}))
}

/// A JSON body.
pub(crate) fn json(status: u16, body: &Value) -> Answer {
    raw(status, "application/json", body.to_string())
}

/// A page, as gateways and edges send it.
pub(crate) fn html(status: u16, body: &str) -> Answer {
    raw(status, "text/html; charset=utf-8", body)
}

/// Any body; an empty content type leaves the header out.
pub(crate) fn raw(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Answer {
    Kind::Whole { status, content_type, body: body.into() }.into()
}

impl Answer {
    /// Nothing at all until the client goes away.
    pub(crate) fn hang() -> Self {
        Kind::Hang.into()
    }

    /// The connection is closed without an answer.
    pub(crate) fn close() -> Self {
        Kind::Close.into()
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.block(value!({"type": "text", "text": text}))
    }

    pub(crate) fn tool(self, name: &str, input: Value) -> Self {
        self.block(value!({"type": "tool_use", "name": name, "input": input}))
    }

    pub(crate) fn tool_with_id(self, id: &str, name: &str, input: Value) -> Self {
        self.block(value!({"type": "tool_use", "id": id, "name": name, "input": input}))
    }

    pub(crate) fn thinking(self, thinking: &str, signature: &str) -> Self {
        self.block(value!({"type": "thinking", "thinking": thinking, "signature": signature}))
    }

    pub(crate) fn block(self, block: Value) -> Self {
        self.message(|message| message.blocks.push(block))
    }

    /// A call whose arguments the output limit cut in the middle.
    pub(crate) fn cut_call(self, name: &str, arguments: &str) -> Self {
        let this = self.tool(name, value!({})).stop("max_tokens");
        this.message(|message| message.cut_arguments = Some(arguments.to_owned()))
    }

    pub(crate) fn stop(self, reason: &str) -> Self {
        self.message(|message| message.stop_reason = Some(reason.to_owned()))
    }

    pub(crate) fn refusal(self, category: &str, explanation: &str) -> Self {
        let details = value!({"type": "refusal", "category": category, "explanation": explanation});
        self.stop("refusal").message(|message| message.stop_details = Some(details))
    }

    pub(crate) fn usage(self, input: u64, output: u64) -> Self {
        self.count("input_tokens", input).count("output_tokens", output)
    }

    pub(crate) fn cache(self, written: u64, read: u64) -> Self {
        self.count("cache_creation_input_tokens", written).count("cache_read_input_tokens", read)
    }

    fn count(self, name: &str, tokens: u64) -> Self {
        self.message(|message| message.usage[name] = tokens.into())
    }

    /// The server cleared so many tool results of so many tokens by itself.
    pub(crate) fn cleared(self, uses: u64, tokens: u64) -> Self {
        self.message(|message| message.cleared = Some((uses, tokens)))
    }

    pub(crate) fn interleaved(self) -> Self {
        self.message(|message| message.interleaved = true)
    }

    /// Whether it is a message of the model, and no error.
    pub(crate) const fn is_message(&self) -> bool {
        matches!(self.kind, Kind::Message(_))
    }

    /// Whether it says that thinking is refused.
    pub(super) fn refuses_thinking(&self) -> bool {
        match &self.kind {
            Kind::Whole { status: 400, body, .. } => String::from_utf8_lossy(body).contains("`thinking`"),
            Kind::Message(_) | Kind::Events(_) | Kind::Whole { .. } | Kind::Hang | Kind::Close => false,
        }
    }

    fn message(mut self, change: impl FnOnce(&mut Message)) -> Self {
        match &mut self.kind {
            Kind::Message(message) => change(message),
            Kind::Events(_) | Kind::Whole { .. } | Kind::Hang | Kind::Close => panic!("only a message has that"),
        }
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before the first byte: for measurements of latency, not for order.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits for a condition before the first byte.
    pub(crate) fn when(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Waits for a condition before the first event of that type.
    pub(crate) fn pause_before(self, event: &'static str, gate: &Gate) -> Self {
        self.wire(|wire| wire.pauses.push((Place::Before(event), gate.clone())))
    }

    /// Waits for a condition after the block of this number (from 0) is complete.
    pub(crate) fn pause_after_block(self, block: usize, gate: &Gate) -> Self {
        self.wire(|wire| wire.pauses.push((Place::AfterBlock(block), gate.clone())))
    }

    /// Writes the stream in pieces of so many bytes, each a write of its own.
    pub(crate) fn pieces(self, bytes: usize) -> Self {
        self.wire(|wire| wire.piece = Some(bytes))
    }

    pub(crate) fn line_ends(self, ends: LineEnd) -> Self {
        self.wire(|wire| wire.ends = ends)
    }

    /// Pings and comments between the events.
    pub(crate) fn noise(self) -> Self {
        self.wire(|wire| wire.noise = true)
    }

    /// `data:{…}` alone: no space, no event names, no blank line at the end.
    pub(crate) fn bare(self) -> Self {
        self.wire(|wire| wire.bare = true)
    }

    /// Ends the stream, as it should end, before the first event of that type.
    pub(crate) fn end_before(self, event: &'static str) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::End, place: Place::Before(event) }))
    }

    /// Breaks the connection before the first event of that type.
    pub(crate) fn break_before(self, event: &'static str) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::Break, place: Place::Before(event) }))
    }

    /// Falls silent before the first event of that type, until the client goes away.
    pub(crate) fn stall_before(self, event: &'static str) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::Stall, place: Place::Before(event) }))
    }

    /// Sends nothing but pings from there on, until the client goes away.
    pub(crate) fn ping_before(self, event: &'static str) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::Pings, place: Place::Before(event) }))
    }

    /// Ends the stream, as it should end, after the block of this number (from 0) is complete.
    pub(crate) fn end_after_block(self, block: usize) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::End, place: Place::AfterBlock(block) }))
    }

    /// Breaks the connection after the block of this number (from 0) is complete.
    pub(crate) fn break_after_block(self, block: usize) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::Break, place: Place::AfterBlock(block) }))
    }

    /// Falls silent after the block of this number (from 0) is complete, until the client goes away.
    pub(crate) fn stall_after_block(self, block: usize) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::Stall, place: Place::AfterBlock(block) }))
    }

    /// Sends the whole stream and keeps it open until the client goes away.
    pub(crate) fn late_close(self) -> Self {
        self.wire(|wire| wire.cut = Some(Cut { how: How::Stall, place: Place::End }))
    }

    fn wire(mut self, change: impl FnOnce(&mut Wire)) -> Self {
        change(&mut self.wire);
        self
    }
}
