//! What may happen to a query: the only way in which the world reaches the core.

use super::failure::Failure;
use super::transcript::{Block, ToolResult};
use crate::outcome::{AbortReason, HookEvidence};
use crate::units::{Tokens, Usage};
use serde_json::{Map, Value};
use std::time::Duration;

/// Numbers the model calls of a query, retries included, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// Numbers the agents of a query: the job's own is 0, sub-agents follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub u32);

impl AgentId {
    /// The job's own agent.
    pub const JOB: Self = Self(0);
}

/// Numbers the tool runs of a query, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRunId(pub u64);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The first event, and no later one.
    Start,
    /// The model answered with a whole message (its stream ended as it should).
    Reply {
        /// The call that it answers.
        call: CallId,
        /// The message.
        reply: Reply,
    },
    /// A call gave no message.
    ModelFailed {
        /// The call that failed.
        call: CallId,
        /// Why, and what to do.
        failure: Failure,
        /// What was used up all the same, where the stream had said so before it failed.
        usage: Option<Usage>,
    },
    /// A running call told what it has used so far.
    UsageTold {
        /// The call.
        call: CallId,
        /// What it has used so far.
        usage: Usage,
    },
    /// A block of a running call's answer is complete.
    BlockDone {
        /// The call.
        call: CallId,
        /// The block, as the whole answer will have it.
        block: Block,
    },
    /// A tool run ended.
    ToolDone {
        /// Which.
        run: ToolRunId,
        /// What the model is told.
        result: ToolResult,
        /// A tool hook says that the whole query is to end.
        stopped: Option<HookEvidence>,
    },
    /// A sub-agent may start.
    ToolCleared {
        /// Which run it is.
        run: ToolRunId,
        /// The input of the call, which a hook may have changed.
        input: Map<String, Value>,
    },
    /// A background command ended by itself.
    CommandEnded {
        /// Its id.
        id: String,
        /// What the model is told.
        text: String,
    },
    /// A stop hook ended.
    HookDone {
        /// Which, by its place in the job.
        index: usize,
        /// How.
        result: HookResult,
    },
    /// Time has passed; sent at the moment that [`Query::deadline`](super::Query::deadline) named.
    Tick,
    /// Somebody pulled the abort signal.
    Cancel(AbortReason),
}

/// A whole answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Its blocks in order.
    pub blocks: Vec<Block>,
    /// Why the model stopped: informs, never decides whether to go on.
    pub stop: Stop,
    /// What the call used.
    pub usage: Usage,
    /// What the provider cleared from its copy of the conversation.
    pub cleared: Option<Cleared>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
}

/// What a provider says that it cleared by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// How many tool results.
    pub tool_results: u64,
    /// How many tokens they were.
    pub tokens: Tokens,
}

/// The provider's stop reason, folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model was done, called tools, met a stop sequence, or said something that we do not know.
    Ordinary(String),
    /// The output limit cut the answer.
    MaxTokens,
    /// The provider paused the turn: the answer goes back as it is, and the model goes on.
    Pause,
    /// The window was full.
    ContextWindow,
    /// The model declined; the text says why, where it is known.
    Refusal(String),
}

/// How a stop hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookResult {
    /// What it means.
    pub status: HookStatus,
    /// The end of its output, cleaned, bounded.
    pub tail: String,
    /// How long it took.
    pub duration: Duration,
}

/// What a stop hook's end means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookStatus {
    /// Nothing to object.
    Pass,
    /// A hook objects, in these words.
    Object(String),
    /// A hook forbids going on, in these words.
    Prevent(String),
    /// A gate objects.
    Fail {
        /// Its exit code, where it had one.
        exit_code: Option<i32>,
    },
    /// It did not end within its time limit.
    TimedOut,
    /// It could not be run: its program is missing, or it was killed. The text says so.
    Broken(String),
}
