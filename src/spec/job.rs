//! A job file as its author wrote it: every key with its unit, default and range. Nothing is filled in here.
//!
//! The same shape holds `[defaults]` of `runner.toml`, the built-in defaults and the flags of the command line.
//! `{{ matrix.x }}`, `{{ job }}` and `{{ run }}` may stand in every text, but not in choices and durations.

use super::source::{Layer, Place};
use crate::outcome::Reason;
use crate::units::{Tokens, Turns, Usd};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A value and the place where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: Place,
}

impl<T> Written<T> {
    /// A value that stands at a place.
    pub const fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }

    /// Which layer of settings it comes from.
    pub fn layer(&self) -> Layer {
        self.place.file.layer()
    }
}

/// A value of a table whose keys the author chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the key stands.
    pub key: Place,
    /// The value.
    pub value: Written<String>,
}

/// A job as it was written. A key that is not there is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSpec {
    /// `name`: unique in a run, 1 to 100 of `[A-Za-z0-9._-]`. Default: the file's stem and the values of the matrix.
    pub name: Option<Written<String>>,
    /// `description`: one line for reports. Default: empty.
    pub description: Option<Written<String>>,
    /// `prompt`: the task. Exactly one of this and `prompt_file`.
    pub prompt: Option<Written<String>>,
    /// `prompt_file`: a file that holds the task, relative to the file that names it.
    pub prompt_file: Option<Written<String>>,
    /// `follow_ups`: further inputs, each taken when the model has finished the one before. Default: none.
    pub follow_ups: Option<Written<Vec<Written<String>>>>,
    /// `max_turns`: model turns over the whole job, 1 to 100,000. Default: 40.
    pub max_turns: Option<Written<Turns>>,
    /// `token_budget`: a cap on input that was not read from a cache, plus output. Default: 400,000.
    pub token_budget: Option<Written<TokenBudget>>,
    /// `task_budget`: what the model is told about its budget, where the API has a place for it; 20,000 to 10¹² tokens.
    pub task_budget: Option<Written<Tokens>>,
    /// `loop_limit`: the same tool call with the same result so often in a row ends the job, 4 to 1,000. Default: 12.
    pub loop_limit: Option<Written<u32>>,
    /// `max_cost_usd`: a cap on money, above 0, at most 1,000,000 US dollars. Default: 3.0 where the price is known.
    pub max_cost_usd: Option<Written<Usd>>,
    /// `timeout`: wall clock of the job, setup and gates included; up to 720h. Default: `"45m"`.
    pub timeout: Option<Written<Duration>>,
    /// When it runs, and how often it is tried.
    pub course: CourseSpec,
    /// `tags`: words for filters and reports. Default: none.
    pub tags: Option<Written<Vec<Written<String>>>>,
    /// `protect`: globs relative to the worktree; changes there are undone before the gates judge. Default: none.
    pub protect: Option<Written<Vec<Written<String>>>>,
    /// `require_changes`: whether a job that changed nothing has failed. Default: true.
    pub require_changes: Option<Written<bool>>,
    /// `matrix`: one job for each combination of the values, in the order as written. Default: none.
    pub matrix: Option<Written<Vec<MatrixAxis>>>,
    /// `context_files`: files of the worktree that go into the first message when present.
    /// Default: `AGENTS.md`, `CLAUDE.md`.
    pub context_files: Option<Written<Vec<Written<String>>>>,
    /// `repo`: a folder, relative to the file that names it. Default: the repository around the working directory.
    pub repo: Option<Written<String>>,
    /// `[model]`, or `model = "name"`.
    pub model: ModelSpec,
    /// `[worktree]`.
    pub worktree: WorktreeSpec,
    /// `[publish]`.
    pub publish: PublishSpec,
    /// `[[stop_hooks]]`: the gates and hooks. Default: none.
    pub stop_hooks: Option<Written<Vec<StopHookSpec>>>,
    /// `[[tool_hooks]]`: hooks around tool calls. Default: none.
    pub tool_hooks: Option<Written<Vec<ToolHookSpec>>>,
    /// The keys that are there but could not be read (`model.name`): their absence means nothing.
    pub broken: BTreeSet<String>,
}

