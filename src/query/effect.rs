//! What a query may ask the driver for: the only way in which the core reaches the world.

use super::event::{AgentId, CallId, ToolRunId};
use super::saved::Saved;
use super::transcript::{History, Message, ToolUse};
use crate::outcome::{ModelErrorKind, Terminal, Transition};
use crate::units::{Elapsed, Tokens, Turns, Usage, Usd};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// One thing that the driver does now. Effects are performed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Call a model; answer with `Reply` or `ModelFailed`. Several may be open at once.
    CallModel(ModelCall),
    /// Run a tool; answer with `ToolDone`. Several may be open at once.
    RunTool(ToolRun),
    /// Ask whether a sub-agent may start; answer with `ToolCleared`, or with `ToolDone` if it may not.
    ClearAgent(ToolRun),
    /// Run a stop hook; answer with `HookDone`.
    RunHook {
        /// Which, by its place in the job.
        index: usize,
        /// The model works on because a stop hook blocked.
        stop_hook_active: bool,
        /// The model's last words.
        last_words: String,
    },
    /// Stop a model call and do not answer for it.
    StopCall(CallId),
    /// Stop a tool and do not answer for it.
    StopTool(ToolRunId),
    /// Stop everything that is open and do not answer for it.
    StopAll,
    /// Keep a whole tool result in the folder for outputs.
    KeepResult {
        /// The file's name.
        file: String,
        /// What goes into it.
        content: String,
    },
    /// Append a message to the transcript.
    Record {
        /// In whose conversation.
        agent: AgentId,
        /// The message.
        message: Arc<Message>,
    },
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
    /// Whose conversation it is.
    pub agent: AgentId,
    /// What kind of agent that is, and so which tools it has.
    pub kind: AgentKind,
    /// The whole conversation.
    pub history: History,
    /// The output cap of this call.
    pub max_output: Tokens,
    /// Who asks.
    pub source: Source,
    /// Which model is asked.
    pub model: ModelSlot,
    /// What it costs at most: its prompt as the dearest input, and the whole output cap.
    pub worst_cost: Usd,
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
            agent: AgentId::JOB,
            kind: AgentKind::Job,
            history,
            max_output: Tokens(8_192),
            source: Source::Job,
            model: ModelSlot::Main,
            worst_cost: Usd::ZERO,
            task_budget: None,
            clearing: None,
            thinking_stripped: false,
        }
    }
}

/// A tool call that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRun {
    /// The run's number: ids of calls may come again after a discarded answer.
    pub id: ToolRunId,
    /// Who calls.
    pub agent: AgentId,
    /// What kind of agent that is, and so which tools it has.
    pub kind: AgentKind,
    /// The call.
    pub call: ToolUse,
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

/// What kind of agent a conversation belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
    /// The job's own.
    #[default]
    Job,
    /// A sub-agent with every tool but the one that starts sub-agents.
    General,
    /// A sub-agent that can only look.
    Explore,
}

/// Which of a job's models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// What was left when the conversation that is sent began. The provider counts down what it is sent; what came before a
    /// compaction it cannot see.
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

/// A layer of context management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// 0: large results go to files.
    ResultBudget,
    /// 1: turns that say nothing any more are left out.
    Snip,
    /// 2: old results are cleared.
    MicroCompact,
    /// 3: old turns are shown as digests.
    Collapse,
    /// 4: the conversation is summarised.
    AutoCompact,
}

impl Layer {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::ResultBudget, Self::Snip, Self::MicroCompact, Self::Collapse, Self::AutoCompact];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::ResultBudget => "result_budget",
            Self::Snip => "snip",
            Self::MicroCompact => "micro_compact",
            Self::Collapse => "collapse",
            Self::AutoCompact => "auto_compact",
        }
    }
}

/// A queued input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedInput {
    /// A follow-up of the job, counted from 0.
    FollowUp(usize),
    /// The notice that a background command has ended, by the command's id.
    Command(String),
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A model call was sent.
    ModelCalled {
        /// Its number.
        call: CallId,
        /// Who asks.
        source: Source,
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
    /// Parts of an answer that were shown are void: the answer is given up, and asked for again.
    Tombstone {
        /// The call that they came from.
        call: CallId,
        /// How many blocks.
        blocks: usize,
    },
    /// Another model answers from now on.
    ModelFallback {
        /// In whose conversation.
        agent: AgentId,
        /// The model that was asked.
        from: String,
        /// The model that is asked now.
        to: String,
        /// Why.
        why: String,
    },
    /// The loop accepted a response: a turn.
    Turn {
        /// Whose.
        agent: AgentId,
        /// Which, over the whole job.
        turn: Turns,
        /// The message.
        message: Arc<Message>,
        /// Which model answered.
        model: ModelSlot,
        /// What the call used.
        usage: Usage,
        /// What the call cost.
        cost: Usd,
        /// The provider's id of the request.
        request_id: Option<String>,
    },
    /// A loop goes on.
    Continued {
        /// Whose.
        agent: AgentId,
        /// Why.
        transition: Transition,
    },
    /// The job's loop is between two iterations: from here it could go on in another process.
    Savepoint {
        /// The transition that has led here, when one has: not at the beginning, and not after a summary that came before any failure.
        transition: Option<Transition>,
        /// What is needed for that, beside the messages.
        saved: Box<Saved>,
    },
    /// A layer of context management did something: the boundary between what was and what is shown.
    ContextBoundary {
        /// In whose conversation.
        agent: AgentId,
        /// Which.
        layer: Layer,
        /// How many tokens it freed; an estimate that errs low, or the provider's own number.
        freed: Tokens,
        /// How many results, turns or spans it was about.
        count: usize,
    },
    /// A summary has taken the place of a part of the conversation, which the transcript has in full.
    Compacted {
        /// Whose.
        agent: AgentId,
        /// The message with the summary.
        summary: u64,
        /// The first message after it that stays; `None`: none does.
        kept_from: Option<u64>,
    },
    /// A compaction did not help.
    CompactFailed {
        /// Why.
        why: String,
        /// How often in a row.
        failures: u32,
    },
    /// The small model summarised the calls of a turn.
    ToolSummary {
        /// The summary, one line.
        text: String,
    },
    /// A sub-agent began.
    AgentStarted {
        /// Which.
        agent: AgentId,
        /// What kind.
        kind: AgentKind,
        /// What it is for, in a few words.
        description: String,
    },
    /// A sub-agent ended.
    AgentFinished {
        /// Which.
        agent: AgentId,
        /// How.
        terminal: &'static str,
        /// Its turns.
        turns: Turns,
    },
    /// A queued input was taken.
    InputStarted(QueuedInput),
    /// A queued input was dealt with: the loop came to an end of its own accord.
    InputCompleted(QueuedInput),
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
