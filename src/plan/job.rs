//! What will run: complete, checked, with nothing left to parse or to look up.

use super::endpoint::is_loopback;
use super::matcher::ToolMatcher;
use crate::event::JobInfo;
use crate::outcome::Reason;
use crate::spec::{Before, Keep, OnFail, Thinking, ToolHookEvent};
use crate::units::{JobId, Prices, Tokens, Turns, Usd};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A job that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedJob {
    /// Its name, unique in the run.
    pub id: JobId,
    /// The job file as the person named it; `-` for standard input, `--prompt` for a job without a file.
    pub file: String,
    /// The stem of the file's name.
    pub stem: String,
    /// One line for reports; may be empty.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// Further inputs, each taken when the model has finished the one before.
    pub follow_ups: Vec<String>,
    /// What it may use up.
    pub limits: Limits,
    /// When it runs, and how often it is tried.
    pub course: Course,
    /// For filters and reports.
    pub tags: Vec<String>,
    /// Globs, relative to the worktree: the agent's changes there are undone before the gates judge.
    pub protect: Vec<String>,
    /// Whether a job that changed nothing can pass.
    pub require_changes: bool,
    /// Files of the worktree that go into the first message when present.
    pub context_files: Vec<String>,
    /// The values of this combination of the matrix, as text; empty without a matrix.
    pub matrix: BTreeMap<String, String>,
    /// Which model, and how to reach it.
    pub model: ModelPlan,
    /// Where the files come from.
    pub source: Source,
    /// How its worktree is made and kept.
    pub worktree: WorktreePlan,
    /// The judges.
    pub gates: Vec<GatePlan>,
    /// Stop hooks that judge nothing.
    pub hooks: Vec<HookPlan>,
    /// Hooks around tool calls, in the order of the job file.
    pub tool_hooks: Vec<ToolHookPlan>,
    /// What happens to work that passed, and how it is signed.
    pub publish: PublishPlan,
}

/// When a job runs, and how often it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// How often it is tried again from a fresh worktree, at most 20.
    pub retries: u32,
    /// The reasons that it is tried again for; empty: every failure or error that another try could change.
    pub retry_on: Vec<Reason>,
    /// How many tries run side by side, 1 to 16; the first that passes stops the others.
    pub attempts: u32,
    /// Jobs of the run that must have passed before.
    pub needs: Vec<JobId>,
    /// Higher starts first; -1000 to 1000.
    pub priority: i32,
    /// The group that it belongs to.
    pub group: Option<Group>,
}

impl Course {
    /// How many tries there can be in all.
    #[must_use]
    pub const fn tries(&self) -> u32 {
        self.attempts.saturating_add(self.retries)
    }

    /// Whether an end for this reason is to be followed by another try, as long as there is one.
    #[must_use]
    pub fn wants_retry(&self, reason: Reason) -> bool {
        if self.retry_on.is_empty() { reason.retryable() } else { self.retry_on.contains(&reason) }
    }
}

/// What holds for a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// After so many failed jobs it ends; `None`: never.
    pub max_failures: Option<u32>,
    /// Its wall clock; `None`: no limit.
    pub timeout: Option<Duration>,
    /// Its spending cap over all jobs and tries; `None`: no cap.
    pub max_cost: Option<Usd>,
}

impl Default for Course {
    fn default() -> Self {
        Self { retries: 0, retry_on: Vec::new(), attempts: 1, needs: Vec::new(), priority: 0, group: None }
    }
}

/// Jobs of which only so many run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many at once, at least 1; the same in every job that names the group.
    pub max: u32,
}

/// What happens to work that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishPlan {
    /// How far it goes.
    pub on_pass: OnPass,
    /// The message of the commit, templates filled in; `None`: one that is made from the job.
    pub commit_message: Option<String>,
    /// `Name <address>` of the author; `None`: git's own.
    pub author: Option<String>,
}

/// How far work that passed goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPass {
    /// The patch is all that is left.
    None,
    /// The branch stays in the repository.
    #[default]
    Branch,
    /// The branch is pushed.
    Push,
    /// It is pushed, and a pull request is opened.
    PullRequest,
}

impl OnPass {
    /// The word for it in job files.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Branch => "branch",
            Self::Push => "push",
            Self::PullRequest => "pull-request",
        }
    }
}

impl PlannedJob {
    /// What reports know about it before it begins.
    #[must_use]
    pub fn info(&self) -> JobInfo {
        JobInfo {
            id: self.id.clone(),
            file: self.file.clone(),
            stem: self.stem.clone(),
            description: self.description.clone(),
            tags: self.tags.clone(),
            model: self.model.name.clone(),
            max_turns: self.limits.max_turns,
            gates: self.gates.iter().map(|gate| gate.name.clone()).collect(),
        }
    }
}

