//! Where one try at a job has its things.

use super::context::RunContext;
use crate::plan::PlannedJob;
use crate::units::JobId;
use crate::worktree::checkpoint_ref;
use std::path::PathBuf;

/// Where one try at a job has its things. A job that is tried once at most has them in its own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which try, from 1.
    pub(super) number: u32,
    /// Its folder.
    pub(super) folder: PathBuf,
    /// The folder, relative to the run's.
    pub(super) shown: String,
    /// Its worktree.
    pub(super) worktree: PathBuf,
    /// Its branch.
    pub(super) branch: String,
    /// The reference that its checkpoints are kept by.
    pub(super) reference: String,
}

impl Place {
    /// The folder of a try at a job, relative to the run's.
    pub(super) fn shown(job: &PlannedJob, number: u32) -> String {
        if job.course.tries() <= 1 { format!("jobs/{}", job.id) } else { attempt_folder(&job.id, number) }
    }

    /// Of a try at a job.
    pub(super) fn of(job: &PlannedJob, number: u32, context: &RunContext) -> Self {
        let id = &job.id;
        let shown = Self::shown(job, number);
        // No job can have a name with a plus sign.
        let (tail, branch_tail) = if number <= 1 {
            (String::new(), String::new())
        } else {
            (format!("+{number}"), format!("-attempt-{number}"))
        };
        Self {
            number,
            folder: context.folder.join(&shown),
            shown,
            worktree: context.worktrees.join(&context.run.0).join(format!("{id}{tail}")),
            branch: format!("{}{branch_tail}", job.worktree.branch),
            reference: checkpoint_ref(&context.run, &format!("{id}{branch_tail}")),
        }
    }
}

/// The folder of a try at a job that may have several, relative to the run's.
pub(super) fn attempt_folder(job: &JobId, number: u32) -> String {
    format!("jobs/{job}/attempts/{number}")
}
