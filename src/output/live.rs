//! The live screen of a terminal: a line for the run, a line for each running job; what is done scrolls away above.

use super::file::Files;
use crate::report::paint::Paint;
use crate::report::progress;
use crate::report::tally::RunStats;
use crate::units::{Elapsed, JobId};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;

/// How often the screen is drawn at most, per second.
const RATE: u8 = 10;

/// Lines that are drawn again and again. The first is the run's, so that it stays where lines outnumber the terminal's.
#[derive(Debug)]
pub(super) struct Live {
    files: Files,
    paint: Paint,
    /// Used where the terminal does not tell its width.
    width: usize,
    screen: MultiProgress,
    total: ProgressBar,
    jobs: BTreeMap<JobId, ProgressBar>,
}

impl Live {
    /// On standard error.
    pub(super) fn new(files: Files, paint: Paint, width: usize) -> Self {
        Self::on(ProgressDrawTarget::stderr_with_hz(RATE), files, paint, width)
    }

    fn on(target: ProgressDrawTarget, files: Files, paint: Paint, width: usize) -> Self {
        let screen = MultiProgress::with_draw_target(target);
        let total = screen.add(bar());
        Self { files, paint, width, screen, total, jobs: BTreeMap::new() }
    }

    /// Draws the state of a moment.
    pub(super) fn draw(&mut self, stats: &RunStats, now: Elapsed) {
        let width = self.columns();
        let name_width = progress::name_width(stats, width);
        self.total.set_message(self.paint.bold(&self.files.redacted(&progress::total_line(stats, now, width))));
        let mut gone: BTreeMap<JobId, ProgressBar> = std::mem::take(&mut self.jobs);
        for job in stats.running() {
            let id = &job.info.id;
            let line = gone.remove(id).unwrap_or_else(|| self.screen.add(bar()));
            line.set_message(self.files.redacted(&progress::job_line(job, now, name_width, width)));
            self.jobs.insert(id.clone(), line);
        }
        for line in gone.values() {
            line.finish_and_clear();
            self.screen.remove(line);
        }
    }

    /// A line that stays, above the others.
    pub(super) fn above(&self, line: &str) {
        // A terminal that has gone shows nothing; the run goes on.
        self.screen.println(self.files.redacted(line)).ok();
    }

    /// Takes the lines off the screen.
    pub(super) fn clear(&mut self) {
        for line in self.jobs.values() {
            line.finish_and_clear();
        }
        self.jobs.clear();
        self.total.finish_and_clear();
        self.screen.clear().ok();
    }

    /// The width now: terminals are resized.
    fn columns(&self) -> usize {
        let told = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        // The last column stays free: some terminals wrap when it is filled.
        if told > 1 { told - 1 } else { self.width }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RunEventKind;
    use crate::outcome::Reason;
    use crate::report::sample;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// Keeps what is written, in order.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl Terminal {
        fn add(&self, text: &str) {
            self.0.lock().unwrap().push_str(text);
        }

        fn take(&self) -> String {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    impl indicatif::TermLike for Terminal {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text);
            self.add("\n");
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_running_job_has_a_line_and_an_ended_one_has_none() {
        let terminal = Terminal::default();
        // Without a rate every change is drawn.
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let mut live = Live::on(target, Files::default(), Paint::Plain, 90);
        let mut stats = RunStats::new(sample::run(&["alpha", "beta"]));
        stats.apply(&sample::event(1, "alpha", RunEventKind::JobStarted));
        live.draw(&stats, Elapsed::from_millis(1_000));
        assert!(terminal.take().contains("alpha  turn  0/40"));
        stats.apply(&sample::event(2, "alpha", sample::finished("alpha", Reason::Completed)));
        live.draw(&stats, Elapsed::from_millis(2_000));
        terminal.take();
        live.above("alpha is done");
        let drawn = terminal.take();
        assert!(drawn.contains("alpha is done") && drawn.contains("1/2 jobs"), "{drawn}");
        assert!(!drawn.contains("alpha  turn"), "{drawn}");
        live.clear();
    }
}
