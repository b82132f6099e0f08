//! What a job goes on from: the transcript that another process has left.

use crate::report::json::Given;
use crate::report::json::read::{Stage, Taped, transcript};
use std::fs;
use std::path::{Path, PathBuf};

/// A job that another process had begun.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// What the transcript tells; `None` when the conversation had not begun, or cannot be gone on with.
    pub(super) talk: Option<Box<Talk>>,
    /// Why there is less than there could be, in words.
    pub(super) notes: Vec<String>,
}

/// A conversation that can be gone on with.
#[derive(Debug)]
pub(super) struct Talk {
    /// The transcript's file.
    pub(super) file: PathBuf,
    /// How many bytes of it can be read.
    pub(super) whole: usize,
    /// The commit that the work started from.
    pub(super) base: String,
    /// What the agent was given.
    pub(super) given: Given,
    /// Where to go on.
    pub(super) stage: Stage,
}

impl Past {
    /// Reads it from a job's folder.
    pub(super) fn read(folder: &Path) -> Self {
        Self::of(folder, false)
    }

    /// The worktree is lost: what can be gone on from without it.
    pub(super) fn without_worktree(&mut self, folder: &Path) {
        let Self { talk, notes } = Self::of(folder, true);
        self.talk = talk;
        self.notes.extend(notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>());
    }

    fn of(folder: &Path, only_kept: bool) -> Self {
        let file = folder.join("transcript.jsonl");
        let mut past = Self::default();
        let text = match fs::read(&file) {
            Ok(bytes) => String::from_utf8(bytes).unwrap_or_else(|error| {
                let whole = error.utf8_error().valid_up_to();
                String::from_utf8_lossy(&error.as_bytes()[..whole]).into_owned()
            }),
            Err(_) => return past,
        };
        match transcript(&text, only_kept) {
            Ok(taped) => past.take(file, taped),
            Err(problem) => past.notes.push(format!("its transcript cannot be read, so it begins anew: {problem}")),
        }
        past
    }

    fn take(&mut self, file: PathBuf, taped: Taped) {
        self.notes.extend(taped.trouble);
        if taped.set_aside > 0 {
            self.notes.push(format!(
                "{} lines of the transcript after the last savepoint are set aside; a call that was under way may have been paid for",
                taped.set_aside
            ));
        }
        match (taped.base, taped.given, taped.stage) {
            (Some(base), Some(given), Some(stage)) => {
                self.talk = Some(Box::new(Talk { file, whole: taped.whole, base, given, stage }));
            }
            _ => self.notes.push("it had not asked the model yet, so it begins anew".into()),
        }
    }

    /// The conversation cannot be gone on with after all.
    pub(super) fn give_up(&mut self, why: &str) {
        self.talk = None;
        self.notes.push(format!("{why}, so it begins anew"));
    }
}

/// Puts the transcript of a conversation that is begun anew aside, so that one file tells one conversation.
pub(super) fn put_aside(folder: &Path) {
    let file = folder.join("transcript.jsonl");
    let aside =
        (1..=u32::MAX).map(|number| file.with_extension(format!("{number}.jsonl"))).find(|place| !place.exists());
    if let Some(aside) = aside.filter(|_| file.exists()) {
        // Failing, the new one is written behind the old one, which readers take as one that was set aside.
        drop(fs::rename(&file, aside));
    }
}
