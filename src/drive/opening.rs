//! Opens a conversation: the system prompt, and the first message with the project's context files.
//!
//! The system prompt is the same for every job, so that a provider's prompt cache serves a whole batch.

use crate::plan::PlannedJob;
use std::path::Path;

/// The system prompt.
pub(super) const SYSTEM_PROMPT: &str = "\
You are a software engineer who works unattended in a git worktree. Nobody answers questions: decide for yourself, and state \
assumptions in your last message.

- Work with the tools. Look at the code before you change it, and change no more than the task needs.
- The working directory is the root of the worktree. Paths are relative to it or absolute inside it; nothing outside it can be \
changed.
- Commands run without a terminal and without input. Processes left in the background end with their \
call, unless they were started with run_in_background; those end with the job.
- Do not commit, push or switch branches: your changes are collected when you finish.
- When you are done, answer in a few sentences without calling a tool. Checks may then run; if one is red, you get its output \
and go on. Only the checks decide whether the work is good, so do not weaken or bypass them.";

/// The system prompt of a sub-agent that can only look.
pub(super) const EXPLORE_PROMPT: &str = "\
You explore a code base for another engineer, in a git worktree. You can look at files and change nothing. Nobody answers questions. \
Search broadly, read what matters, and answer in your last message with what was asked for, exact paths and line numbers included. \
The other engineer sees that message alone.";

/// The system prompt of a sub-agent that has every tool.
pub(super) const GENERAL_PROMPT: &str = "\
You do a part of the work of another engineer, unattended, in a git worktree. Nobody answers questions. Look at the code before you \
change it, and change no more than your task needs. Do not commit, push or switch branches. Say in your last message what you did, \
which files you changed, and what is left. The other engineer sees that message alone.";

/// The most of one context file that goes into the first message, in bytes: about 16,000 tokens.
const CONTEXT_FILE_LIMIT: usize = 40_000;

/// What was read for the first message.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// Its text blocks: context files, then the task.
    pub(super) blocks: Vec<String>,
    /// What a reader of the report should know: a file cut short or not readable.
    pub(super) notes: Vec<String>,
}

/// Reads the context files of the worktree and puts the task behind them.
pub(super) fn open(job: &PlannedJob, root: &Path) -> Opening {
    let mut opening = Opening::default();
    for name in &job.context_files {
        match context_file(root, name) {
            Ok(None) => {}
            Ok(Some((text, note))) => {
                opening.blocks.push(format!("<context_file path=\"{name}\">\n{}\n</context_file>", text.trim_end()));
                opening.notes.extend(note);
            }
            Err(problem) => opening.notes.push(format!("context file {name} was left out: {problem}")),
        }
    }
    let protected = if job.protect.is_empty() {
        String::new()
    } else {
        format!(
            "\n\nThese paths are protected; changes to them are undone before the checks run: {}",
            job.protect.join(", ")
        )
    };
    opening.blocks.push(format!("{}{protected}", job.prompt.trim_end()));
    opening
}

fn context_file(root: &Path, name: &str) -> Result<Option<(String, Option<String>)>, String> {
    let path = root.join(name);
    let Ok(real) = path.canonicalize() else { return Ok(None) };
    let inside = root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if !inside {
        return Err("it lies outside the worktree".into());
    }
    if !real.is_file() {
        return Err("it is no regular file".into());
    }
    let bytes = std::fs::read(&real).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.len() <= CONTEXT_FILE_LIMIT {
        return Ok(Some((text.into_owned(), None)));
    }
    let end = text.floor_char_boundary(CONTEXT_FILE_LIMIT);
    let note = format!("context file {name} was cut to its first {end} of {} bytes", text.len());
    Ok(Some((format!("{}\n[cut here: the file has {} bytes]", &text[..end], text.len()), Some(note))))
}
