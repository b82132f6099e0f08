//! Bash: a shell command in the worktree.
//!
//! Each call is a shell of its own. What it hands to the next one is its working directory, as long as that is in the
//! worktree. What runs in the [background](super::background) takes that over and does not change it. Processes, time limit and output are the business of [`process`](crate::process).

use super::background::{Background, Start};
use super::limit::{count, head, show_bytes};
use super::path::Root;
use super::schema::{Arguments, Declaration, Field, Kind, Need};
use super::workspace::{Answer, CANCELLED};
use crate::clean::{clean, tail};
use crate::process::{Capture, Command, End, Environment, Finished, run};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The time limit of a call that names none, in milliseconds.
const TIMEOUT: i64 = 120_000;
/// The longest time limit, in milliseconds.
pub(super) const MAX_TIMEOUT: i64 = 600_000;
/// The longest command, in bytes: Linux takes 128 KiB for one argument.
const MAX_COMMAND: usize = 120_000;
/// How many bytes of an output are shown.
const INLINE: usize = 30_000;
/// How many of them from its end, where errors stand.
const INLINE_TAIL: usize = 20_000;
/// What is kept in memory of an output. It is more than what is shown since escape sequences take room until they are removed.
pub(super) const KEPT: usize = 64 << 10;
/// What is kept in a file of an output that is not shown whole, in bytes.
pub(super) const FILE: u64 = 64 << 20;

/// The declaration.
pub(super) const BASH: Declaration = Declaration {
    name: "Bash",
    description: "Runs a shell command. The working directory persists between calls while it is in the worktree; variables do not. \
                  No terminal, no input, no editor, no pager. Shows 30,000 bytes of output at most, its beginning and its end. A non-zero \
                  exit code is an error result. All processes end with the call; for a server or a long build set \
                  `run_in_background`.",
    fields: &[
        Field { name: "command", kind: Kind::Text, need: Need::Required, about: "" },
        Field {
            name: "timeout",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Milliseconds. Default 120000, at most 600000.",
        },
        Field { name: "description", kind: Kind::Text, need: Need::Optional, about: "What it is for, in a few words." },
        Field {
            name: "run_in_background",
            kind: Kind::Flag,
            need: Need::Optional,
            about: "Answers at once with a task id; it runs until it ends, TaskStop or the end of the job. 8 at most.",
        },
        Field { name: "dangerouslyDisableSandbox", kind: Kind::Flag, need: Need::Tolerated, about: "" },
    ],
};

/// Runs `$2` and leaves the last working directory in the file `$1`, also when the command exits by itself or ends by an
/// error; neither its exit code nor its own trap is lost. One line, so that line numbers in messages are the command's own.
const WRAPPER: &str = r#"__cwd_file=$1 __command=$2; shift 2; trap '{ command pwd -P >|"$__cwd_file"; } 2>/dev/null' EXIT; eval "$__command"; { __status=$?; command pwd -P >|"$__cwd_file"; (exit "$__status"); } 2>/dev/null"#;

/// What calls hand to each other.
#[derive(Debug)]
pub(super) struct Shell {
    /// The working directory of the next call: in the worktree, but perhaps gone.
    cwd: PathBuf,
    /// The shell that is there.
    program: &'static str,
}

/// What a call needs besides its input.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// The worktree.
    pub(super) root: Root,
    /// The environment of the command.
    pub(super) env: Environment,
    /// The folder for outputs that are not shown whole.
    pub(super) outputs: PathBuf,
}

impl Shell {
    /// A shell that starts in the root of the worktree.
    pub(super) fn new(root: &Root) -> Self {
        Self { cwd: root.path().to_owned(), program: "bash" }
    }

    /// Runs a command. The id names the file that its whole output goes to where it is not shown whole.
    pub(super) async fn run(
        &mut self,
        around: &Surroundings,
        id: &str,
        input: &Arguments,
        cancel: &CancellationToken,
    ) -> Answer {
        let command = input.required("command");
        refuse(command)?;
        let (timeout, mut notes) = time_limit(input.integer("timeout"));
        notes.extend(self.prepare(around).await?);
        let cwd_file = tempfile::Builder::new()
            .prefix(".cwd-")
            .tempfile_in(&around.outputs)
            .map_err(|error| unwritable(&error))?;
        let log = around.outputs.join(log_name(id));
        let finished = loop {
            let argv = [self.program, "-c", WRAPPER, self.program, &cwd_file.path().to_string_lossy(), command];
            let argv = argv.into_iter().map(ToOwned::to_owned).collect();
            let mut call = Command::new(argv, &self.cwd, around.env.clone(), timeout, cancel.clone());
            call.capture = Capture { head: KEPT, tail: KEPT, file: Some(log.clone()), file_limit: FILE };
            let finished = run(call).await;
            match finished.end {
                End::NotStarted { missing: true, .. } if self.program == "bash" => self.program = "sh",
                End::NotStarted { .. } | End::Exited(_) | End::Signaled(_) | End::TimedOut | End::Cancelled => {
                    break finished;
                }
            }
        };
        if let End::Exited(_) = finished.end {
            notes.extend(self.follow(&around.root, cwd_file.path()));
        }
        let text = clean(&finished.output.text());
        let cut = text.len() > INLINE || finished.output.omitted() > 0;
        if !cut {
            // It would say nothing that the transcript does not.
            tokio::fs::remove_file(&log).await.ok();
        }
        let log = log.is_file().then_some(log.as_path());
        let text = show(&text, Given { total: finished.output.total, what: "output", log });
        conclude(text, &finished, timeout, notes)
    }

