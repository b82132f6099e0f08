//! What commands say outside a run: the plan on standard output, findings and errors on standard error.
//!
//! A closed pipe is no error: the reader has seen enough.

use crate::cli::Color;
use crate::exit::ExitStatus;
use crate::load::{Failure, Snapshot};
use crate::report::paint::{ColorChoice, Paint as Colors, Tty};
use crate::spec::{Diagnostic, Paint, render_all};
use std::io::Write;

/// A result, on standard output.
pub(super) fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// An error or a warning, on standard error, with its newline.
pub(super) fn error(report: &str) {
    drop(std::io::stderr().lock().write_all(report.as_bytes()));
}

/// What was found about job files, on standard error.
pub(super) fn findings(found: &[Diagnostic], color: Color, snapshot: &Snapshot) {
    if !found.is_empty() {
        error(&render_all(found, paint(color, snapshot)));
    }
}

/// Why there is no plan, on standard error; gives back how the process ends.
pub(super) fn failure(failure: &Failure, color: Color, snapshot: &Snapshot) -> ExitStatus {
    error(&failure.report(paint(color, snapshot)));
    failure.exit()
}

/// What the person said about colour.
pub(super) const fn color(color: Color) -> ColorChoice {
    match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
}

/// What is known about a stream.
pub(super) fn terminal(snapshot: &Snapshot, is_terminal: bool) -> Tty {
    Tty {
        is_terminal,
        no_color: snapshot.variable("NO_COLOR").is_some(),
        clicolor_force: snapshot.variable("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
        dumb: snapshot.variable("TERM") == Some("dumb"),
    }
}

/// The columns of the terminal, where there is one.
pub(super) fn width(snapshot: &Snapshot) -> Option<usize> {
    let size = |is_terminal: bool, stream| is_terminal.then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten();
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let size = size(snapshot.stdout_is_terminal, rustix::fd::AsFd::as_fd(&out))
        .or_else(|| size(snapshot.stderr_is_terminal, rustix::fd::AsFd::as_fd(&err)));
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn paint(choice: Color, snapshot: &Snapshot) -> Paint {
    match Colors::decide(color(choice), terminal(snapshot, snapshot.stderr_is_terminal)) {
        Colors::Colored => Paint::Colour,
        Colors::Plain => Paint::Plain,
    }
}
