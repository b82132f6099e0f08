//! `transcript.jsonl` of a job: append-only, one message a line, on disk before the loop goes on.

use super::file::{Files, Lines};
use crate::error::{Error, Result};
use crate::event::JobReport;
use crate::outcome::Transition;
use crate::query::{AgentId, Message, Saved};
use crate::report::json::{self, Given, Stand, TranscriptMeta};
use crate::units::{Elapsed, Turns, Usage, Usd};
use std::fs::{self, OpenOptions};
use std::path::Path;

/// A transcript that is being written.
#[derive(Debug)]
pub struct Transcript {
    lines: Lines,
}

impl Transcript {
    /// Begins it with the line that says what it is about.
    ///
    /// # Errors
    /// Names the path.
    pub fn create(files: &Files, path: &Path, meta: &TranscriptMeta<'_>) -> Result<Self> {
        let mut lines = files.lines(path)?;
        lines.write(&json::meta_line(meta))?;
        Ok(Self { lines })
    }

    /// Goes on with one of which so many bytes can be read, at a savepoint; what is torn goes to a file beside it.
    ///
    /// # Errors
    /// Names the path.
    pub fn reopen(files: &Files, path: &Path, whole: usize, at: Elapsed, savepoint: usize) -> Result<Self> {
        let cut = || {
            let bytes = fs::read(path)?;
            if let Some(torn) = bytes.get(whole..).filter(|torn| !torn.is_empty()) {
                use std::io::Write;
                let aside = path.with_extension("torn");
                OpenOptions::new().append(true).create(true).open(aside)?.write_all(torn)?;
                OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
            }
            Ok(())
        };
        cut().map_err(|error: std::io::Error| Error::io("go on with", path, &error))?;
        let mut lines = files.lines(path)?;
        lines.write(&json::resumed_line(at, savepoint))?;
        Ok(Self { lines })
    }

    /// Adds what the agent is given.
    ///
    /// # Errors
    /// Names the path.
    pub fn started(&mut self, at: Elapsed, given: &Given) -> Result<()> {
        self.lines.write(&json::started_line(at, given))
    }

    /// Adds a place from which the conversation can go on.
    ///
    /// # Errors
    /// Names the path.
    pub fn savepoint(
        &mut self,
        at: Elapsed,
        transition: Option<Transition>,
        stand: &Stand,
        saved: &Saved,
        report: &JobReport,
    ) -> Result<()> {
        self.lines.write(&json::savepoint_line(at, transition, stand, saved, report))
    }

    /// Adds that the files of the last savepoint are kept.
    ///
    /// # Errors
    /// Names the path.
    pub fn checkpoint(&mut self, at: Elapsed, tree: &str) -> Result<()> {
        self.lines.write(&json::checkpoint_line(at, tree))
    }

    /// Adds what the model calls have come to.
    ///
    /// # Errors
    /// Names the path.
    pub fn books(&mut self, at: Elapsed, calls: u32, usage: &Usage, spent: Usd) -> Result<()> {
        self.lines.write(&json::books_line(at, calls, usage, spent))
    }

    /// Adds that the conversation has ended; the report holds the terminal.
    ///
    /// # Errors
    /// Names the path.
    pub fn ended(&mut self, at: Elapsed, stand: &Stand, report: &JobReport) -> Result<()> {
        self.lines.write(&json::ended_line(at, stand, report))
    }

    /// Adds a message, whole.
    ///
    /// # Errors
    /// Names the path.
    pub fn message(&mut self, at: Elapsed, agent: AgentId, message: &Message) -> Result<()> {
        self.lines.write(&json::message_line(at, agent, message))
    }

    /// Adds that a summary took the place of a part of the conversation.
    ///
    /// # Errors
    /// Names the path.
    pub fn compaction(&mut self, at: Elapsed, agent: AgentId, summary: u64, kept_from: Option<u64>) -> Result<()> {
        self.lines.write(&json::compaction_line(at, agent, summary, kept_from))
    }

    /// Adds what an accepted response used.
    ///
    /// # Errors
    /// Names the path.
    pub fn turn(&mut self, at: Elapsed, turn: Turns, usage: &Usage, cost: Usd, request_id: Option<&str>) -> Result<()> {
        self.lines.write(&json::turn_line(at, turn, usage, cost, request_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Block, Origin, Role};
    use crate::report::redact::Secret;
    use crate::units::{JobId, RunId};

    #[test]
    fn every_line_is_on_disk_at_once_and_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcript.jsonl");
        let files = Files::new(&[Secret { name: "KEY".into(), value: "pass\"word\"1".into() }]);
        let (run, job) = (RunId("r".into()), JobId::new("j").unwrap());
        let meta = TranscriptMeta {
            run: &run,
            job: &job,
            version: "0.1.0",
            model: "m",
            system: "s",
            tools: vec![],
            base: None,
            branch: None,
            worktree: None,
        };
        let mut transcript = Transcript::create(&files, &path, &meta).unwrap();
        let kinds = || {
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.ends_with('\n'));
            text.lines()
                .map(|line| {
                    serde_json::from_str::<serde_json::Value>(line).unwrap()["kind"].as_str().unwrap().to_owned()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(), ["meta"]);
        let message = Message {
            id: 1,
            role: Role::User,
            origin: Origin::Prompt,
            blocks: vec![Block::Text("use pass\"word\"1\nplease".into())],
        };
        transcript.message(Elapsed::from_millis(1), AgentId::JOB, &message).unwrap();
        assert_eq!(kinds(), ["meta", "message"]);
        transcript.turn(Elapsed::from_millis(2), Turns(1), &Usage::default(), Usd::ZERO, None).unwrap();
        assert_eq!(kinds(), ["meta", "message", "turn"]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(r"use [redacted:KEY]\nplease"), "{text}");
    }
}
