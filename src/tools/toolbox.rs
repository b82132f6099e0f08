//! All tools in one box: from a call of the model to its result.

use super::background::{Background, Ended, TASK_OUTPUT, TASK_STOP};
use super::edit::{EDIT, edit};
use super::glob::{GLOB, glob};
use super::grep::{GREP, grep};
use super::limit::{RESULT, escaped, head, middle_out, one_line, tail};
use super::path::Root;
use super::protect::Protected;
use super::read::{READ, read};
use super::schema::{Arguments, Declaration, nearest};
use super::shell::{BASH, Shell, Surroundings};
use super::workspace::{Answer, CANCELLED, Shown, Workspace};
use super::write::{WRITE, write};
use crate::process::Environment;
use crate::query::{Concurrency, ToolDefinition, ToolInput, ToolResult, ToolUse};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;

/// What the tools of a job work with.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The worktree. It must exist.
    pub root: PathBuf,
    /// The environment of shell commands.
    pub env: Environment,
    /// The folder for outputs that are too long for a result; made when it is needed. Outside of the worktree.
    pub outputs: PathBuf,
    /// The job's protected paths: globs, relative to the worktree.
    pub protect: Vec<String>,
}

/// The tools of a job.
#[derive(Debug)]
pub struct Toolbox {
    space: Arc<Workspace>,
    around: Surroundings,
    /// Held by whatever changes files, so that two such calls never run at once, whoever starts them.
    shell: Arc<Mutex<Shell>>,
    background: Background,
}

/// What an agent may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All tools.
    Full,
    /// Those that change nothing and run nothing.
    ReadOnly,
}

impl Access {
    /// The tools that are open to it, in the order in which they are declared.
    fn tools(self) -> impl Iterator<Item = Tool> {
        Tool::ALL.into_iter().filter(move |tool| match self {
            Self::Full => true,
            Self::ReadOnly => tool.only_looks(),
        })
    }

    fn names(self) -> Vec<&'static str> {
        self.tools().map(|tool| tool.declaration().name).collect()
    }
}

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Read,
    Write,
    Edit,
    Glob,
    Grep,
    Bash,
    TaskOutput,
    TaskStop,
}

impl Tool {
    const ALL: [Self; 8] =
        [Self::Read, Self::Write, Self::Edit, Self::Glob, Self::Grep, Self::Bash, Self::TaskOutput, Self::TaskStop];

    const fn declaration(self) -> &'static Declaration {
        match self {
            Self::Read => &READ,
            Self::Write => &WRITE,
            Self::Edit => &EDIT,
            Self::Glob => &GLOB,
            Self::Grep => &GREP,
            Self::Bash => &BASH,
            Self::TaskOutput => &TASK_OUTPUT,
            Self::TaskStop => &TASK_STOP,
        }
    }

    /// Whether it shows what is in files and does nothing else.
    const fn only_looks(self) -> bool {
        match self {
            Self::Read | Self::Glob | Self::Grep => true,
            Self::Write | Self::Edit | Self::Bash | Self::TaskOutput | Self::TaskStop => false,
        }
    }

    const fn concurrency(self) -> Concurrency {
        match self {
            Self::Read | Self::Glob | Self::Grep | Self::TaskOutput => Concurrency::Shared,
            Self::Write | Self::Edit | Self::Bash | Self::TaskStop => Concurrency::Alone,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.declaration().name == name)
    }
}

impl Toolbox {
    /// The tools for a worktree.
    ///
    /// # Errors
    /// Says in words that the worktree cannot be used or that a protected path is no glob.
    pub fn new(context: ToolContext) -> Result<Self, String> {
        let root = Root::open(&context.root)?;
        let shell = Arc::new(Mutex::new(Shell::new(&root)));
        let space = Workspace {
            root: root.clone(),
            protected: Protected::new(&context.protect)?,
            outputs: context.outputs.clone(),
        };
        Ok(Self {
            space: Arc::new(space),
            around: Surroundings { root, env: context.env, outputs: context.outputs },
            shell,
            background: Background::new(),
        })
    }

