//! Hands every event to whoever reports, and keeps a run's files up to date.

use super::console::{Console, Reader};
use super::file::{Files, Lines, is_special};
use super::folder::{self, RunFolder};
use super::github::{self, GithubFiles};
use super::html;
use super::screen::{Format, Screen, Stdout, TableStyle};
use super::settings::{EventsTo, SinkSettings};
use crate::error::Result;
use crate::event::{RunEvent, RunEventKind};
use crate::report::json;
use crate::report::junit::Junit;
use crate::report::paint::Paint;
use crate::report::plain::Detail;
use crate::report::summary::{self, Summary};
use crate::report::tally::{RunStats, Warning};
use crate::units::{Elapsed, JobId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Takes the events of a run, in order, from one task.
#[derive(Debug)]
pub struct Sink {
    files: Files,
    folder: RunFolder,
    stats: RunStats,
    junit: Junit,
    summary: Summary,
    settings: BTreeMap<String, String>,
    told_in: BTreeMap<JobId, PathBuf>,
    plan: serde_json::Value,
    junit_extra: Option<PathBuf>,
    events: Vec<Lines>,
    github: Option<GithubFiles>,
    screen: Screen,
    warned: BTreeSet<String>,
    warnings: Vec<String>,
}

impl Sink {
    /// The columns of a table where no terminal tells them.
    const WIDTH: usize = 120;

    /// Makes the run folder, and writes the first reports: a run whose reports cannot be written does not begin.
    ///
    /// # Errors
    /// Names the path that cannot be made or written.
    pub fn open(settings: SinkSettings) -> Result<Self> {
        let reader = if settings.github.is_some() { Reader::Github } else { Reader::Plain };
        let files = Files::new(&settings.secrets);
        let console = Console::new(files.clone(), reader);
        Self::open_on(settings, files, console)
    }

    fn open_on(settings: SinkSettings, files: Files, console: Console) -> Result<Self> {
        let run = files.redactor().run(&settings.run);
        let ids = run.jobs.iter().map(|job| &job.id);
        let folder =
            if settings.goes_on { RunFolder::reopen(&run.folder, ids)? } else { RunFolder::create(&run.folder, ids)? };
        let screen = screen(&settings, &files, console);
        let mut events = vec![files.lines(&folder.file("events.jsonl"))?];
        if let Some(EventsTo::File(path)) = &settings.events_extra {
            if !is_special(path) {
                files.replace(path, "")?;
            }
            events.push(files.lines(path)?);
        }
        let mut sink = Self {
            stats: RunStats::new(run.clone()),
            junit: Junit::new(run),
            summary: Summary::default(),
            settings: settings.settings,
            told_in: BTreeMap::new(),
            plan: settings.plan,
            junit_extra: settings.junit_extra,
            events,
            github: settings.github,
            screen,
            warned: BTreeSet::new(),
            warnings: Vec::new(),
            files,
            folder,
        };
        if let Some(git_dir) = &settings.git_dir {
            let result = folder::exclude(git_dir);
            sink.check(result);
        }
        if !settings.goes_on {
            // What a run that goes on has written stays until there is more to say.
            sink.write_junit()?;
            sink.write_summary()?;
        }
        sink.write_run()?;
        Ok(sink)
    }

    /// Where the run's files are.
    #[must_use]
    pub const fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The door through which other files of the run are written, transcripts among them.
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// What the run has come to so far.
    #[must_use]
    pub const fn stats(&self) -> &RunStats {
        &self.stats
    }

    /// How often [`Sink::tick`] wants to be called: often enough for a live screen, seldom otherwise.
    #[must_use]
    pub const fn tick_every(&self) -> Duration {
        if self.screen.is_live() { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    /// Takes an event. It never fails: what cannot be written becomes a warning, once for each kind of trouble.
    pub fn handle(&mut self, event: &RunEvent) {
        let event = &self.files.redactor().event(event);
        self.stats.apply(event);
        if matches!(event.kind, RunEventKind::Progress(_)) {
            // The next tick shows it, where there is a live screen; it is written nowhere.
            return;
        }
        self.junit.apply(event);
        self.summary.apply(&self.stats.run.shown_folder, event);
        let line = json::event_line(event);
        let written: Vec<Result<()>> = self.events.iter_mut().map(|events| events.write(&line)).collect();
        for result in written {
            self.check(result);
        }
        match &event.kind {
            RunEventKind::JobFinished(report) => {
                let result = json::result_file(&self.stats.run.id, report);
                let written = self.files.replace(&self.folder.result(&report.info.id), &result);
                self.check(written);
                self.write_reports();
            }
            RunEventKind::RunFinished { .. } => {
                self.write_reports();
                let written = self.write_html();
                self.check(written);
                self.write_github();
                let written = self.write_run();
                self.check(written);
            }
            RunEventKind::RunStarted(_)
            | RunEventKind::JobStarted
            | RunEventKind::Phase(_)
            | RunEventKind::ModelCalled { .. }
            | RunEventKind::Retrying { .. }
            | RunEventKind::Turn { .. }
            | RunEventKind::Progress(_)
            | RunEventKind::ToolStarted { .. }
            | RunEventKind::ToolFinished { .. }
            | RunEventKind::GateStarted { .. }
            | RunEventKind::GateFinished { .. }
            | RunEventKind::Continued(_)
            | RunEventKind::InputStarted(_)
            | RunEventKind::InputCompleted(_)
            | RunEventKind::Loop(_)
            | RunEventKind::Note(_)
            | RunEventKind::Warning(_)
            | RunEventKind::Interrupted(_) => {}
        }
        self.screen.handle(event, &self.stats);
    }

    /// Takes over an event that an earlier process has told: reports know it, nobody is told again.
    pub fn take_up(&mut self, event: &RunEvent) {
        let event = &self.files.redactor().event(event);
        self.stats.apply(event);
        self.junit.apply(event);
        self.summary.apply(&self.stats.run.shown_folder, event);
    }

    /// The events of a job are told by those of another run, whose folder this is.
    pub fn told_in(&mut self, job: &JobId, folder: &Path) {
        self.told_in.insert(job.clone(), folder.to_owned());
    }

    /// Says something to whoever watches, and to nobody else.
    pub fn say(&mut self, text: &str) {
        let text = self.files.redacted(text);
        self.screen.say(self.stats.now, &text);
    }

    /// Lets the screen move while nothing happens.
    pub fn tick(&mut self, now: Elapsed) {
        self.screen.tick(&self.stats, now);
    }

    /// Ends it. The warnings are those about the run's own reports that could not be written; they were shown when they came up.
    #[must_use]
    pub fn finish(mut self) -> Vec<String> {
        self.screen.close();
        std::mem::take(&mut self.warnings)
    }

    fn write_reports(&mut self) {
        let written = self.write_junit();
        self.check(written);
        let written = self.write_summary();
        self.check(written);
    }

    fn write_junit(&self) -> Result<()> {
        let text =
            self.junit.document().map_err(|problem| crate::error::Error::new(crate::error::Kind::Internal, problem))?;
        self.files.replace(&self.folder.file("junit.xml"), &text)?;
        match &self.junit_extra {
            // What is no file has room for one document: the last.
            Some(path) if is_special(path) && self.stats.exit.is_none() => Ok(()),
            Some(path) => self.files.replace(path, &text),
            None => Ok(()),
        }
    }

    fn write_summary(&self) -> Result<()> {
        let text = self.summary.render(&self.stats, summary::MAX);
        self.files.replace(&self.folder.file("summary.md"), &text)
    }

    /// The page is made once, at the end, as it reads what every job has left.
    fn write_html(&self) -> Result<()> {
        html::write_html(&self.files, &self.folder, &self.stats, &self.told_in)
    }

    fn write_run(&self) -> Result<()> {
        self.files.replace(&self.folder.file("run.json"), &json::run_file(&self.stats, &self.settings, &self.plan))
    }

    /// Tells GitHub. A page that could not be written is shown as a warning and changes nothing else: the run's own reports
    /// are whole.
    fn write_github(&mut self) {
        let Some(github) = self.github.clone() else { return };
        let mut results = Vec::new();
        if let Some(path) = &github.summary {
            results.push(github::write_summary(&self.files, path, &self.summary, &self.stats));
        }
        if let Some(path) = &github.output {
            results.push(github::write_outputs(&self.files, path, &self.stats, &self.folder));
        }
        for error in results.into_iter().filter_map(Result::err) {
            self.warn(error.to_string());
        }
    }

    fn check(&mut self, result: Result<()>) {
        if let Err(error) = result
            && self.warn(error.to_string())
        {
            self.warnings.push(error.to_string());
        }
    }

    /// Shows a warning once: a full disk would otherwise say so at every event. Says whether it is new.
    fn warn(&mut self, text: String) -> bool {
        let is_new = self.warned.insert(text.clone());
        if is_new {
            self.screen.warn(self.stats.now, &text);
            self.stats.warnings.push(Warning { job: None, text });
        }
        is_new
    }
}

fn screen(settings: &SinkSettings, files: &Files, console: Console) -> Screen {
    let width = settings.width.unwrap_or(Sink::WIDTH);
    let json = settings.format == Format::Json;
    let stdout = if json || settings.events_extra == Some(EventsTo::Stdout) { Stdout::Events } else { Stdout::Free };
    let detail = if json && settings.detail != Detail::Verbose { Detail::Quiet } else { settings.detail };
    let table_terminal = match stdout {
        Stdout::Free => settings.stdout,
        Stdout::Events => settings.stderr,
    };
    let style = TableStyle { paint: Paint::decide(settings.color, table_terminal), width };
    let table = (!json && detail != Detail::Quiet).then_some(style);
    let paint = Paint::decide(settings.color, settings.stderr);
    let screen = Screen::plain(console, detail, stdout, table, paint);
    let moves = settings.stderr.is_terminal && !settings.stderr.dumb && settings.github.is_none();
    match (settings.format, detail) {
        (Format::Pretty, Detail::Milestones | Detail::Normal | Detail::Verbose) if moves => {
            screen.live(files.clone(), width)
        }
        (Format::Pretty | Format::Plain | Format::Json, _) => screen,
    }
}

#[cfg(test)]
mod tests;
