//! The table at the end: every job with its verdict, why its loop ended, and what it used; then where the reports are.

use super::cut;
use super::paint::Paint;
use super::tally::{JobStats, RunStats};
use crate::outcome::{Outcome, Verdict};
use crate::units::show_duration;
use std::fmt::Write as _;

/// The narrowest column of names.
const NAME_MIN: usize = 12;
/// Between two columns.
const GAP: &str = "  ";
/// How many jobs that did not pass are explained below the table; all are in the reports.
const EXPLAINED: usize = 50;

struct Row {
    cells: [String; 7],
    verdict: Option<Verdict>,
}

/// Draws the table for a terminal of `width` columns. Names are shortened first where it is too narrow.
#[must_use]
pub fn render(stats: &RunStats, width: usize, paint: Paint) -> String {
    let mut text = String::new();
    if !stats.jobs.is_empty() {
        grid(&mut text, stats, width, paint);
    }
    let totals = stats.totals();
    let _ = writeln!(
        text,
        "{}: {} tokens, {}, {}",
        totals.verdicts(),
        totals.usage.counted(),
        totals.price(),
        show_duration(stats.now.0)
    );
    explain(&mut text, stats, paint);
    let folder = &stats.run.shown_folder;
    for (what, file) in
        [("junit", "/junit.xml"), ("summary", "/summary.md"), ("page", "/report.html"), ("jobs", "/jobs/")]
    {
        let _ = writeln!(text, "{} {folder}{file}", paint.dim(&format!("{what:<8}")));
    }
    text
}

fn grid(text: &mut String, stats: &RunStats, width: usize, paint: Paint) {
    let head = ["JOB", "VERDICT", "TERMINAL", "TURNS", "TOKENS", "COST", "TIME"].map(str::to_owned);
    let mut rows = vec![Row { cells: head, verdict: None }];
    rows.extend(stats.jobs.iter().map(row));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = cut::columns(cell).max(*width);
        }
    }
    let whole: usize = widths.iter().sum::<usize>() + GAP.len() * 6;
    widths[0] = widths[0].saturating_sub(whole.saturating_sub(width)).max(widths[0].min(NAME_MIN));
    for row in &rows {
        let line = line(row, &widths, paint);
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn row(job: &JobStats) -> Row {
    let name = job.info.id.to_string();
    let Some(report) = job.report() else {
        let unfinished = ["unfinished", "-", "-", "-", "-", "-"].map(str::to_owned);
        let [verdict, terminal, turns, tokens, cost, time] = unfinished;
        return Row { cells: [name, verdict, terminal, turns, tokens, cost, time], verdict: Some(Verdict::Error) };
    };
    let outcome = &report.outcome;
    let cells = [
        name,
        verdict(outcome),
        outcome.terminal.as_ref().map_or("-", |terminal| terminal.reason.code()).to_owned(),
        report.turns.to_string(),
        report.counted_tokens().to_string(),
        report.cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string()),
        show_duration(report.duration),
    ];
    Row { cells, verdict: Some(outcome.verdict()) }
}

/// `passed`, or the verdict with its reason where that says more.
fn verdict(outcome: &Outcome) -> String {
    match (outcome.verdict(), outcome.reason.code()) {
        (Verdict::Passed, "completed") => "passed".into(),
        (verdict, reason) => format!("{} ({reason})", verdict.code()),
    }
}

fn line(row: &Row, widths: &[usize; 7], paint: Paint) -> String {
    let cells: Vec<String> = row
        .cells
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(column, (cell, width))| {
            let cell = cut::to_columns(cell, *width);
            let fill = " ".repeat(width - cut::columns(&cell));
            let painted = match (row.verdict, column) {
                (None, _) => paint.bold(&cell),
                (Some(verdict), 1) => paint.verdict(verdict, &cell),
                (Some(_), _) => cell,
            };
            if column < 3 { format!("{painted}{fill}") } else { format!("{fill}{painted}") }
        })
        .collect();
    cells.join(GAP)
}

