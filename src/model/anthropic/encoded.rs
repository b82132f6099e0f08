//! The wire form of messages that were sent before, so that nothing is encoded twice.

use super::encode::WireMessage;
use crate::query::Message;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The messages of a client's conversation as bytes.
#[derive(Debug, Default)]
pub(super) struct Encoded(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the message's id.
    entries: BTreeMap<u64, Entry>,
    /// Bytes of all entries.
    size: usize,
    /// Counts the requests.
    round: u64,
    /// When it was last cleared of what is no longer sent.
    cleared: u64,
}

/// A message and its wire form.
#[derive(Debug)]
struct Entry {
    message: Arc<Message>,
    wire: Arc<WireMessage>,
    /// The last request that it was part of.
    round: u64,
}

/// For how many requests a message is kept that is part of none: other conversations may come in between, such as the call
/// that shortens this one.
const KEPT: u64 = 8;
/// How much may always be kept, in bytes.
const SLACK: usize = 256 << 10;

impl Encoded {
    /// The wire form of the newer messages of a conversation; `older` is how many bytes come before them.
    pub(super) fn of<'a>(
        &self,
        newer: impl Iterator<Item = &'a Arc<Message>>,
        older: usize,
    ) -> Result<Vec<Arc<WireMessage>>, serde_json::Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.round += 1;
        let wires: Vec<_> = newer.map(|message| state.get(message)).collect::<Result<_, _>>()?;
        let sent: usize = older + wires.iter().map(|wire| wire.len()).sum::<usize>();
        // Messages that were replaced by others, as by a compaction, are no longer of use. Rarely, and only when they are as
        // much as what is sent anyway: the work per request stays that of its own messages.
        if state.size > 2 * sent + SLACK && state.round - state.cleared >= KEPT {
            state.clear();
        }
        Ok(wires)
    }
}

impl State {
    fn get(&mut self, message: &Arc<Message>) -> Result<Arc<WireMessage>, serde_json::Error> {
        let round = self.round;
        // Ids are unique in one query only: the pointer tells whether it is the same message.
        if let Some(known) = self.entries.get_mut(&message.id).filter(|known| Arc::ptr_eq(&known.message, message)) {
            known.round = round;
            return Ok(Arc::clone(&known.wire));
        }
        let wire = Arc::new(WireMessage::new(message)?);
        let entry = Entry { message: Arc::clone(message), wire: Arc::clone(&wire), round };
        self.size += wire.len();
        if let Some(replaced) = self.entries.insert(message.id, entry) {
            self.size -= replaced.wire.len();
        }
        Ok(wire)
    }

    fn clear(&mut self) {
        let round = self.round;
        self.entries.retain(|_, entry| entry.round + KEPT > round);
        self.size = self.entries.values().map(|entry| entry.wire.len()).sum();
        self.cleared = round;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Block, Origin, Role};

    fn message(id: u64, size: usize) -> Arc<Message> {
        Arc::new(Message { id, role: Role::User, origin: Origin::Prompt, blocks: vec![Block::Text("x".repeat(size))] })
    }

    fn entries(encoded: &Encoded) -> usize {
        encoded.0.lock().unwrap().entries.len()
    }

    #[test]
    fn no_message_is_encoded_twice() {
        let encoded = Encoded::default();
        let main: Vec<_> = (0..50).map(|id| message(id, 100_000)).collect();
        let first = encoded.of(main.iter(), 0).unwrap();
        for other in 0..40 {
            encoded.of([message(1000 + other, 10)].iter(), 0).unwrap();
            let again = encoded.of(main.iter(), 0).unwrap();
            assert!(first.iter().zip(&again).all(|(a, b)| Arc::ptr_eq(a, b)), "after {other} others");
        }
    }

    #[test]
    fn what_was_replaced_does_not_stay_for_ever() {
        let encoded = Encoded::default();
        for compaction in 0..100_u64 {
            let kept: Vec<_> = (0..10).map(|id| message(compaction * 10 + id, 50_000)).collect();
            for sent in 1..=kept.len() {
                encoded.of(kept[..sent].iter(), 0).unwrap();
            }
        }
        assert!(entries(&encoded) <= 50, "{} entries", entries(&encoded));
        let state = encoded.0.lock().unwrap();
        assert_eq!(state.size, state.entries.values().map(|entry| entry.wire.len()).sum::<usize>());
    }

    #[test]
    fn the_same_id_in_another_query_is_another_message() {
        let encoded = Encoded::default();
        let old = encoded.of([message(1, 3)].iter(), 0).unwrap();
        let new = encoded.of([message(1, 4)].iter(), 0).unwrap();
        assert_eq!((old[0].len() + 1, entries(&encoded)), (new[0].len(), 1));
    }
}
