//! Messages as events, events as bytes: on purpose not the code that the product uses for its cassettes.

use super::answer::{Gate, Message};
use serde_json::{Value, json};

/// How a stream is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    pub(super) piece: Option<usize>,
    pub(super) ends: LineEnd,
    pub(super) noise: bool,
    pub(super) bare: bool,
    pub(super) cut: Option<Cut>,
    pub(super) pauses: Vec<(Place<'static>, Gate)>,
}

/// How a line ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineEnd {
    #[default]
    Lf,
    CrLf,
    Cr,
}

/// A place in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// Before the first event of a type.
    Before(&'a str),
    /// After a block of this number is complete.
    AfterBlock(usize),
    /// After everything.
    End,
}

/// How a stream does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) how: How,
    pub(super) place: Place<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It ends as it should end.
    End,
    /// The connection breaks.
    Break,
    /// Silence, until the client goes away.
    Stall,
    /// Nothing but pings, until the client goes away.
    Pings,
}

/// What the connection does next.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Write(Vec<u8>),
    Wait(Gate),
    /// The last act, when it is not the proper end.
    Cut(How),
}

impl Wire {
    /// The acts that send these events.
    pub(super) fn acts(&self, events: &[Value]) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut pending = Vec::new();
        let mut pauses = self.pauses.clone();
        for (index, event) in events.iter().enumerate() {
            let before = Place::Before(kind_of(event));
            self.pause(before, &mut pauses, &mut pending, &mut acts);
            if self.cut_at(before, &mut pending, &mut acts) {
                return acts;
            }
            pending.extend_from_slice(self.frame(event, index + 1 == events.len()).as_bytes());
            if self.noise {
                pending.extend_from_slice(
                    self.with_ends(": a comment\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n").as_bytes(),
                );
            }
            if let ("content_block_stop", Some(block)) = (kind_of(event), event["index"].as_u64()) {
                let after = Place::AfterBlock(usize::try_from(block).unwrap());
                self.pause(after, &mut pauses, &mut pending, &mut acts);
                if self.cut_at(after, &mut pending, &mut acts) {
                    return acts;
                }
            }
        }
        self.flush(&mut pending, &mut acts);
        self.cut_at(Place::End, &mut pending, &mut acts);
        acts
    }

    /// Each pause is made once.
    fn pause(
        &self,
        place: Place<'_>,
        pauses: &mut Vec<(Place<'static>, Gate)>,
        pending: &mut Vec<u8>,
        acts: &mut Vec<Act>,
    ) {
        while let Some(at) = pauses.iter().position(|(known, _)| *known == place) {
            self.flush(pending, acts);
            acts.push(Act::Wait(pauses.remove(at).1));
        }
    }

    /// Whether the stream is cut there.
    fn cut_at(&self, place: Place<'_>, pending: &mut Vec<u8>, acts: &mut Vec<Act>) -> bool {
        let Some(cut) = self.cut.filter(|cut| cut.place == place) else { return false };
        self.flush(pending, acts);
        acts.push(Act::Cut(cut.how));
        true
    }

    fn flush(&self, pending: &mut Vec<u8>, acts: &mut Vec<Act>) {
        let bytes = std::mem::take(pending);
        let size = self.piece.unwrap_or(bytes.len()).max(1);
        acts.extend(bytes.chunks(size).map(|piece| Act::Write(piece.to_vec())));
    }

    fn frame(&self, event: &Value, last: bool) -> String {
        let kind = kind_of(event);
        let frame = match (self.bare, last) {
            (false, _) => format!("event: {kind}\ndata: {event}\n\n"),
            (true, false) => format!("data:{event}\n\n"),
            (true, true) => format!("data:{event}"),
        };
        self.with_ends(&frame)
    }

    fn with_ends(&self, text: &str) -> String {
        match self.ends {
            LineEnd::Lf => text.to_owned(),
            LineEnd::CrLf => text.replace('\n', "\r\n"),
            LineEnd::Cr => text.replace('\n', "\r"),
        }
    }
}

fn kind_of(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

/// A ping, as it is sent in a stall.
pub(super) const PING: &[u8] = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";

impl Message {
    /// Gives each call without an id one that is unique on this server.
    pub(super) fn with_ids(mut self, number: usize) -> Self {
        for (index, block) in self.blocks.iter_mut().enumerate() {
            if block["type"] == "tool_use" && block["id"].is_null() {
                block["id"] = format!("toolu_{number:04}_{index}").into();
            }
        }
        self
    }

    pub(super) fn events(&self, model: &str, number: usize) -> Vec<Value> {
        let mut begin = self.usage.clone();
        begin["output_tokens"] = 1.into();
        let head = json!({
            "id": format!("msg_{number:04}"), "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": begin,
        });
        let mut events = vec![json!({"type": "message_start", "message": head}), json!({"type": "ping"})];
        events.extend(self.block_events());
        let calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        let reason = self.stop_reason.clone().unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned());
        let mut delta = json!({"stop_reason": reason, "stop_sequence": null});
        if let Some(details) = &self.stop_details {
            delta["stop_details"] = details.clone();
        }
        let mut end = json!({"type": "message_delta", "delta": delta, "usage": self.usage});
        if let Some((uses, tokens)) = self.cleared {
            let edit =
                json!({"type": "clear_tool_uses_20250919", "cleared_tool_uses": uses, "cleared_input_tokens": tokens});
            end["context_management"] = json!({"applied_edits": [edit]});
        }
        events.push(end);
        events.push(json!({"type": "message_stop"}));
        events
    }

    fn block_events(&self) -> Vec<Value> {
        let last = self.blocks.len().saturating_sub(1);
        let mut each: Vec<Vec<Value>> = self
            .blocks
            .iter()
            .enumerate()
            .map(|(index, block)| block_events(index, block, self.cut_arguments.as_deref().filter(|_| index == last)))
            .collect();
        if !self.interleaved {
            return each.concat();
        }
        let mut events = Vec::new();
        while each.iter().any(|rest| !rest.is_empty()) {
            events.extend(each.iter_mut().filter(|rest| !rest.is_empty()).map(|rest| rest.remove(0)));
        }
        events
    }
}

fn block_events(index: usize, block: &Value, cut_arguments: Option<&str>) -> Vec<Value> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let mut start = block.clone();
    let deltas: Vec<Value> = match block["type"].as_str() {
        Some("text") => {
            start["text"] = "".into();
            split(&text("text"), 3).map(|piece| json!({"type": "text_delta", "text": piece})).collect()
        }
        Some("thinking") => {
            start["thinking"] = "".into();
            start["signature"] = "".into();
            let (thinking, signature) = (text("thinking"), text("signature"));
            let thoughts = split(&thinking, 2).map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
            thoughts
                .chain(split(&signature, 3).map(|piece| json!({"type": "signature_delta", "signature": piece})))
                .collect()
        }
        Some("tool_use") => {
            start["input"] = json!({});
            let arguments = cut_arguments.map_or_else(|| block["input"].to_string(), ToOwned::to_owned);
            std::iter::once("")
                .chain(split(&arguments, 4))
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect()
        }
        _ => Vec::new(),
    };
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": start})];
    events
        .extend(deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
    if cut_arguments.is_none() {
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events
}

/// The text in at most `count` pieces.
fn split(text: &str, count: usize) -> impl Iterator<Item = &str> {
    let size = text.chars().count().div_ceil(count).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
