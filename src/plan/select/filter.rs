//! [`Filter`]: an expression over jobs, such as `fix-* and not tag:slow`.

use crate::outcome::{Reason, Verdict};
use crate::plan::PlannedJob;
use globset::GlobMatcher;

/// An expression that takes some jobs and leaves others.
#[derive(Clone, Debug)]
pub struct Filter(pub(super) Expr);

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Name(GlobMatcher),
    Tag(GlobMatcher),
    File(GlobMatcher),
    Verdict(Verdict),
    Reason(Reason),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

/// How a job ended in an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// What was found about it.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
}

impl Filter {
    /// Whether it takes a job. One that was not in the earlier run has no verdict, so nothing about it is true.
    #[must_use]
    pub fn takes(&self, job: &PlannedJob, before: Option<Before>) -> bool {
        self.0.takes(job, before)
    }

    /// Whether it asks how jobs ended before.
    #[must_use]
    pub fn asks_before(&self) -> bool {
        self.0.asks_before()
    }
}

impl Expr {
    fn takes(&self, job: &PlannedJob, before: Option<Before>) -> bool {
        match self {
            Self::Name(glob) => glob.is_match(job.id.as_str()),
            Self::Tag(glob) => job.tags.iter().any(|tag| glob.is_match(tag)),
            Self::File(glob) => glob.is_match(&job.file),
            Self::Verdict(verdict) => before.is_some_and(|before| before.verdict == *verdict),
            Self::Reason(reason) => before.is_some_and(|before| before.reason == *reason),
            Self::Not(inner) => !inner.takes(job, before),
            Self::And(one, other) => one.takes(job, before) && other.takes(job, before),
            Self::Or(one, other) => one.takes(job, before) || other.takes(job, before),
        }
    }

    fn asks_before(&self) -> bool {
        match self {
            Self::Name(_) | Self::Tag(_) | Self::File(_) => false,
            Self::Verdict(_) | Self::Reason(_) => true,
            Self::Not(inner) => inner.asks_before(),
            Self::And(one, other) | Self::Or(one, other) => one.asks_before() || other.asks_before(),
        }
    }
}
