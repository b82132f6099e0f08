//! The one stream from the runner to whoever reports: what happened, when, in which job.
//!
//! These types are the interface between `drive` and `report`/`output`; neither side owns it. They carry no
//! serialisation: `report::json` has its own shapes and a version.

use crate::exit::ExitStatus;
use crate::outcome::{Outcome, Transition};
use crate::units::{Elapsed, JobId, RunId, Tokens, Turns, Usage, Usd};
use std::time::Duration;

/// One thing that happened in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    /// When, since the run began.
    pub at: Elapsed,
    /// In which job; `None` for the run itself.
    pub job: Option<JobId>,
    /// What.
    pub kind: RunEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEventKind {
    /// The run began: always the first event.
    RunStarted(RunInfo),
    /// A job began.
    JobStarted,
    /// A job entered a phase.
    Phase(Phase),
    /// A model call was sent.
    ModelCalled {
        /// Its number in the job, from 1.
        call: u32,
        /// The turn that it is for.
        turn: Turns,
    },
    /// A failed model call is tried again after a wait.
    Retrying {
        /// The code of the kind of error (`rate_limited`, …).
        code: &'static str,
        /// The provider's words.
        message: String,
        /// How long the job waits.
        wait: Duration,
    },
    /// The loop accepted a response.
    Turn {
        /// Which.
        turn: Turns,
        /// What its call used.
        usage: Usage,
        /// What its call cost.
        cost: Usd,
        /// The provider's id of the request.
        request_id: Option<String>,
        /// Its visible text.
        text: String,
        /// The tools that it calls, by name.
        tools: Vec<String>,
    },
    /// The model is at work, in a few words: for the screen alone, never written down.
    Progress(String),
    /// A tool call began.
    ToolStarted {
        /// The tool's name.
        tool: String,
        /// What it acts on, in one short line.
        subject: String,
    },
    /// A tool call ended.
    ToolFinished {
        /// The tool's name.
        tool: String,
        /// Whether it failed.
        is_error: bool,
        /// How long it took.
        duration: Duration,
    },
    /// A gate began.
    GateStarted {
        /// Its name.
        gate: String,
        /// On which occasion.
        moment: GateMoment,
    },
    /// A gate ended.
    GateFinished {
        /// Its name.
        gate: String,
        /// On which occasion.
        moment: GateMoment,
        /// How.
        status: GateStatus,
        /// Its exit code, where it had one.
        exit_code: Option<i32>,
        /// How long it took.
        duration: Duration,
    },
    /// The loop went on.
    Continued(Transition),
    /// A queued input was taken, counted from 0.
    InputStarted(usize),
    /// A queued input was dealt with.
    InputCompleted(usize),
    /// What the loop did besides turns: context management, other models, sub-agents, hooks.
    Loop(LoopEvent),
    /// Something that a reader should know: a limit reached, a path protected, a file left out.
    Note(String),
    /// Something went wrong that does not change the outcome.
    Warning(String),
    /// A job ended.
    JobFinished(Box<JobReport>),
    /// A signal came: running jobs end, no new one begins.
    Interrupted(ExitStatus),
    /// The run ended: always the last event.
    RunFinished {
        /// How the process will exit.
        exit: ExitStatus,
    },
}

/// What a loop did besides turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEvent {
    /// A layer of context management changed what the model is shown.
    ContextBoundary {
        /// The layer's code.
        layer: &'static str,
        /// Whose conversation: 0 is the job's own.
        agent: u32,
        /// Tokens that it freed: an estimate that errs low, or the provider's own number.
        freed: Tokens,
        /// How many results, turns or spans it was about.
        count: usize,
    },
    /// A compaction did not help.
    CompactFailed {
        /// Why.
        why: String,
        /// How often in a row.
        failures: u32,
    },
    /// Another model answers from now on.
    ModelFallback {
        /// The model that was asked.
        from: String,
        /// The model that is asked now.
        to: String,
        /// Why.
        why: String,
    },
    /// Parts of an answer are void: it was given up.
    Tombstone {
        /// The call that they came from.
        call: u32,
        /// How many blocks.
        blocks: usize,
    },
    /// The small model summarised the calls of a turn.
    ToolSummary(String),
    /// A sub-agent began.
    AgentStarted {
        /// Its number, from 1.
        agent: u32,
        /// `explore` or `general`.
        kind: &'static str,
        /// What it is for.
        description: String,
    },
    /// A sub-agent ended.
    AgentFinished {
        /// Its number.
        agent: u32,
        /// How its loop ended.
        terminal: &'static str,
        /// Its turns.
        turns: Turns,
    },
    /// A stop hook that is no gate ended.
    HookFinished {
        /// Its name.
        hook: String,
        /// `pass`, `block`, `prevent` or `error`.
        decision: &'static str,
        /// How long it took.
        duration: Duration,
    },
    /// The notice that a background command has ended was taken.
    CommandNoticed(String),
    /// Such a notice was dealt with.
    CommandCompleted(String),
}

/// How often what happened in the loop of a job, besides turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopCounts {
    /// How often each layer of context management acted, by its code.
    pub layers: std::collections::BTreeMap<&'static str, u32>,
    /// Compactions that did not help.
    pub compact_failures: u32,
    /// Changes to another model.
    pub fallbacks: u32,
    /// Answers that were given up after parts of them had been shown.
    pub tombstones: u32,
    /// Sub-agents.
    pub subagents: u32,
}

/// What is known when a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    /// Its name.
    pub id: RunId,
    /// The wall clock then, RFC 3339 in UTC, with seconds.
    pub started_at: String,
    /// The folder that it writes to, absolute.
    pub folder: std::path::PathBuf,
    /// The folder as shown to the person: relative to the working directory where that is shorter.
    pub shown_folder: String,
    /// Its jobs, in the order of the plan.
    pub jobs: Vec<JobInfo>,
    /// How many run at once.
    pub slots: usize,
    /// The runner's version.
    pub version: String,
}

