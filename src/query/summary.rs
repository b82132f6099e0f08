//! Summaries of a turn's tool calls, made by the small model while the next answer streams. The loop never waits for one.

use super::agent::{Agent, News};
use super::calls::Calls;
use super::effect::{AgentKind, ModelCall, ModelSlot, Notice, Source};
use super::event::{CallId, Reply};
use super::shared::Shared;
use super::state::{PendingSummary, State};
use super::transcript::{Block, History, Message, Origin, Role};
use crate::query::budget::{MIN_OUTPUT, estimate};
use crate::units::Tokens;
use std::sync::Arc;

/// The most of one result that the small model reads, in bytes.
const RESULT: usize = 600;
/// The most that it reads in all, in bytes.
const ALL: usize = 6_000;
/// The longest summary that is kept, in bytes.
const SUMMARY: usize = 300;

impl Agent {
    /// What the small model would be asked about these calls; `None` where there is none, or one is being asked already.
    pub(super) fn summary_request(&self, sh: &Shared, calls: &Calls) -> Option<String> {
        if sh.params.models.small.is_none() || self.kind != AgentKind::Job || self.state.pending_tool_summary.is_some()
        {
            return None;
        }
        let mut text = String::from(
            "Say in one short line, in the past tense and without any preamble, what these tool calls did and what came out.\n",
        );
        for (call, result) in calls.ended() {
            let end = result.content.floor_char_boundary(RESULT.min(result.content.len()));
            let failed = if result.is_error { " (failed)" } else { "" };
            text.push_str(&format!("\n{}{failed}:\n{}\n", sh.params.tools.line(call), &result.content[..end]));
            if text.len() > ALL {
                break;
            }
        }
        Some(text)
    }

    /// Asks, if there is room in the budget for it.
    pub(super) fn ask_for_summary(&mut self, sh: &mut Shared, asked: Option<String>, message: u64) {
        let Some(text) = asked else { return };
        let prompt = estimate(text.len()) + Tokens(100);
        let prices = sh.limits(ModelSlot::Small).prices.clone();
        let Ok(reserved) = sh.ledger.reserve(prompt, MIN_OUTPUT, &prices) else { return };
        let question = Message {
            id: sh.next_message(),
            role: Role::User,
            origin: Origin::Prompt,
            blocks: vec![Block::Text(text)],
        };
        let call = ModelCall {
            max_output: reserved.output,
            source: Source::Summary,
            model: ModelSlot::Small,
            ..ModelCall::first(History::default().with(Arc::new(question)))
        };
        let call = self.send(sh, call, reserved, prompt);
        self.state = State { pending_tool_summary: Some(PendingSummary { call, message }), ..self.taken() };
    }

    /// The small model has answered, or not: nothing depends on it.
    pub(super) fn take_summary(&mut self, sh: &mut Shared, news: News) {
        let Some(pending) = self.state.pending_tool_summary else { return };
        self.state = State { pending_tool_summary: None, ..self.taken() };
        match news {
            News::Reply(call, Reply { blocks, usage, .. }) => {
                sh.land(call, Some(usage));
                let text = blocks.iter().find_map(|block| match block {
                    Block::Text(text) if !text.trim().is_empty() => Some(text.trim()),
                    Block::Text(_)
                    | Block::Thinking { .. }
                    | Block::ToolUse(_)
                    | Block::ToolResult(_)
                    | Block::Opaque(_) => None,
                });
                let Some(line) = text.and_then(|text| text.lines().next()) else { return };
                let line: Arc<str> = line[..line.floor_char_boundary(SUMMARY.min(line.len()))].into();
                sh.emit(Notice::ToolSummary { text: line.to_string() });
                let summaries = self.state.summaries.update(pending.message, line);
                self.state = State { summaries, ..self.taken() };
            }
            News::Failed(call, _, usage) => {
                sh.land(call, usage);
            }
            News::Block(..) | News::Tool(..) | News::Hook(..) | News::Tick => {}
        }
    }

    /// Gives up a summary that is under way; says whether there was one.
    pub(super) fn drop_summary(&mut self, sh: &mut Shared) -> bool {
        let Some(PendingSummary { call, .. }) = self.state.pending_tool_summary else { return false };
        sh.stop_call(call);
        self.state = State { pending_tool_summary: None, ..self.taken() };
        true
    }
}

/// Whether a call is a summary, of which nothing is shown.
pub(super) fn is_summary(sh: &Shared, call: CallId) -> bool {
    sh.flights.get(&call).is_some_and(|flight| flight.source == Source::Summary)
}