/// When a job runs, and how often it is tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CourseSpec {
    /// `retries`: tries more, each on a fresh worktree, when none has passed; 0 to 20. Default: 0.
    pub retries: Option<Written<u32>>,
    /// `retry_on`: the reasons that it is tried again for. Default: none, which is every one that another try could change.
    pub retry_on: Option<Written<Vec<Reason>>>,
    /// `attempts`: tries side by side, 1 to 16; the first that passes stops the others. Default: 1.
    pub attempts: Option<Written<u32>>,
    /// `needs`: names of jobs that must have passed before. Default: none.
    pub needs: Option<Written<Vec<Written<String>>>>,
    /// `priority`: higher starts first, -1,000 to 1,000. Default: 0.
    pub priority: Option<Written<i32>>,
    /// `group`: jobs of which only so many run at once. Default: none.
    pub group: Option<Written<GroupSpec>>,
}

/// `group = { name = "db", max = 1 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its name; templates may stand in it.
    pub name: String,
    /// How many of it at once, 1 to 1,024. Default: 1.
    pub max: u32,
}

/// `token_budget = N`, or `token_budget = { total = N, keep_working = true }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBudget {
    /// The cap, 1 to 10¹² tokens.
    pub total: Tokens,
    /// `keep_working`: it is also a target, and a model that stops early is asked to go on. Default: false.
    pub keep_working: bool,
}

/// One key of a matrix with its values, in the order as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixAxis {
    /// The key: `x` of `{{ matrix.x }}`.
    pub key: Written<String>,
    /// The values as text, at least one, no two alike.
    pub values: Vec<Written<String>>,
}

/// `[model]`: which model, and how to reach it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSpec {
    /// `provider`: how it is reached. Default: `anthropic`.
    pub provider: Option<Written<ProviderName>>,
    /// `name`: the provider's name of the model. Default: `claude-sonnet-5-5`.
    pub name: Option<Written<String>>,
    /// `fallback`: the model that takes over when this one stays overloaded, at the same server. Default: none.
    pub fallback: Option<Written<String>>,
    /// `small`: the model for summaries of tool calls, at the same server. Default: none.
    pub small: Option<Written<String>>,
    /// `base_url`: a server that speaks the provider's protocol. Default: `https://api.anthropic.com`.
    pub base_url: Option<Written<String>>,
    /// `api_key_env`: the name of the variable that holds the key. Default: `ANTHROPIC_API_KEY`.
    pub api_key_env: Option<Written<String>>,
    /// `max_output_tokens`: the cap of one answer, 1 to the model's own limit. Default: 8192, or that limit.
    pub max_output_tokens: Option<Written<Tokens>>,
    /// `thinking`: `"off"`, `"adaptive"` or `{ budget_tokens = N }`. Default: nothing is asked for.
    pub thinking: Option<Written<Thinking>>,
    /// `context_window`: tokens, input and output together; wins over the built-in table. 1,000 to 10⁹.
    pub context_window: Option<Written<Tokens>>,
    /// `headers`: further request headers; no keys. Default: none.
    pub headers: BTreeMap<String, Entry>,
    /// `cassette`: a recorded conversation, relative to the file that names it; for `provider = "replay"`.
    pub cassette: Option<Written<String>>,
}

/// A provider, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderName {
    /// The Anthropic Messages API, or a server that speaks it.
    Anthropic,
    /// A recorded conversation.
    Replay,
}

/// Whether and how a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all; what the request says depends on the model.
    Off,
    /// As the model sees fit.
    Adaptive,
    /// Up to so many tokens; at least 1,024 and less than the output cap.
    Budget(Tokens),
}

/// `[publish]`: what happens to work that passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishSpec {
    /// `on_pass`: how far it goes. Default: `"branch"`.
    pub on_pass: Option<Written<PassWord>>,
    /// `commit_message`: the message of the commit. Default: made from the job.
    pub commit_message: Option<Written<String>>,
    /// `author`: `Name <address>`. Default: git's own.
    pub author: Option<Written<String>>,
}

/// How far work that passed goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassWord {
    /// A patch stays.
    None,
    /// A branch stays in the repository.
    Branch,
    /// The branch is pushed.
    Push,
    /// The branch is pushed and a pull request opened.
    PullRequest,
}

