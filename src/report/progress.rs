//! Lines of the live screen: one for a running job, one for the whole run.

use super::cut;
use super::tally::{JobStats, RunStats};
use crate::units::{Elapsed, show_duration};

/// The narrowest that "what it is doing" may become before the rest is cut instead.
const DOING_MIN: usize = 8;

/// One running job in at most `width` columns: name, turn, what it is doing, tokens, cost, elapsed.
#[must_use]
pub fn job_line(job: &JobStats, now: Elapsed, name_width: usize, width: usize) -> String {
    let live = &job.live;
    let name = cut::to_columns(job.info.id.as_str(), name_width);
    let left = format!("{name:<name_width$}  turn {:>2}/{:<2}  ", live.turns, job.info.max_turns);
    let elapsed = show_duration(now.since(live.since));
    let right = format!("  {:>6} tok  {:>8}  {elapsed:>6}", live.usage.counted(), live.cost);
    let room = width.saturating_sub(cut::columns(&left) + cut::columns(&right)).max(DOING_MIN);
    let doing = cut::to_columns(&cut::one_line(&live.doing, 4 * room), room);
    let fill = " ".repeat(room.saturating_sub(cut::columns(&doing)));
    cut::to_columns(&format!("{left}{doing}{fill}{right}"), width)
}

/// The whole run in at most `width` columns.
#[must_use]
pub fn total_line(stats: &RunStats, now: Elapsed, width: usize) -> String {
    let totals = stats.totals();
    let line = format!(
        "{}/{} jobs: {}  {} tokens  {}  {}",
        totals.ended(),
        totals.jobs,
        totals.verdicts(),
        totals.usage.counted(),
        totals.price(),
        show_duration(now.0),
    );
    cut::to_columns(&line, width)
}

/// The columns that names take on the live screen: the longest, but at most a third of `width`.
#[must_use]
pub fn name_width(stats: &RunStats, width: usize) -> usize {
    let longest = stats.jobs.iter().map(|job| cut::columns(job.info.id.as_str())).max().unwrap_or(0);
    longest.min(width / 3)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::event::RunEventKind;
    use crate::outcome::Reason;
    use insta::assert_snapshot;

    fn stats() -> RunStats {
        let mut stats = RunStats::new(sample::run(&["fix-parse-empty", "b", "c"]));
        for event in [
            sample::event(0, "fix-parse-empty", RunEventKind::JobStarted),
            sample::event(10, "fix-parse-empty", sample::turn(3, 12_345)),
            sample::event(
                11,
                "fix-parse-empty",
                RunEventKind::ToolStarted { tool: "Bash".into(), subject: "cargo test --workspace 日本語".into() },
            ),
            sample::event(12, "b", sample::finished("b", Reason::Completed)),
        ] {
            stats.apply(&event);
        }
        stats
    }

    #[test]
    fn lines_fit_the_terminal() {
        let stats = stats();
        let now = Elapsed::from_millis(64_000);
        let lines: Vec<String> = [100, 80, 60, 30]
            .iter()
            .flat_map(|width| {
                let name = name_width(&stats, *width);
                [job_line(&stats.jobs[0], now, name, *width), total_line(&stats, now, *width)]
            })
            .collect();
        assert_snapshot!(lines.join("\n"), @"
        fix-parse-empty  turn  3/40  Bash cargo test --workspace 日本語          12.3k tok   $0.0010   1m04s
        1/3 jobs: 1 passed, 1 running, 1 waiting  13.8k tokens  $0.0133  1m04s
        fix-parse-empty  turn  3/40  Bash cargo test --wo…   12.3k tok   $0.0010   1m04s
        1/3 jobs: 1 passed, 1 running, 1 waiting  13.8k tokens  $0.0133  1m04s
        fix-parse-empty  turn  3/40  Bash ca…   12.3k tok   $0.0010…
        1/3 jobs: 1 passed, 1 running, 1 waiting  13.8k tokens  $0.…
        fix-parse…  turn  3/40  Bash …
        1/3 jobs: 1 passed, 1 running…
        ");
        for width in 0..120 {
            let name = name_width(&stats, width);
            assert!(cut::columns(&job_line(&stats.jobs[0], now, name, width)) <= width);
            assert!(cut::columns(&total_line(&stats, now, width)) <= width);
        }
    }
}