    /// What the model is told about all of them, always in the same order.
    #[must_use]
    pub fn definitions() -> Vec<ToolDefinition> {
        Self::definitions_for(Access::Full)
    }

    /// What the model is told about those that an agent may use, always in the same order.
    #[must_use]
    pub fn definitions_for(access: Access) -> Vec<ToolDefinition> {
        access.tools().map(|tool| tool.declaration().definition()).collect()
    }

    /// The next background command that ended by itself and of whose end the model was not told yet; each is given out
    /// once. What [`run`](Self::run) told of itself, by TaskOutput or TaskStop, does not come here.
    ///
    /// Waits for one, also while none runs; `None` once [`shutdown`](Self::shutdown) has begun. Nothing is lost when the
    /// future is dropped, so it may be one of several in a `select!`.
    pub async fn next_ended(&self) -> Option<Ended> {
        self.background.next_ended().await
    }

    /// Ends all background commands with all their processes, and waits until they are gone: at most the grace of a command
    /// and some seconds. From now on none can be started. Dropping the toolbox ends them too, but does not wait.
    pub async fn shutdown(&self) {
        self.background.shutdown().await;
    }

    /// What a call is about, for the screen: at most 80 characters, one line; empty where there is nothing to say.
    #[must_use]
    pub fn subject(call: &ToolUse) -> String {
        const MAX: usize = 80;
        let ToolInput::Object(input) = &call.input else { return String::new() };
        let field = match Tool::named(&call.name) {
            Some(Tool::Read | Tool::Write | Tool::Edit) => "file_path",
            Some(Tool::Glob | Tool::Grep) => "pattern",
            Some(Tool::Bash) => "command",
            Some(Tool::TaskOutput | Tool::TaskStop) => "task_id",
            None => return String::new(),
        };
        let text = input.get(field).and_then(Value::as_str).unwrap_or_default().trim();
        let line = escaped(text.lines().next().unwrap_or_default());
        let whole = line.chars().count() <= MAX && text.lines().nth(1).is_none();
        if whole {
            line
        } else if field == "file_path" {
            // The end of a path says more than its beginning.
            format!("...{}", tail(&line, MAX - 3))
        } else {
            format!("{}...", head(&line, MAX - 3))
        }
    }

    /// Whether a call may run beside others: those may that change nothing, and those that cannot be run at all.
    #[must_use]
    pub fn concurrency(call: &ToolUse) -> Concurrency {
        Tool::named(&call.name).map_or(Concurrency::Shared, Tool::concurrency)
    }

    /// Runs a call. Never fails: what goes wrong is an error result, in words by which the model can correct itself.
    ///
    /// A tool that is not open to `access` is refused. When `cancel` fires it comes back soon: at once for what only reads,
    /// after the write for what writes, and after the grace of its processes for a shell command. Background commands are
    /// not ended by it.
    pub async fn run(&self, call: &ToolUse, access: Access, cancel: &CancellationToken) -> ToolResult {
        let (shown, is_error) = match self.answer(call, access, cancel).await {
            Ok(shown) => (shown, false),
            Err(text) => (text.into(), true),
        };
        let result = ToolResult::new(call.id.clone(), middle_out(&shown.text, RESULT), is_error);
        ToolResult { media: shown.media, ..result }
    }