/// What is known about a job before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its name.
    pub id: JobId,
    /// The job file as the person named it; `-` for standard input, `--prompt` for a job without a file.
    pub file: String,
    /// The file's stem: the `classname` in `JUnit`.
    pub stem: String,
    /// One line for reports; may be empty.
    pub description: String,
    /// Words for filters; may be empty.
    pub tags: Vec<String>,
    /// The model's name.
    pub model: String,
    /// The turn limit.
    pub max_turns: Turns,
    /// Its gates, by name.
    pub gates: Vec<String>,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Making the worktree.
    Worktree,
    /// Running the setup commands.
    Setup,
    /// Running the `before` gates on the untouched base.
    Before,
    /// In the query loop.
    Query,
    /// Running the gates on the final tree.
    Judging,
    /// Committing, writing the patch, removing the worktree.
    Cleanup,
}

impl Phase {
    /// The word for it on the screen and in events.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Worktree => "worktree",
            Self::Setup => "setup",
            Self::Before => "before",
            Self::Query => "query",
            Self::Judging => "judging",
            Self::Cleanup => "cleanup",
        }
    }
}

/// On which occasion a gate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateMoment {
    /// On the untouched base.
    Before,
    /// When the model believes that it is done.
    Stop,
    /// On the final tree: the run that counts.
    Final,
}

impl GateMoment {
    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Stop => "stop",
            Self::Final => "final",
        }
    }
}

/// What a gate said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateStatus {
    /// Green.
    Pass,
    /// Red.
    Fail,
    /// Not to be trusted: missing program, killed, timed out.
    Error,
}

impl GateStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Fail, Self::Error];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Error => "error",
        }
    }
}

/// All that is known about a job when it has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// What was known before.
    pub info: JobInfo,
    /// How it ended.
    pub outcome: Outcome,
    /// Why the loop went on, each time.
    pub transitions: Vec<Transition>,
    /// Responses that the loop accepted.
    pub turns: Turns,
    /// Calls sent, retries included.
    pub model_calls: u32,
    /// Retries among them.
    pub retries: u32,
    /// What else happened in the loop, and how often.
    pub counts: LoopCounts,
    /// The sum over all calls.
    pub usage: Usage,
    /// The price of all calls; `None` where the model's price is not known.
    pub cost: Option<Usd>,
    /// When it began.
    pub started_at: Elapsed,
    /// How long it took, setup and gates included.
    pub duration: Duration,
    /// Its gates, in the order of the job file.
    pub gates: Vec<GateReport>,
    /// Protected paths that the agent changed, relative to the worktree; restored before judging.
    pub protected_changes: Vec<String>,
    /// The commit that it started from; `None` when the worktree was never made.
    pub base: Option<String>,
    /// The branch that holds its work; `None` when nothing was changed.
    pub branch: Option<String>,
    /// The commit that holds its work; `None` when nothing was changed.
    pub commit: Option<String>,
    /// The worktree, when it was kept.
    pub worktree: Option<std::path::PathBuf>,
    /// The end of the model's last words, for the reader; never judged.
    pub last_words: String,
    /// Which of its attempts this report is about, from 1: the one that decided.
    pub attempt: u32,
    /// All of its attempts, in the order in which they began; empty where the job never started. `usage`, `cost` and `model_calls`
    /// of the report are the sums over these.
    pub attempts: Vec<AttemptReport>,
}

/// One attempt at a job: a whole query on a worktree of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptReport {
    /// Its number, from 1.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Responses that its loop accepted.
    pub turns: Turns,
    /// Calls that it sent, retries included.
    pub model_calls: u32,
    /// The sum over its calls.
    pub usage: Usage,
    /// The price of its calls; `None` where the model's price is not known.
    pub cost: Option<Usd>,
    /// When it began.
    pub started_at: Elapsed,
    /// How long it took.
    pub duration: Duration,
    /// The branch that holds its work; `None` when nothing was changed.
    pub branch: Option<String>,
    /// Its worktree, when it was kept.
    pub worktree: Option<std::path::PathBuf>,
}

impl JobReport {
    /// The report of its only attempt, as an attempt.
    #[must_use]
    pub fn as_attempt(&self, number: u32) -> AttemptReport {
        AttemptReport {
            number,
            outcome: self.outcome.clone(),
            turns: self.turns,
            model_calls: self.model_calls,
            usage: self.usage,
            cost: self.cost,
            started_at: self.started_at,
            duration: self.duration,
            branch: self.branch.clone(),
            worktree: self.worktree.clone(),
        }
    }

    /// Tokens as `token_budget` counts them.
    #[must_use]
    pub fn counted_tokens(&self) -> Tokens {
        self.usage.counted()
    }
}

/// What is known about one gate of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct GateReport {
    /// Its name.
    pub name: String,
    /// The command, for readers.
    pub command: String,
    /// On the untouched base; `None` where it was not asked for.
    pub before: Option<GateStatus>,
    /// On the final tree; `None` when it was never judged.
    pub after: Option<GateStatus>,
    /// The exit code of the last run on the final tree.
    pub exit_code: Option<i32>,
    /// How often it ran in all.
    pub runs: u32,
    /// It was red and then green on the same tree.
    pub flaky: bool,
    /// How long the last run took.
    pub duration: Duration,
    /// The end of its last output, cleaned for reading, bounded to 8 KiB.
    pub tail: String,
    /// The file with its last output, relative to the run folder.
    pub log: Option<String>,
}
