//! `transcript.jsonl` of a job: append-only, one message a line, on disk before the loop goes on.

use super::file::{Files, Lines};
use crate::error::Result;
use crate::query::{AgentId, Message};
use crate::report::json::{self, TranscriptMeta};
use crate::units::{Elapsed, Turns, Usage, Usd};
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
            let text = std::fs::read_to_string(&path).unwrap();
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
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(r"use [redacted:KEY]\nplease"), "{text}");
    }
}
