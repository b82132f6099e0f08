//! What a query may ask the driver for: the only way in which the core reaches the world.

use super::event::CallId;
use super::transcript::{History, Message, ToolUse};
use crate::outcome::{ModelErrorKind, Terminal, Transition};
use crate::units::{Elapsed, Tokens, Turns, Usage, Usd};
use std::sync::Arc;
use std::time::Duration;

/// One thing that the driver does now. Effects are performed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Call the model; answer with `Reply` or `ModelFailed`.
    CallModel(ModelCall),
    /// Run a tool; answer with `ToolDone`. Several may be open at once.
    RunTool(ToolUse),
    /// Run a stop hook; answer with `HookDone`.
    RunHook {
        /// Which, by its place in the job.
        index: usize,
    },
    /// Stop everything that is open and do not answer for it.
    StopAll,
    /// Append a message to the transcript.
    Record(Arc<Message>),
    /// Tell whoever watches.
    Emit(Notice),
    /// The end. Nothing follows.
    Finish(Terminal),
}

/// A model call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Its number.
    pub id: CallId,
    /// The whole conversation.
    pub history: History,
    /// The output cap of this call.
    pub max_output: Tokens,
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A model call was sent.
    ModelCalled {
        /// Its number.
        call: CallId,
        /// The turn that it is for.
        turn: Turns,
        /// The estimated prompt.
        estimate: Tokens,
    },
    /// A failed call is tried again later.
    Retrying {
        /// The call that failed.
        call: CallId,
        /// The kind of error.
        kind: ModelErrorKind,
        /// The provider's words.
        message: String,
        /// How long the query waits.
        wait: Duration,
        /// Until when.
        until: Elapsed,
    },
    /// The loop accepted a response: a turn.
    Turn {
        /// Which.
        turn: Turns,
        /// The message.
        message: Arc<Message>,
        /// What the call used.
        usage: Usage,
        /// What the call cost.
        cost: Usd,
        /// The provider's id of the request.
        request_id: Option<String>,
    },
    /// The loop goes on.
    Continued(Transition),
    /// A queued input was taken.
    InputStarted(usize),
    /// A queued input was dealt with: the loop came to an end of its own accord.
    InputCompleted(usize),
    /// A stop hook's result was taken note of.
    HookJudged {
        /// Which, by its place in the job.
        index: usize,
        /// Whether it let the query end.
        passed: bool,
        /// How often it has blocked in a row, this time included.
        blocks: u32,
    },
    /// A limit is reached; the message says which, with its numbers.
    LimitReached(String),
    /// The provider reported more than was reserved: the books are settled with its numbers.
    ReserveExceeded {
        /// The call.
        call: CallId,
        /// What was reserved.
        reserved: Tokens,
        /// What was used.
        used: Tokens,
    },
}
