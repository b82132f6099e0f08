//! Sums over the jobs of a run.

use super::tally::{JobState, JobStats};
use crate::outcome::Verdict;
use crate::units::{Turns, Usage, Usd};

/// Sums over the jobs of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All jobs.
    pub jobs: usize,
    /// Not started.
    pub waiting: usize,
    /// Started and not ended.
    pub running: usize,
    /// Ended, by verdict.
    pub passed: usize,
    /// Ended, by verdict.
    pub failed: usize,
    /// Ended, by verdict.
    pub errors: usize,
    /// Ended, by verdict.
    pub skipped: usize,
    /// Ended, by verdict.
    pub cancelled: usize,
    /// Turns of all jobs.
    pub turns: Turns,
    /// Model calls of all jobs, retries included.
    pub model_calls: u32,
    /// Retries of all jobs.
    pub retries: u32,
    /// Tokens of all jobs.
    pub usage: Usage,
    /// The price of all calls whose price is known.
    pub cost: Usd,
    /// Jobs that called a model whose price is not known.
    pub unpriced: usize,
}

impl Totals {
    /// Adds up.
    #[must_use]
    pub fn of(jobs: &[JobStats]) -> Self {
        let mut sum = Self { jobs: jobs.len(), ..Self::default() };
        for job in jobs {
            let (turns, calls, retries, usage, cost) = match &job.state {
                JobState::Waiting => {
                    sum.waiting += 1;
                    continue;
                }
                JobState::Running => {
                    sum.running += 1;
                    let live = &job.live;
                    (live.turns, live.model_calls, live.retries, live.usage, Some(live.cost))
                }
                JobState::Ended(report) => {
                    *match report.outcome.verdict() {
                        Verdict::Passed => &mut sum.passed,
                        Verdict::Failed => &mut sum.failed,
                        Verdict::Error => &mut sum.errors,
                        Verdict::Skipped => &mut sum.skipped,
                        Verdict::Cancelled => &mut sum.cancelled,
                    } += 1;
                    (report.turns, report.model_calls, report.retries, report.usage, report.cost)
                }
            };
            sum.turns = Turns(sum.turns.0.saturating_add(turns.0));
            sum.model_calls = sum.model_calls.saturating_add(calls);
            sum.retries = sum.retries.saturating_add(retries);
            sum.usage += usage;
            sum.cost += cost.unwrap_or(Usd::ZERO);
            sum.unpriced += usize::from(cost.is_none() && calls > 0);
        }
        sum
    }

    /// Jobs that have ended.
    #[must_use]
    pub const fn ended(&self) -> usize {
        self.jobs - self.waiting - self.running
    }

    /// `2 passed, 1 failed`: the verdicts that occurred.
    #[must_use]
    pub fn verdicts(&self) -> String {
        let counts = [
            (self.passed, "passed"),
            (self.failed, "failed"),
            (self.errors, "error"),
            (self.skipped, "skipped"),
            (self.cancelled, "cancelled"),
            (self.running, "running"),
            (self.waiting, "waiting"),
        ];
        let words: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        if words.is_empty() { "no job".into() } else { words.join(", ") }
    }

    /// `$0.0123`, with a `+` where some price is not known.
    #[must_use]
    pub fn price(&self) -> String {
        match self.unpriced {
            0 => self.cost.to_string(),
            _ if self.cost == Usd::ZERO => "-".into(),
            _ => format!("{}+", self.cost),
        }
    }
}
