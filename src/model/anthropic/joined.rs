//! The joined bytes of the older messages of conversations: with them a request is made by copying, whatever its length.

use super::turns::Turn;
use crate::query::{History, Message};
use std::sync::{Arc, Mutex, PoisonError};

/// So many of the newest turns are never joined: marks of the cache move over them, and a next message may still join the last.
const LOOSE: usize = 4;
/// How many more may gather before they are joined.
const GATHER: usize = 8;
/// Conversations that are remembered: the job's own and a few beside it.
const CONVERSATIONS: usize = 4;

/// What was joined before, the newest first.
#[derive(Debug, Default)]
pub(super) struct Joined(Mutex<Vec<Prefix>>);

/// The beginning of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefix {
    messages: Vec<Arc<Message>>,
    /// Whole messages of the wire, separated by commas.
    pub(super) bytes: Vec<u8>,
}

impl Joined {
    /// Takes out the longest known beginning of this conversation; an empty one where none is known.
    pub(super) fn take(&self, history: &History) -> Prefix {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|prefix| prefix.begins(history));
        at.map(|at| known.remove(at)).unwrap_or_default()
    }

    /// Puts one back for the next request.
    pub(super) fn put(&self, prefix: Prefix) {
        if prefix.messages.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(0, prefix);
        known.truncate(CONVERSATIONS);
    }
}

impl Prefix {
    /// How many messages it is.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Messages never change once made, so the same pointers are the same bytes.
    fn begins(&self, history: &History) -> bool {
        self.len() <= history.len() && self.messages.iter().zip(history.iter()).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Joins the older ones of the turns that follow it, once enough have gathered.
    pub(super) fn extend(&mut self, history: &History, turns: &[Turn]) {
        if turns.len() < LOOSE + GATHER {
            return;
        }
        let (old, _) = turns.split_at(turns.len() - LOOSE);
        for turn in old {
            if !self.bytes.is_empty() {
                self.bytes.push(b',');
            }
            turn.write(&mut self.bytes, super::turns::Mark::None);
        }
        let count: usize = old.iter().map(Turn::messages).sum();
        let from = self.len();
        self.messages.extend(history.iter().skip(from).take(count).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoded::Encoded;
    use super::super::turns::{Mark, turns};
    use super::*;
    use crate::query::{Block, Origin, Role, ToolInput, ToolResult, ToolUse};
    use serde_json::Map;

    /// The bytes of a conversation, by way of what is known of it and directly.
    fn both(joined: &Joined, history: &History) -> (Vec<u8>, Vec<u8>) {
        let write = |mut body: Vec<u8>, turns: &[Turn]| {
            for turn in turns {
                if !body.is_empty() {
                    body.push(b',');
                }
                turn.write(&mut body, Mark::None);
            }
            body
        };
        let mut prefix = joined.take(history);
        let newer = turns(Encoded::default().of(history.iter().skip(prefix.len()), 0).unwrap());
        let quick = write(prefix.bytes.clone(), &newer);
        prefix.extend(history, &newer);
        joined.put(prefix);
        (quick, write(Vec::new(), &turns(Encoded::default().of(history.iter(), 0).unwrap())))
    }

    fn message(id: u64, role: Role, blocks: Vec<Block>) -> Arc<Message> {
        Arc::new(Message { id, role, origin: Origin::Prompt, blocks })
    }

    /// A conversation that grows: calls and results, at times a text behind results, at times an empty message.
    fn grow(history: &History, turn: u64) -> History {
        let id: Arc<str> = format!("t{turn}").into();
        let call = ToolUse { id: Arc::clone(&id), name: "Read".into(), input: ToolInput::Object(Map::new()) };
        let result = Block::ToolResult(ToolResult::new(id, format!("out {turn}"), false));
        let mut next = history.with(message(turn * 10, Role::Assistant, vec![Block::ToolUse(call)])).with(message(
            turn * 10 + 1,
            Role::User,
            vec![result],
        ));
        if turn.is_multiple_of(3) {
            next = next.with(message(turn * 10 + 2, Role::User, vec![Block::Text("the gate is red".into())]));
        }
        if turn.is_multiple_of(5) {
            next = next.with(message(turn * 10 + 3, Role::User, vec![Block::Text(" ".into())]));
        }
        next
    }

    #[test]
    fn joined_bytes_are_those_that_a_fresh_client_would_send() {
        let joined = Joined::default();
        let first = History::default().with(message(1, Role::User, vec![Block::Text("mend".into())]));
        let mut history = first.clone();
        for turn in 1..80 {
            history = grow(&history, turn);
            let (quick, direct) = both(&joined, &history);
            assert_eq!(quick, direct, "turn {turn}");
            // Another conversation in between, and one whose beginning was replaced.
            let (quick, direct) = both(&joined, &grow(&first, 1_000 + turn));
            assert_eq!(quick, direct);
            if turn == 40 {
                let summary = History::default().with(message(9_999, Role::User, vec![Block::Text("so far".into())]));
                history = history
                    .iter()
                    .skip(60)
                    .skip_while(|m| m.role == Role::User)
                    .fold(summary, |h, m| h.with(Arc::clone(m)));
                let (quick, direct) = both(&joined, &history);
                assert_eq!(quick, direct);
            }
        }
        let prefix = joined.take(&history);
        assert!(prefix.len() + 2 * (LOOSE + GATHER) + 8 > history.len(), "{} of {}", prefix.len(), history.len());
    }
}