/// What a job may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model turns over the whole job; at least 1.
    pub max_turns: Turns,
    /// Input that was not read from a cache, plus output.
    pub token_budget: Tokens,
    /// Money; `None` where no cap can be enforced because the price is not known, or none was wanted.
    pub max_cost: Option<Usd>,
    /// Wall clock of the whole job, setup and gates included.
    pub timeout: Duration,
    /// The token budget is also a target: a model that stops early is asked to go on.
    pub keep_working: bool,
    /// What the model is told about its budget, where the API has a place for it; at least 20,000.
    pub task_budget: Option<Tokens>,
    /// The same tool call with the same result so often in a row ends the job; default 12.
    pub loop_limit: u32,
}

/// Where a job's files come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The repository around this folder.
    Repo(PathBuf),
    /// A fresh repository made from this folder.
    Fixture(PathBuf),
}

/// Which model, and how to reach it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPlan {
    /// How it is reached.
    pub provider: Provider,
    /// The provider's name of the model.
    pub name: String,
    /// The output cap of one answer.
    pub max_output: Tokens,
    /// The cap of the one answer that is asked for again because the default cap cut it; `None` where a cap was set by hand, or
    /// the model gives no more.
    pub escalated_output: Option<Tokens>,
    /// Whether and how it thinks; `None` leaves it to the model's default.
    pub thinking: Option<Thinking>,
    /// The whole window, input and output together.
    pub context_window: Tokens,
    /// Prices; `None` when they are not known.
    pub prices: Option<Prices>,
    /// Its thinking is bound to the exact conversation before it, which therefore must not be rewritten.
    pub binds_thinking: bool,
    /// The model that takes over when this one stays overloaded.
    pub fallback: Option<Box<Self>>,
    /// The model for summaries of tool calls.
    pub small: Option<Box<Self>>,
}

/// How a model is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The Anthropic Messages API, or a server that speaks it.
    Anthropic {
        /// Without a final slash and without `/v1/messages`.
        base_url: String,
        /// The name of the variable that holds the key; never the key.
        api_key_env: String,
        /// Further request headers.
        headers: BTreeMap<String, String>,
    },
    /// A recorded conversation.
    Replay {
        /// The cassette's file.
        cassette: PathBuf,
    },
}

impl Provider {
    /// The name of the variable that holds the key; `None` where no key is needed: a recorded conversation, or a server
    /// on this machine.
    #[must_use]
    pub fn key_variable(&self) -> Option<&str> {
        match self {
            Self::Anthropic { base_url, api_key_env, .. } if !is_loopback(base_url) => Some(api_key_env),
            Self::Anthropic { .. } | Self::Replay { .. } => None,
        }
    }
}

/// How a worktree is made and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreePlan {
    /// What it starts from: anything that git resolves to a commit.
    pub base: String,
    /// The branch that is made for it; `{{ run }}` is already replaced.
    pub branch: String,
    /// Shell lines that run before the agent starts.
    pub setup: Vec<CommandLine>,
    /// Variables for setup, tools and gates.
    pub env: BTreeMap<String, String>,
    /// Names of variables that are handed on from the runner's environment.
    pub pass_env: Vec<String>,
    /// What happens to it at the end.
    pub keep: Keep,
}

/// A command of a job file: a shell line or an argument vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// Run by `sh -c`.
    Shell(String),
    /// Run as it is; never empty.
    Argv(Vec<String>),
}

impl CommandLine {
    /// The argument vector to run.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Shell(line) => vec!["sh".into(), "-c".into(), line.clone()],
            Self::Argv(argv) => argv.clone(),
        }
    }

    /// The command as a person would write it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Shell(line) => line.clone(),
            Self::Argv(argv) => argv.join(" "),
        }
    }
}

/// A gate: its exit code says whether the work is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatePlan {
    /// Unique in the job.
    pub name: String,
    /// What is run, in the root of the worktree.
    pub run: CommandLine,
    /// Past it the gate counts as broken.
    pub timeout: Duration,
    /// How often in a row it may send the model back to work; at least 1.
    pub max_blocks: u32,
    /// What a red gate does while the loop runs.
    pub on_fail: OnFail,
    /// What it must do on the untouched base.
    pub before: Before,
    /// How often a red gate is run again before its red counts: 0 to 5.
    pub retries: u32,
    /// Its position among the stop hooks of the job file, from 0.
    pub place: usize,
}

/// A stop hook that judges nothing: it may object while the loop runs (Claude Code's `Stop` hooks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookPlan {
    /// Unique among gates and hooks of the job.
    pub name: String,
    /// What is run, in the root of the worktree.
    pub run: CommandLine,
    /// Past it the hook is stopped and has no say.
    pub timeout: Duration,
    /// How often in a row it may send the model back to work; at least 1, and 1 by default.
    pub max_blocks: u32,
    /// What an objection does.
    pub on_fail: OnFail,
    /// Its position among the stop hooks of the job file, from 0.
    pub place: usize,
}

/// A hook around tool calls (Claude Code's `PreToolUse` and `PostToolUse`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolHookPlan {
    /// When it runs.
    pub event: ToolHookEvent,
    /// Which tools it is for.
    pub matches: ToolMatcher,
    /// What is run, in the root of the worktree.
    pub run: CommandLine,
    /// Past it the hook is stopped.
    pub timeout: Duration,
}
