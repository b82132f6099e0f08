//! What the world remembers of each agent, for rules that span requests.

use super::*;
use crate::query::transcript::is_thinking;
use std::collections::BTreeMap;

/// What is known of one agent's conversation so far.
#[derive(Clone, Default)]
pub(super) struct Memory {
    /// Which model thought, by the assistant message's blocks that call something: ids of calls are unique.
    thought_by: BTreeMap<ToolUseId, ModelSlot>,
    /// The last request of its own.
    previous: History,
    /// Images and thinking that were refused: they may not come again.
    refused_media: Vec<String>,
    refused_thinking: Vec<ToolUseId>,
    thinking_refusals: u32,
    /// What has to be in every request: the task, and each follow-up that was taken.
    pub(super) task: Vec<String>,
    /// Equal calls with equal results in a row.
    last_call: Option<(String, String)>,
    repeated: u32,
    open_calls: Vec<ToolUse>,
    /// Answers of a kind in a row.
    pub(super) empty: u32,
    pub(super) pauses: u32,
    pub(super) malformed: u32,
    /// How often one request has failed.
    pub(super) failed: u32,
    /// Requests of the compaction under way.
    pub(super) compacting: u32,
}

fn thinking_ids(message: &Message) -> impl Iterator<Item = &ToolUseId> {
    let thinks = message.blocks.iter().any(is_thinking);
    message.tool_uses().filter(move |_| thinks).map(|call| &call.id)
}

impl Memory {
    /// An answer joined the conversation.
    pub(super) fn answered(&mut self, message: &Message, model: ModelSlot) {
        self.thought_by.extend(thinking_ids(message).map(|id| (id.clone(), model)));
    }

    /// A request that holds what it may not, or lacks what it must hold.
    pub(super) fn request(&mut self, call: &ModelCall, params: &Params) -> Result<(), String> {
        let limits = params.models.get(call.model);
        let most = limits.escalated_output.unwrap_or(limits.max_output).max(limits.max_output);
        if call.source != Source::Compact && call.max_output > most {
            return Err("its output cap is more than the model gives".into());
        }
        if call.source == Source::Compact {
            self.compacting += 1;
            return if self.compacting > 4 * (2 * params.patience.retries + 3) {
                Err("a compaction is asked for again and again".into())
            } else {
                Ok(())
            };
        }
        self.compacting = 0;
        if self.thinking_refusals > 1 {
            return Err("it goes on after thinking was refused twice".into());
        }
        for message in call.history.iter() {
            for id in thinking_ids(message) {
                if self.thought_by.get(id).is_some_and(|model| *model != call.model) {
                    return Err(format!("thinking of another model, with call {id}"));
                }
                if self.refused_thinking.contains(id) {
                    return Err(format!("thinking that was refused, with call {id}"));
                }
            }
            for result in message.tool_results() {
                if !result.media.is_empty() && self.refused_media.iter().any(|id| **id == *result.id) {
                    return Err(format!("an image that was refused, of call {}", result.id));
                }
            }
        }
        if limits.binds_thinking {
            let same = self.previous.iter().zip(call.history.iter()).take_while(|(a, b)| a.blocks == b.blocks).count();
            let mut later = call.history.iter().skip(same).take(self.previous.len().saturating_sub(same));
            if same < self.previous.len() && later.any(|message| thinking_ids(message).next().is_some()) {
                return Err("bound thinking after a message that has changed".into());
            }
        }
        let said = |task: &String| {
            let says = |block: &Block| matches!(block, Block::Text(text) if text.contains(task.as_str()));
            call.history.iter().any(|message| message.role == Role::User && message.blocks.iter().any(says))
        };
        if let Some(missing) = self.task.iter().find(|task| !said(task)) {
            return Err(format!("the task is lost: {missing}"));
        }
        self.previous = call.history.clone();
        Ok(())
    }

    /// A request was refused for its images or its thinking.
    pub(super) fn refused(&mut self, remedy: &str) {
        let shown: Vec<_> = self.previous.iter().cloned().collect();
        if remedy == "media" {
            let results = shown.iter().flat_map(|message| message.tool_results());
            self.refused_media
                .extend(results.filter(|result| !result.media.is_empty()).map(|result| result.id.to_string()));
        }
        if remedy == "thinking" {
            self.thinking_refusals += 1;
            self.refused_thinking.extend(shown.iter().flat_map(|message| thinking_ids(message)).cloned());
        }
    }

    /// A message was recorded: calls with results that repeat are counted.
    pub(super) fn recorded(&mut self, message: &Message, limit: u32) -> Result<(), String> {
        if message.role == Role::Assistant {
            self.open_calls = message.tool_uses().cloned().collect();
            return Ok(());
        }
        for result in message.tool_results() {
            let Some(call) = self.open_calls.iter().find(|call| call.id == result.id) else { continue };
            let this = (format!("{} {:?}", call.name, call.input), format!("{} {}", result.content, result.is_error));
            self.repeated = if self.last_call.as_ref() == Some(&this) { self.repeated + 1 } else { 1 };
            self.last_call = Some(this);
        }
        // What is cut to a file differs by the file's name; an abort gives stand-ins, which say nothing of a loop.
        if self.repeated > limit + 8 { Err("equal calls again and again".into()) } else { Ok(()) }
    }
}