/// `[worktree]`: where the work happens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorktreeSpec {
    /// `base`: what it starts from, anything that git resolves to a commit. Default: `HEAD`.
    pub base: Option<Written<String>>,
    /// `branch`: the branch that is made for it. Default: `runner/{{ run }}/{{ job }}`.
    pub branch: Option<Written<String>>,
    /// `setup`: commands before the agent starts, shell lines or argument vectors. Default: none.
    pub setup: Option<Written<Vec<Written<CommandSpec>>>>,
    /// `env`: variables for setup, tools and gates. Default: none.
    pub env: BTreeMap<String, Entry>,
    /// `pass_env`: names of variables that are handed on. Default: `CI`.
    pub pass_env: Option<Written<Vec<Written<String>>>>,
    /// `keep`: what happens to it at the end. Default: `on_failure`.
    pub keep: Option<Written<Keep>>,
    /// `fixture`: a folder that a fresh repository is made from, instead of `repo`.
    pub fixture: Option<Written<String>>,
}

/// A command: a shell line or an argument vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandSpec {
    /// `"cargo test"`, run by `sh -c`.
    Shell(String),
    /// `["cargo", "test"]`, run as it is; never empty.
    Argv(Vec<Written<String>>),
}

/// `[[stop_hooks]]`: one gate, or one hook.
#[derive(Clone, Debug, PartialEq)]
pub struct StopHookSpec {
    /// `name`: unique in the job. Default: the first words of the command.
    pub name: Option<Written<String>>,
    /// `kind`: `gate` or `hook`. Default: `gate`.
    pub kind: Option<Written<StopHookKind>>,
    /// `run`: the command.
    pub run: Written<CommandSpec>,
    /// `timeout`: past it the gate counts as broken, and a hook has no say. Default: `"10m"`.
    pub timeout: Option<Written<Duration>>,
    /// `max_blocks`: how often in a row it may send the model back to work, 1 to 1,000. Default: 5, of a hook 1.
    pub max_blocks: Option<Written<u32>>,
    /// `on_fail`: `block` or `stop`. Default: `block`.
    pub on_fail: Option<Written<OnFail>>,
    /// `before`: `any`, `fail` or `pass`; what it must do on the untouched base. Default: `any`. Not for hooks.
    pub before: Option<Written<Before>>,
    /// `retries`: how often a red gate is run again before its red counts, 0 to 5. Default: 0. Not for hooks.
    pub retries: Option<Written<u32>>,
}

impl StopHookSpec {
    /// What it is, said or not.
    pub fn kind(&self) -> StopHookKind {
        self.kind.as_ref().map_or(StopHookKind::Gate, |kind| kind.value)
    }
}

/// What a stop hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopHookKind {
    /// Its exit code judges the work, while the loop runs and at the end.
    Gate,
    /// It judges nothing, but may object while the loop runs: Claude Code's `Stop` hooks.
    Hook,
}

/// `[[tool_hooks]]`: one hook around tool calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolHookSpec {
    /// `event`: `pre` or `post`.
    pub event: Written<ToolHookEvent>,
    /// `match`: names of tools, or a regular expression. Default: every tool.
    pub matches: Option<Written<String>>,
    /// `run`: the command.
    pub run: Written<CommandSpec>,
    /// `timeout`: past it the hook is stopped. Default: `"10m"`.
    pub timeout: Option<Written<Duration>>,
}

/// When a tool hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolHookEvent {
    /// Before the call, which it may deny or change.
    Pre,
    /// After the call, whose result it may comment on.
    Post,
}

/// What happens to a worktree at the end. Work is committed and the patch is written in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Removed.
    Never,
    /// Kept unless the job passed.
    OnFailure,
    /// Kept.
    Always,
}

/// What a red gate does while the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFail {
    /// Its output goes to the model, which works on.
    Block,
    /// The loop ends.
    Stop,
}

/// What a gate must do on the untouched base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Not asked.
    Any,
    /// It must be red: the fault is there.
    Fail,
    /// It must be green: it is fit to judge.
    Pass,
}
