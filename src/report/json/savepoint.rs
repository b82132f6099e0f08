//! The lines of a transcript from which a job goes on in another process: `started`, `savepoint`, `checkpoint`, `books`, `ended`,
//! `resumed`.

use super::result::result_file;
use super::value::{self, UsageValue};
use crate::event::JobReport;
use crate::outcome::Transition;
use crate::query::Saved;
use crate::units::{Elapsed, RunId, Usage, Usd};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What the agent was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The id of the tree.
    pub tree: String,
    /// Ignored files at protected places that were there.
    pub ignored: BTreeSet<PathBuf>,
    /// Settings of git that decide what is stored of a file.
    pub pinned: BTreeMap<String, String>,
}

/// Where the files of a job stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// The id of the tree; `None`: a checkpoint says it later, and until then the files stay as they are.
    pub tree: Option<String>,
    /// The tree when the agent was last given its turn.
    pub given: String,
    /// The agent has changed something before that.
    pub by_agent: bool,
}

#[derive(Serialize)]
struct StartedLine<'a> {
    kind: &'a str,
    at: f64,
    #[serde(flatten)]
    given: &'a Given,
}

#[derive(Serialize)]
struct SavepointLine<'a> {
    kind: &'a str,
    at: f64,
    transition: Option<&'a str>,
    stand: &'a Stand,
    saved: &'a Saved,
    report: Value,
}

#[derive(Serialize)]
struct CheckpointLine<'a> {
    kind: &'a str,
    at: f64,
    tree: &'a str,
}

#[derive(Serialize)]
struct BooksLine<'a> {
    kind: &'a str,
    at: f64,
    calls: u32,
    usage: UsageValue,
    /// In pico-dollars, as caps are kept exactly.
    spent: Usd,
}

#[derive(Serialize)]
struct EndedLine<'a> {
    kind: &'a str,
    at: f64,
    stand: &'a Stand,
    report: Value,
}

#[derive(Serialize)]
struct ResumedLine<'a> {
    kind: &'a str,
    at: f64,
    savepoint: usize,
}

/// What the agent is given, as one line, without its newline.
#[must_use]
pub fn started_line(at: Elapsed, given: &Given) -> String {
    value::line(&StartedLine { kind: "started", at: value::at(at), given })
}

/// A place from which the conversation can go on, as one line, without its newline. Until its checkpoint is there, nothing changes the
/// files.
#[must_use]
pub fn savepoint_line(
    at: Elapsed,
    transition: Option<Transition>,
    stand: &Stand,
    saved: &Saved,
    report: &JobReport,
) -> String {
    value::line(&SavepointLine {
        kind: "savepoint",
        at: value::at(at),
        transition: transition.map(Transition::code),
        stand,
        saved,
        report: unfinished(report),
    })
}

/// The files of the last savepoint are kept, as one line, without its newline.
#[must_use]
pub fn checkpoint_line(at: Elapsed, tree: &str) -> String {
    value::line(&CheckpointLine { kind: "checkpoint", at: value::at(at), tree })
}

/// What the model calls have come to by now, as one line, without its newline.
#[must_use]
pub fn books_line(at: Elapsed, calls: u32, usage: &Usage, spent: Usd) -> String {
    value::line(&BooksLine { kind: "books", at: value::at(at), calls, usage: usage.into(), spent })
}

/// The end of the conversation, as one line, without its newline: what is left is to judge. The report holds the terminal.
#[must_use]
pub fn ended_line(at: Elapsed, stand: &Stand, report: &JobReport) -> String {
    value::line(&EndedLine { kind: "ended", at: value::at(at), stand, report: unfinished(report) })
}

/// The conversation goes on from a savepoint, counted from 1, as one line, without its newline: what was said since then is set aside.
#[must_use]
pub fn resumed_line(at: Elapsed, savepoint: usize) -> String {
    value::line(&ResumedLine { kind: "resumed", at: value::at(at), savepoint })
}

/// A report without the transitions, which the lines tell one by one.
fn unfinished(report: &JobReport) -> Value {
    let report = JobReport { transitions: Vec::new(), ..report.clone() };
    serde_json::from_str(&result_file(&RunId(String::new()), &report)).unwrap_or_default()
}
