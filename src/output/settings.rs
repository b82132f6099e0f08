//! What the reports of a run depend on.

use super::github::GithubFiles;
use super::screen::Format;
use crate::event::RunInfo;
use crate::report::paint::{ColorChoice, Tty};
use crate::report::plain::Detail;
use crate::report::redact::Secret;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All that the reports of a run depend on, as plain values.
#[derive(Clone, Debug)]
pub struct SinkSettings {
    /// The run; its folder is made by [`Sink::open`](super::Sink::open).
    pub run: RunInfo,
    /// The run goes on: its folder is there.
    pub goes_on: bool,
    /// The common git folder, whose `info/exclude` is to name `.runner/`; `None` outside of a repository.
    pub git_dir: Option<PathBuf>,
    /// What the run was told, by name, for `run.json`.
    pub settings: BTreeMap<String, String>,
    /// What is needed to go on with it, for `run.json`.
    pub plan: serde_json::Value,
    /// A second place for `junit.xml`.
    pub junit_extra: Option<PathBuf>,
    /// A second place for the events.
    pub events_extra: Option<EventsTo>,
    /// How the run is told.
    pub format: Format,
    /// How much is told.
    pub detail: Detail,
    /// What the person said about colour.
    pub color: ColorChoice,
    /// What is known about standard output.
    pub stdout: Tty,
    /// What is known about standard error.
    pub stderr: Tty,
    /// The columns of the terminal; `None` where they are not known.
    pub width: Option<usize>,
    /// Set inside GitHub Actions.
    pub github: Option<GithubFiles>,
    /// Variables whose values are written nowhere.
    pub secrets: Vec<Secret>,
}

/// A second place for the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventsTo {
    /// Standard output, which then carries nothing else.
    Stdout,
    /// A file; what it holds is replaced.
    File(PathBuf),
}
