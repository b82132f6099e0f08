//! What all commands of a job file have in common: how they are started, and what their ends mean.

use super::answer::Answer;
use crate::clean::{clean, tail};
use crate::plan::CommandLine;
use crate::process::{Capture, Command, End, Environment, Finished, run};
use crate::units::show_duration;
use bytes::Bytes;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What of an output goes into reports and to the model: the end, where the errors are.
pub(super) const TAIL: usize = 8 << 10;

/// What is kept of a hook's answer: room for the whole text of a file in a changed input.
const ANSWER: usize = 4 << 20;

/// What the shell reports for a program that it cannot find, and for one that it may not execute.
pub(super) const NOT_FOUND: i32 = 127;
pub(super) const NOT_EXECUTABLE: i32 = 126;

/// SIGKILL, which no test failure sends: somebody, or a full memory, ended the command.
pub(super) const KILLED: i32 = 9;

/// What the shell reports when its command was ended that way.
pub(super) const SHELL_SAW_KILLED: i32 = 128 + KILLED;

/// Runs a command to its end, its whole output to `log`.
pub(super) async fn start(
    line: &CommandLine,
    cwd: &Path,
    env: &Environment,
    limit: Duration,
    log: &Path,
    cancel: &CancellationToken,
) -> Finished {
    let capture = Capture { file: Some(log.to_owned()), ..Capture::default() };
    run(Command { capture, ..Command::new(line.argv(), cwd, env.clone(), limit, cancel.clone()) }).await
}

/// Runs a hook: a command that is told something on its standard input, and answers.
pub(super) async fn ask(
    line: &CommandLine,
    cwd: &Path,
    env: &Environment,
    limit: Duration,
    log: &Path,
    cancel: &CancellationToken,
    input: Bytes,
) -> Finished {
    let mut env = env.clone();
    env.set("CLAUDE_PROJECT_DIR", cwd.to_string_lossy());
    let capture = Capture { file: Some(log.to_owned()), ..Capture::default() };
    let command = Command::new(line.argv(), cwd, env, limit, cancel.clone());
    run(Command { capture, input: Some(input), apart: Some(ANSWER), ..command }).await
}

/// What a hook answered: nothing, when it did not end by itself.
pub(super) fn read(finished: &Finished) -> Answer {
    let (End::Exited(_), Some(streams)) = (&finished.end, &finished.streams) else { return Answer::default() };
    Answer::read(&streams.stdout.text(), streams.stdout.omitted() == 0, &streams.stderr.text())
}

/// How a command ended that did not do what it was for, as a sentence about it.
pub(super) fn failure(end: &End, limit: Duration) -> String {
    match end {
        End::Exited(code) => format!("it ended with exit code {code}{}", meaning(*code)),
        End::Signaled(signal) => format!("it was killed by signal {signal}{}", hint(*signal)),
        End::TimedOut => format!("it did not end within {} and was stopped", show_duration(limit)),
        End::Cancelled => "it was cancelled".to_owned(),
        End::NotStarted { message, .. } => message.clone(),
    }
}

/// What an exit code means by convention, to follow it.
pub(super) const fn meaning(code: i32) -> &'static str {
    match code {
        NOT_FOUND => ": a program was not found",
        NOT_EXECUTABLE => ": a program may not be executed",
        SHELL_SAW_KILLED => ": a program was killed, perhaps for want of memory",
        _ => "",
    }
}

pub(super) const fn hint(signal: i32) -> &'static str {
    if signal == KILLED { ", perhaps for want of memory" } else { "" }
}

/// The end of what it wrote, cleaned.
pub(super) fn last_of(finished: &Finished) -> String {
    let mut text = clean(&finished.output.text());
    if let Some(error) = &finished.output.file_error {
        text.push_str(&format!("\n[the whole output was not kept: {error}]\n"));
    }
    tail(&text, TAIL).to_owned()
}
