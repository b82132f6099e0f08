//! The ids of a conversation's tool calls, known without reading the whole conversation at each call.

use crate::query::{History, Message, ToolUseId};
use imbl::OrdSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The ids that a client has met in its conversation.
#[derive(Debug, Default)]
pub(super) struct KnownIds(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Up to which message the conversation was read.
    newest: Option<Arc<Message>>,
    ids: OrdSet<ToolUseId>,
}

impl KnownIds {
    /// All ids of a conversation. Only what follows the last message that was read before is read; of a conversation that
    /// was shortened since, the ids that it had are still among them, which costs nothing but a new name should one return.
    pub(super) fn of(&self, history: &History) -> OrdSet<ToolUseId> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = known.newest.take();
        let mut fresh = Vec::new();
        let mut follows = false;
        for message in history.iter().rev() {
            follows = newest.as_ref().is_some_and(|newest| Arc::ptr_eq(newest, message));
            if follows {
                break;
            }
            fresh.extend(message.tool_uses().map(|call| Arc::clone(&call.id)));
        }
        if !follows {
            known.ids.clear();
        }
        known.ids.extend(fresh);
        known.newest = history.last().cloned();
        known.ids.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Block, Origin, Role, ToolInput, ToolUse};

    fn calling(id: &str) -> Arc<Message> {
        let input = ToolInput::Object(serde_json::Map::new());
        let call = ToolUse { id: id.into(), name: "Bash".into(), input };
        Arc::new(Message { id: 1, role: Role::Assistant, origin: Origin::Model, blocks: vec![Block::ToolUse(call)] })
    }

    fn history(messages: &[&Arc<Message>]) -> History {
        messages.iter().fold(History::default(), |history, message| history.with(Arc::clone(message)))
    }

    fn ids(known: &KnownIds, messages: &[&Arc<Message>]) -> Vec<String> {
        known.of(&history(messages)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_conversation_that_goes_on_is_read_on_from_where_it_was() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(calling);
        let known = KnownIds::default();
        assert_eq!(ids(&known, &[]), [""; 0]);
        assert_eq!(ids(&known, &[&a, &b]), ["a", "b"]);
        assert_eq!(ids(&known, &[&a, &b]), ["a", "b"]);
        assert_eq!(ids(&known, &[&a, &b, &c]), ["a", "b", "c"]);
        assert_eq!(ids(&known, &[&c, &d]), ["a", "b", "c", "d"], "what was before is not read again");
    }

    #[test]
    fn another_conversation_is_read_whole() {
        let [a, b, c] = ["a", "b", "c"].map(calling);
        let known = KnownIds::default();
        assert_eq!(ids(&known, &[&a, &b]), ["a", "b"]);
        assert_eq!(ids(&known, &[&c]), ["c"]);
        assert_eq!(ids(&known, &[&a, &b]), ["a", "b"]);
        assert_eq!(ids(&known, &[&a]), ["a"], "an earlier state of it");
    }
}
