//! What the person sees while a run goes on, and at its end.

use super::console::{Console, Stream};
use super::file::Files;
use super::live::Live;
use crate::event::{RunEvent, RunEventKind};
use crate::report::paint::Paint;
use crate::report::plain::{self, Detail, HEARTBEAT};
use crate::report::tally::RunStats;
use crate::report::{github, json, table};
use crate::units::Elapsed;

/// How a run is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Live on a terminal, plain lines elsewhere; a table at the end.
    #[default]
    Pretty,
    /// Plain lines; a table at the end.
    Plain,
    /// Events as lines of JSON on standard output, no table.
    Json,
}

/// Whether standard output belongs to the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stdout {
    /// Results for people go there.
    Free,
    /// Lines of JSON go there, and nothing else.
    Events,
}

#[derive(Debug)]
enum Mode {
    Live(Box<Live>),
    Plain { said: Elapsed },
}

/// The console and how it is used.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) console: Console,
    mode: Mode,
    detail: Detail,
    stdout: Stdout,
    table: Option<TableStyle>,
    progress_paint: Paint,
    in_group: bool,
}

/// How the table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableStyle {
    /// Its colours.
    pub(super) paint: Paint,
    /// The columns that it may take.
    pub(super) width: usize,
}

impl Screen {
    /// Plain lines; without a table at the end where none is given.
    pub(super) fn plain(
        console: Console,
        detail: Detail,
        stdout: Stdout,
        table: Option<TableStyle>,
        progress_paint: Paint,
    ) -> Self {
        let mode = Mode::Plain { said: Elapsed::default() };
        Self { console, mode, detail, stdout, table, progress_paint, in_group: false }
    }

    /// With live lines on standard error, which is a terminal.
    pub(super) fn live(mut self, files: Files, width: usize) -> Self {
        self.mode = Mode::Live(Box::new(Live::new(files, self.progress_paint, width)));
        self
    }

    /// Whether it moves.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.mode, Mode::Live(_))
    }

    /// Shows an event. `stats` has taken note of it already.
    pub(super) fn handle(&mut self, event: &RunEvent, stats: &RunStats) {
        if self.stdout == Stdout::Events {
            self.console.json(Stream::Out, &json::event_line(event));
        }
        if matches!(event.kind, RunEventKind::RunStarted(_)) && self.detail != Detail::Quiet {
            self.console.command(Stream::Err, &github::group(&format!("runner {}", stats.run.id)));
            self.in_group = true;
        }
        let detail = match &self.mode {
            Mode::Live(_) if self.detail == Detail::Normal => Detail::Milestones,
            Mode::Live(_) | Mode::Plain { .. } => self.detail,
        };
        if let Some(line) = plain::line(event, detail, self.progress_paint) {
            self.say(event.at, &line);
        }
        match &mut self.mode {
            Mode::Live(live) => live.draw(stats, event.at),
            Mode::Plain { .. } => {}
        }
        if matches!(event.kind, RunEventKind::RunFinished { .. }) {
            self.end(stats);
        }
    }

    /// Shows a warning of our own.
    pub(super) fn warn(&mut self, at: Elapsed, text: &str) {
        self.say(at, &format!("warning: {text}"));
    }

    /// Lets the live lines move, and breaks a long silence.
    pub(super) fn tick(&mut self, stats: &RunStats, now: Elapsed) {
        let silent_since = match &mut self.mode {
            Mode::Live(live) => return live.draw(stats, now),
            Mode::Plain { said } => *said,
        };
        let speaks = match self.detail {
            Detail::Quiet => false,
            Detail::Milestones | Detail::Normal | Detail::Verbose => true,
        };
        if speaks
            && now.since(silent_since) >= HEARTBEAT
            && let Some(line) = plain::heartbeat(stats, now)
        {
            self.say(now, &line);
        }
    }

    /// Takes the live lines off the screen, where the run did not come to its end.
    pub(super) fn close(&mut self) {
        match &mut self.mode {
            Mode::Live(live) => live.clear(),
            Mode::Plain { .. } => {}
        }
        if std::mem::take(&mut self.in_group) {
            self.console.command(Stream::Err, github::END_GROUP);
        }
    }

    /// Shows a line.
    pub(super) fn say(&mut self, at: Elapsed, line: &str) {
        match &mut self.mode {
            Mode::Live(screen) => screen.above(line),
            Mode::Plain { said } => {
                *said = at.max(*said);
                self.console.text(Stream::Err, &format!("{line}\n"));
            }
        }
    }

    fn end(&mut self, stats: &RunStats) {
        self.close();
        let stream = match self.stdout {
            Stdout::Free => Stream::Out,
            Stdout::Events => Stream::Err,
        };
        if let Some(style) = self.table {
            self.console.text(stream, &table::render(stats, style.width, style.paint));
        }
        for line in github::annotations(stats) {
            self.console.command(stream, &line);
        }
    }
}
