//! The exit code of the process: about the work, not about the protocol. This is the only map to numbers.

use crate::outcome::Verdict;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitStatus {
    /// 0: every job passed.
    Passed,
    /// 1: some job failed.
    Failed,
    /// 2: usage or job files were wrong; nothing was run.
    Usage,
    /// 3: some job could not be judged, or the runner itself failed.
    Error,
    /// 4: no job matched.
    NoJobs,
    /// 130: interrupted by Ctrl-C (SIGINT).
    Interrupted,
    /// 143: ended by SIGTERM.
    Terminated,
}

impl ExitStatus {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Passed, Self::Failed, Self::Usage, Self::Error, Self::NoJobs, Self::Interrupted, Self::Terminated];

    /// The number that the process exits with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Error => 3,
            Self::NoJobs => 4,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// From the verdicts of a run that was not interrupted: an error outranks a failure.
    ///
    /// A skipped job was skipped because another failed; alone it counts as a failure, for its work was not done.
    #[must_use]
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        verdicts
            .into_iter()
            .map(|verdict| match verdict {
                Verdict::Passed => Self::Passed,
                Verdict::Failed | Verdict::Skipped => Self::Failed,
                Verdict::Error => Self::Error,
                Verdict::Cancelled => Self::Interrupted,
            })
            .max()
            .unwrap_or(Self::NoJobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rank_wins() {
        use Verdict::{Cancelled, Error, Failed, Passed, Skipped};
        assert_eq!(ExitStatus::of([Passed, Passed]), ExitStatus::Passed);
        assert_eq!(ExitStatus::of([Passed, Failed, Skipped]), ExitStatus::Failed);
        assert_eq!(ExitStatus::of([Failed, Error, Passed]), ExitStatus::Error);
        assert_eq!(ExitStatus::of([Error, Cancelled]), ExitStatus::Interrupted);
        assert_eq!(ExitStatus::of([]), ExitStatus::NoJobs);
    }
}