fn explain(text: &mut String, stats: &RunStats, paint: Paint) {
    let bad: Vec<_> = stats.reports().filter(|report| report.outcome.verdict() != Verdict::Passed).collect();
    for report in bad.iter().take(EXPLAINED) {
        let verdict = report.outcome.verdict();
        let message = cut::one_line(&report.outcome.message, 400);
        let _ = writeln!(text, "{} {}: {message}", paint.verdict(verdict, verdict.code()), report.info.id);
        if let Some(worktree) = &report.worktree {
            let _ = writeln!(text, "  worktree kept: {}", cut::one_line(&worktree.display().to_string(), 500));
        }
    }
    if bad.len() > EXPLAINED {
        let _ = writeln!(text, "and {} more, in the reports", bad.len() - EXPLAINED);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::outcome::Reason;
    use insta::assert_snapshot;

    fn stats() -> RunStats {
        let long = "a-job-with-quite-a-long-name-that-needs-room";
        let mut stats = RunStats::new(sample::run(&["fix", long, "limit", "open"]));
        let mut kept = sample::report(long, Reason::GateFailed);
        kept.worktree = Some("/tmp/w".into());
        stats.apply(&sample::event(1, "fix", sample::finished("fix", Reason::Completed)));
        stats.apply(&sample::event(2, long, crate::event::RunEventKind::JobFinished(Box::new(kept))));
        stats.apply(&sample::event(72_000, "limit", sample::finished("limit", Reason::MaxTurns)));
        stats
    }

    #[test]
    fn wide_enough() {
        assert_snapshot!(render(&stats(), 120, Paint::Plain), @"
        JOB                                           VERDICT               TERMINAL   TURNS  TOKENS     COST   TIME
        fix                                           passed                completed      7    1.5k  $0.0123  12.3s
        a-job-with-quite-a-long-name-that-needs-room  failed (gate_failed)  completed      7    1.5k  $0.0123  12.3s
        limit                                         failed (max_turns)    max_turns      7    1.5k  $0.0123  12.3s
        open                                          unfinished            -              -       -        -      -
        1 passed, 2 failed, 1 waiting: 4.5k tokens, $0.0369, 1m12s
        failed a-job-with-quite-a-long-name-that-needs-room: this is why: gate_failed
          worktree kept: /tmp/w
        failed limit: this is why: max_turns
        junit    .runner/runs/20261130-235522-3f2a9c/junit.xml
        summary  .runner/runs/20261130-235522-3f2a9c/summary.md
        page     .runner/runs/20261130-235522-3f2a9c/report.html
        jobs     .runner/runs/20261130-235522-3f2a9c/jobs/
        ");
    }

    #[test]
    fn names_give_way_on_a_narrow_terminal() {
        assert_snapshot!(render(&stats(), 80, Paint::Plain), @"
        JOB               VERDICT               TERMINAL   TURNS  TOKENS     COST   TIME
        fix               passed                completed      7    1.5k  $0.0123  12.3s
        a-job-with-quit…  failed (gate_failed)  completed      7    1.5k  $0.0123  12.3s
        limit             failed (max_turns)    max_turns      7    1.5k  $0.0123  12.3s
        open              unfinished            -              -       -        -      -
        1 passed, 2 failed, 1 waiting: 4.5k tokens, $0.0369, 1m12s
        failed a-job-with-quite-a-long-name-that-needs-room: this is why: gate_failed
          worktree kept: /tmp/w
        failed limit: this is why: max_turns
        junit    .runner/runs/20261130-235522-3f2a9c/junit.xml
        summary  .runner/runs/20261130-235522-3f2a9c/summary.md
        page     .runner/runs/20261130-235522-3f2a9c/report.html
        jobs     .runner/runs/20261130-235522-3f2a9c/jobs/
        ");
    }

    #[test]
    fn colour_changes_no_column() {
        let stats = stats();
        let colored = render(&stats, 120, Paint::Colored);
        assert_ne!(colored, render(&stats, 120, Paint::Plain));
        assert_eq!(crate::clean::clean(&colored), render(&stats, 120, Paint::Plain));
    }

    #[test]
    fn no_jobs_is_no_grid() {
        assert_snapshot!(render(&RunStats::new(sample::run(&[])), 80, Paint::Plain), @"
        no job: 0 tokens, $0.0000, 0.0s
        junit    .runner/runs/20261130-235522-3f2a9c/junit.xml
        summary  .runner/runs/20261130-235522-3f2a9c/summary.md
        page     .runner/runs/20261130-235522-3f2a9c/report.html
        jobs     .runner/runs/20261130-235522-3f2a9c/jobs/
        ");
    }
}
