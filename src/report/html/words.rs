//! Words, marks and classes of the page.

use crate::event::{GateStatus, JobReport};
use crate::outcome::{Reason, Verdict};
use crate::report::tally::{JobState, JobStats};

/// Where a job stands: one of five verdicts, or not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Failed,
    Error,
    Cancelled,
    Open,
    Skipped,
    Passed,
}

impl Standing {
    /// All of them, what needs eyes first.
    pub(super) const ALL: [Self; 6] =
        [Self::Failed, Self::Error, Self::Cancelled, Self::Open, Self::Skipped, Self::Passed];

    /// That of a job.
    pub(super) fn of(job: &JobStats) -> Self {
        match &job.state {
            JobState::Waiting | JobState::Running => Self::Open,
            JobState::Ended(report) => match report.outcome.verdict() {
                Verdict::Failed => Self::Failed,
                Verdict::Error => Self::Error,
                Verdict::Cancelled => Self::Cancelled,
                Verdict::Skipped => Self::Skipped,
                Verdict::Passed => Self::Passed,
            },
        }
    }

    /// The word, which is a class too.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Open => "unfinished",
            Self::Skipped => "skipped",
            Self::Passed => "passed",
        }
    }

    /// The mark beside the word: colour alone tells nobody enough.
    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Failed => "✕",
            Self::Error => "!",
            Self::Cancelled => "◌",
            Self::Open => "…",
            Self::Skipped => "–",
            Self::Passed => "✓",
        }
    }
}

/// What is worth a look though it is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flag {
    Protected,
    Flaky,
    AtLimit,
    Unpriced,
}

impl Flag {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Protected, Self::Flaky, Self::AtLimit, Self::Unpriced];

    /// Those of a job.
    pub(super) fn of(report: &JobReport) -> Vec<Self> {
        let flaky = report.outcome.reason == Reason::CompletedFlaky || report.gates.iter().any(|gate| gate.flaky);
        let found = [
            (!report.protected_changes.is_empty(), Self::Protected),
            (flaky, Self::Flaky),
            (report.outcome.reason == Reason::CompletedAtLimit, Self::AtLimit),
            (report.cost.is_none() && report.model_calls > 0, Self::Unpriced),
        ];
        found.into_iter().filter_map(|(is_so, flag)| is_so.then_some(flag)).collect()
    }

    /// Whether it is worth to come before what passed plainly: a model without a price is nobody's trouble.
    pub(super) const fn is_urgent(self) -> bool {
        match self {
            Self::Protected | Self::Flaky | Self::AtLimit => true,
            Self::Unpriced => false,
        }
    }

    /// The stable word for the script.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Protected => "protected",
            Self::Flaky => "flaky",
            Self::AtLimit => "limit",
            Self::Unpriced => "unpriced",
        }
    }

    /// What it says.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Protected => "changed protected files",
            Self::Flaky => "flaky",
            Self::AtLimit => "passed at a limit",
            Self::Unpriced => "cost unknown",
        }
    }
}

/// What a gate said.
pub(super) const fn gate(status: Option<GateStatus>) -> (&'static str, &'static str) {
    match status {
        Some(GateStatus::Pass) => ("passed", "✓ pass"),
        Some(GateStatus::Fail) => ("failed", "✕ fail"),
        Some(GateStatus::Error) => ("error", "! error"),
        None => ("skipped", "–"),
    }
}