    /// Starts a command in the background. It takes over the working directory and does not change it.
    pub(super) async fn start(&mut self, around: &Surroundings, background: &Background, input: &Arguments) -> Answer {
        let command = input.required("command");
        refuse(command)?;
        let note = self.prepare(around).await?;
        let Surroundings { env, outputs, .. } = around.clone();
        let start = Start { command, program: self.program, cwd: self.cwd.clone(), env, outputs };
        let text = background.start(start)?;
        Ok(note.map_or(text.clone(), |note| format!("{text}\n[{note}]")))
    }

    /// Sees to it that there is a working directory and a folder for outputs; gives a note where that is not as before.
    async fn prepare(&mut self, around: &Surroundings) -> Result<Option<String>, String> {
        tokio::fs::create_dir_all(&around.outputs).await.map_err(|error| unwritable(&error))?;
        if self.cwd.is_dir() {
            return Ok(None);
        }
        let (gone, root) = (around.root.show(&self.cwd), around.root.path());
        root.clone_into(&mut self.cwd);
        Ok(Some(format!("the working directory {gone} is gone: this ran in {}", root.display())))
    }

    /// Takes over the working directory that a command ended in; gives a note where that is not done.
    fn follow(&mut self, root: &Root, file: &Path) -> Option<String> {
        use std::os::unix::ffi::OsStringExt;
        let mut bytes = std::fs::read(file).ok()?;
        if bytes.pop() != Some(b'\n') {
            return None;
        }
        let real = PathBuf::from(std::ffi::OsString::from_vec(bytes)).canonicalize().ok()?;
        if real.starts_with(root.path()) {
            self.cwd = real;
            return None;
        }
        root.path().clone_into(&mut self.cwd);
        Some(format!("the working directory is {} again: it persists in the worktree only", root.path().display()))
    }
}

fn unwritable(error: &std::io::Error) -> String {
    format!("Nothing was run: cannot write to the run's folder: {error}.")
}

/// Refuses what cannot be run.
fn refuse(command: &str) -> Result<(), String> {
    if command.trim().is_empty() {
        return Err("Nothing was run: the command is empty.".into());
    }
    if command.contains('\0') {
        return Err("Nothing was run: the command contains a NUL character.".into());
    }
    if command.len() > MAX_COMMAND {
        return Err(format!(
            "Nothing was run: the command is {} long, at most {} can be passed to a shell. Write a script with Write and run that.",
            show_bytes(command.len() as u64),
            show_bytes(MAX_COMMAND as u64)
        ));
    }
    Ok(())
}

/// The time limit of a call, and what is to be said about it.
fn time_limit(given: Option<i64>) -> (Duration, Vec<String>) {
    let given = given.unwrap_or(TIMEOUT);
    let (millis, note) = match given {
        ..1 => (TIMEOUT, Some(format!("no call runs without a time limit: {TIMEOUT} ms were taken"))),
        1..=MAX_TIMEOUT => (given, None),
        _ => (MAX_TIMEOUT, Some(format!("the time limit is {MAX_TIMEOUT} ms at most"))),
    };
    (Duration::from_millis(millis.unsigned_abs()), note.into_iter().collect())
}

/// A name for the file of an output, from the model's id of the call, which may hold anything.
fn log_name(id: &str) -> String {
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).take(80).collect();
    format!("bash-{id}.log")
}

/// What a text is that is shown.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// How many bytes it was.
    pub(super) total: u64,
    /// What it is.
    pub(super) what: &'static str,
    /// Where it is kept whole.
    pub(super) log: Option<&'a Path>,
}

/// The output as it is shown.
pub(super) fn show(text: &str, given: Given<'_>) -> String {
    if text.len() <= INLINE {
        return text.trim_end().to_owned();
    }
    let start = head(text, INLINE - INLINE_TAIL);
    let start = start.rfind('\n').filter(|end| start.len() - end < 2_000).map_or(start, |end| &start[..end]);
    let end = tail(text, INLINE_TAIL);
    let place = given.log.map(|log| format!(", kept in {}, which Read and Grep open", log.display()));
    format!(
        "{start}\n[... cut here: {} of {} in all{}. ...]\n{}",
        show_bytes(given.total),
        given.what,
        place.unwrap_or_default(),
        end.trim_end()
    )
}

/// What is to be said of processes that a command left behind.
pub(super) fn leftovers(finished: &Finished) -> Option<String> {
    let ended = matches!(finished.end, End::Exited(_) | End::Signaled(_));
    (ended && finished.leftovers > 0).then(|| {
        let processes = count(finished.leftovers.into(), "process").replace("processs", "processes");
        format!("{processes} still ran when the command ended: killed")
    })
}

/// The result: the output, and how the command ended.
fn conclude(mut text: String, finished: &Finished, timeout: Duration, notes: Vec<String>) -> Answer {
    let mut say = |note: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("[{note}]"));
    };
    for note in notes {
        say(&note);
    }
    if let Some(error) = &finished.output.file_error {
        say(&format!("the whole output was not kept: {error}"));
    }
    if let Some(note) = leftovers(finished) {
        say(&format!("{note}; what is to run on needs `run_in_background`"));
    }
    match &finished.end {
        End::Exited(0) => return Ok(text),
        End::Exited(code) => say(&format!("exit code {code}")),
        End::Signaled(signal) => say(&format!("killed by signal {signal}")),
        End::TimedOut => say(&format!(
            "timed out after {} ms: all its processes were killed; `timeout` can be {MAX_TIMEOUT} at most",
            timeout.as_millis()
        )),
        End::Cancelled => say(CANCELLED),
        End::NotStarted { message, .. } => say(&format!("the shell could not be started, nothing was run: {message}")),
    }
    Err(text)
}

#[cfg(test)]
mod tests;
