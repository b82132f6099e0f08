//! Messages of the wire: neighbours of one role are one.

use super::encode::{MARK, Segment, WireMessage};
use crate::query::Role;
use std::sync::Arc;

/// Neighbouring messages of one role: one message of the wire.
#[derive(Debug)]
pub(super) struct Turn {
    parts: Vec<Arc<WireMessage>>,
    /// How many messages it is made of, those without content included.
    messages: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Last,
    None,
}

/// Makes turns of messages.
pub(super) fn turns(messages: Vec<Arc<WireMessage>>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut empty = 0;
    for message in messages {
        if message.results.bytes.is_empty() && message.others.bytes.is_empty() {
            match turns.last_mut() {
                Some(turn) => turn.messages += 1,
                None => empty += 1,
            }
            continue;
        }
        match turns.last_mut() {
            Some(turn) if turn.parts.last().is_some_and(|part| part.role == message.role) => {
                turn.parts.push(message);
                turn.messages += 1;
            }
            _ => turns.push(Turn { parts: vec![message], messages: 1 + std::mem::take(&mut empty) }),
        }
    }
    turns
}

impl Turn {
    /// How many messages it is made of.
    pub(super) const fn messages(&self) -> usize {
        self.messages
    }

    pub(super) fn is_user(&self) -> bool {
        self.parts.first().is_some_and(|part| part.role == Role::User)
    }

    /// About how many bytes it is.
    pub(super) fn len(&self) -> usize {
        const FRAME: usize = 40 + MARK.len();
        FRAME + self.segments().map(|segment| segment.bytes.len() + 1).sum::<usize>()
    }

    /// All results, then all the rest.
    fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        let results = self.parts.iter().map(|part| &part.results);
        results.chain(self.parts.iter().map(|part| &part.others)).filter(|segment| !segment.bytes.is_empty())
    }

    pub(super) fn write(&self, body: &mut Vec<u8>, mark: Mark) {
        let role: &[u8] = if self.is_user() { b"user" } else { b"assistant" };
        body.extend_from_slice(b"{\"role\":\"");
        body.extend_from_slice(role);
        body.extend_from_slice(b"\",\"content\":[");
        let marked = match mark {
            Mark::Last => self.segments().rev().find(|segment| segment.mark.is_some()),
            Mark::None => None,
        };
        for (index, segment) in self.segments().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            match marked.filter(|marked| std::ptr::eq(*marked, segment)).and_then(|segment| segment.mark) {
                Some(at) => {
                    let (before, after) = segment.bytes.split_at(at);
                    body.extend_from_slice(before);
                    body.extend_from_slice(MARK);
                    body.extend_from_slice(after);
                }
                None => body.extend_from_slice(&segment.bytes),
            }
        }
        body.extend_from_slice(b"]}");
    }
}
