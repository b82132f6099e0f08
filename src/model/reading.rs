//! The one path from the bytes of an answer to a reply: HTTP and replay both go through it.

use super::anthropic::{Assembler, Step, errors, events};
use super::progress::Progress;
use super::sse::{Decoder, Frame};
use crate::query::{Failure, Reply};
use crate::units::Usage;
use serde_json::Value;
use std::collections::BTreeMap;

/// The headers of an answer, names in lower case.
pub(super) type Headers = BTreeMap<String, String>;

/// A failed call, and what it used up all the same.
pub type CallError = (Failure, Option<Usage>);

/// A stream that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    decoder: Decoder,
    assembler: Assembler,
    frames: Vec<Frame>,
    request_id: Option<String>,
}

/// What a piece of the stream brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// The end of the message.
    End,
    /// A part of the message.
    Content,
    /// Only pings, comments, or parts of a frame.
    Nothing,
}

impl Reading {
    /// A stream whose answer carried this request id.
    pub(super) const fn new(assembler: Assembler, request_id: Option<String>) -> Self {
        Self { decoder: Decoder::new(Decoder::CAP), assembler, frames: Vec::new(), request_id }
    }

    /// Takes the next bytes; `shown` takes what they have to tell, also when they end in a failure.
    pub(super) fn push(&mut self, bytes: &[u8], shown: &mut Vec<Progress>) -> Result<Brought, CallError> {
        let pushed = self.decoder.push(bytes, &mut self.frames);
        let mut brought = Brought::Nothing;
        // What came before an event that is too large still counts: it may be the error that explains it.
        for frame in std::mem::take(&mut self.frames) {
            match self.assembler.push(&frame, shown) {
                Ok(Step::Content) => brought = Brought::Content,
                Ok(Step::Aside) => {}
                Err(failure) => return Err(self.failed(failure)),
            }
        }
        if self.assembler.is_done() {
            return Ok(Brought::End);
        }
        match pushed {
            Ok(()) => Ok(brought),
            Err(error) => Err(self.failed(errors::too_large(error))),
        }
    }

    /// The end of the bytes: the reply, when the message is whole.
    pub(super) fn finish(mut self, shown: &mut Vec<Progress>) -> Result<Reply, CallError> {
        let pending = std::mem::replace(&mut self.decoder, Decoder::new(Decoder::CAP)).finish();
        if let Some(frame) = pending.filter(|frame| serde_json::from_str::<Value>(&frame.data).is_ok()) {
            self.assembler.push(&frame, shown).map_err(|failure| self.failed(failure))?;
        }
        self.assembler.finish(self.request_id)
    }

    /// A failure of this call, with what is known about it.
    pub(super) fn failed(&self, failure: Failure) -> CallError {
        let request_id = failure.request_id.clone().or_else(|| self.request_id.clone());
        (Failure { request_id, ..failure }, self.assembler.usage())
    }
}

/// An answer that came whole, as JSON: a message of a server that does not stream, or an error.
pub(super) fn whole_answer(
    status: u16,
    headers: &Headers,
    body: &[u8],
    mut assembler: Assembler,
    shown: &mut Vec<Progress>,
) -> Result<Reply, CallError> {
    let request_id = headers.get("request-id").cloned();
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let kind = value.get("type").and_then(Value::as_str);
    if kind == Some("error") || value.get("error").is_some_and(|error| !error.is_null()) {
        let failure = errors::of_event(&value);
        let request_id = failure.request_id.clone().or(request_id);
        return Err((Failure { status: Some(status), request_id, ..failure }, None));
    }
    let whole =
        value.get("stop_reason").is_some_and(Value::is_string) && value.get("content").is_some_and(Value::is_array);
    if !whole {
        return Err((errors::not_a_stream(status, headers, body), None));
    }
    for event in events(&value) {
        let frame = Frame { event: String::new(), data: event.to_string(), id: String::new() };
        assembler.push(&frame, shown).map_err(|failure| (failure, assembler.usage()))?;
    }
    assembler.finish(request_id)
}