    async fn answer(&self, call: &ToolUse, access: Access, cancel: &CancellationToken) -> Result<Shown, String> {
        let Some(tool) = Tool::named(&call.name) else { return Err(unknown(&call.name, access)) };
        if !access.tools().any(|open| open == tool) {
            return Err(format!(
                "Nothing was run: {} is not open to you, who only reads. The tools are {}.",
                call.name,
                access.names().join(", ")
            ));
        }
        let input = match &call.input {
            ToolInput::Object(input) => input,
            ToolInput::Invalid { raw, problem } => {
                return Err(format!(
                    "Nothing was run: the input of this call is no JSON object: {problem}. It was: {}",
                    middle_out(raw, 500)
                ));
            }
        };
        let arguments = tool.declaration().check(input)?;
        if cancel.is_cancelled() {
            return Err(CANCELLED.into());
        }
        match tool {
            Tool::Read | Tool::Glob | Tool::Grep => self.look(tool, arguments, cancel).await,
            Tool::Write | Tool::Edit => self.change(tool, arguments, cancel).await,
            Tool::Bash => self.bash(call, &arguments, cancel).await.map(Shown::from),
            Tool::TaskOutput => self.background.output(&arguments, cancel).await.map(Shown::from),
            Tool::TaskStop => self.background.stop(&arguments, cancel).await.map(Shown::from),
        }
    }

    async fn bash(&self, call: &ToolUse, arguments: &Arguments, cancel: &CancellationToken) -> Answer {
        let mut shell = tokio::select! {
            shell = self.shell.lock() => shell,
            () = cancel.cancelled() => return Err(CANCELLED.into()),
        };
        self.space.root.check()?;
        if arguments.flag("run_in_background") == Some(true) {
            shell.start(&self.around, &self.background, arguments).await
        } else {
            shell.run(&self.around, &call.id, arguments, cancel).await
        }
    }

    /// Runs what only reads; leaves it to itself when cancelled, which it notices soon.
    async fn look(&self, tool: Tool, arguments: Arguments, cancel: &CancellationToken) -> Result<Shown, String> {
        let (space, token) = (Arc::clone(&self.space), cancel.clone());
        let work = spawn_blocking(move || file_tool(tool, &space, &arguments, &token));
        tokio::select! {
            biased;
            answer = work => answer.unwrap_or_else(|error| Err(fault(error))),
            () = cancel.cancelled() => Err(CANCELLED.into()),
        }
    }

    /// Runs what writes; waits for it in any case, so that nothing changes behind the back of whoever judges.
    async fn change(&self, tool: Tool, arguments: Arguments, cancel: &CancellationToken) -> Result<Shown, String> {
        let turn = tokio::select! {
            turn = Arc::clone(&self.shell).lock_owned() => turn,
            () = cancel.cancelled() => return Err(CANCELLED.into()),
        };
        let (space, token) = (Arc::clone(&self.space), cancel.clone());
        let work = spawn_blocking(move || {
            // Held here, so that it is not given up when the caller is.
            let _turn = turn;
            file_tool(tool, &space, &arguments, &token)
        });
        work.await.unwrap_or_else(|error| Err(fault(error)))
    }
}

fn file_tool(
    tool: Tool,
    space: &Workspace,
    arguments: &Arguments,
    cancel: &CancellationToken,
) -> Result<Shown, String> {
    space.root.check()?;
    let answer = match tool {
        Tool::Read => return read(space, arguments, cancel),
        Tool::Write => write(space, arguments, cancel),
        Tool::Edit => edit(space, arguments, cancel),
        Tool::Glob => glob(space, arguments, cancel),
        Tool::Grep => grep(space, arguments, cancel),
        Tool::Bash | Tool::TaskOutput | Tool::TaskStop => Err(format!("{tool:?} is no file tool.")),
    };
    answer.map(Shown::from)
}

fn unknown(name: &str, access: Access) -> String {
    let names = access.names();
    let hint = nearest(name, &names).map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
    format!("Nothing was run: there is no tool `{}`.{hint} The tools are {}.", one_line(name), names.join(", "))
}

/// What is said of a panic in a tool.
fn fault(error: JoinError) -> String {
    let cause = match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic".into()),
        Err(error) => error.to_string(),
    };
    format!("The tool itself failed ({}). This is a fault of the runner; try another way.", one_line(&cause))
}

#[cfg(test)]
mod tests;
