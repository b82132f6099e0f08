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
    /// Who asks.
    pub source: Source,
    /// Which model is asked.
    pub model: ModelSlot,
    /// What the model is told about the budget of the whole task, where the provider takes that.
    pub task_budget: Option<TaskBudget>,
    /// What the provider is asked to clear by itself; `None`: nothing.
    pub clearing: Option<Clearing>,
    /// The conversation's thinking was taken out, so that a model that insists on it must be asked without thinking.
    pub thinking_stripped: bool,
}

impl ModelCall {
    /// The plain first call of a conversation.
    #[must_use]
    pub const fn first(history: History) -> Self {
        Self {
            id: CallId(1),
            history,
            max_output: Tokens(8_192),
            source: Source::Job,
            model: ModelSlot::Main,
            task_budget: None,
            clearing: None,
            thinking_stripped: false,
        }
    }
}

/// Who asks the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The job itself.
    Job,
    /// A sub-agent.
    Subagent,
    /// A compaction.
    Compact,
    /// A summary of tool calls.
    Summary,
}

impl Source {
    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Subagent => "subagent",
            Self::Compact => "compact",
            Self::Summary => "summary",
        }
    }
}

/// Which of a job's models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelSlot {
    /// The job's model.
    #[default]
    Main,
    /// The one that takes over when it stays overloaded.
    Fallback,
    /// The one for summaries.
    Small,
}

/// A budget that the provider shows to the model; advice, no cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskBudget {
    /// The whole budget, the same in every call.
    pub total: Tokens,
    /// What was left when the conversation that is sent began: what came before a compaction is used up.
    pub remaining: Tokens,
}

/// Tool results that the provider clears from its own copy of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// From this size of the prompt on.
    pub trigger: Tokens,
    /// The results of so many calls stay, the newest.
    pub keep: u32,
    /// Only if it frees as much as this.
    pub at_least: Tokens,
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
