//! The turns of a conversation: an assistant message with calls and what followed it, up to the next one.

use crate::query::transcript::{History, Message, Role};
use std::ops::Range;
use std::sync::Arc;

/// Where the last `count` turns begin: the index of an assistant message that follows a message of the user, or the end.
///
/// Looks at no more messages than those turns have.
pub(super) fn start_of_last(messages: &History, count: usize) -> usize {
    let mut found = 0;
    let mut at = messages.len();
    while at > 1 && found < count {
        at -= 1;
        if begins_turn(messages, at) {
            found += 1;
        }
    }
    if found < count { 1.min(messages.len()) } else { at }
}

/// The turns that lie wholly in a range of messages; it begins where a turn begins.
pub(super) fn within(messages: &History, range: Range<usize>) -> Vec<Range<usize>> {
    let mut turns = Vec::new();
    let mut from = range.start;
    for at in range.start + 1..=range.end {
        if at == range.end || begins_turn(messages, at) {
            if from < at {
                turns.push(from..at);
            }
            from = at;
        }
    }
    turns
}

fn begins_turn(messages: &History, at: usize) -> bool {
    let role = |at: usize| messages.get(at).map(|message| message.role);
    role(at) == Some(Role::Assistant) && role(at - 1) == Some(Role::User)
}

/// The messages of a range.
pub(super) fn messages_of(messages: &History, range: Range<usize>) -> impl Iterator<Item = &Arc<Message>> {
    range.filter_map(|at| messages.get(at))
}
