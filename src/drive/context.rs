//! What all jobs of a run share.

use super::clock::Clock;
use super::place::Place;
use super::publishing::Publishing;
use crate::event::{RunEvent, RunEventKind};
use crate::model::{Http, Timeouts};
use crate::output::Files;
use crate::plan::PlannedJob;
use crate::query::Patience;
use crate::units::{JobId, RunId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// What all jobs of a run share.
pub(super) struct RunContext {
    /// The run's name.
    pub(super) run: RunId,
    /// Its folder, absolute.
    pub(super) folder: PathBuf,
    /// The door through which the files of the run are written.
    pub(super) files: Files,
    /// Where worktrees are made: outside every repository, so that no tool finds the main checkout by walking up.
    pub(super) worktrees: PathBuf,
    /// The runner's environment, as read once at the start.
    pub(super) env: BTreeMap<String, String>,
    /// Names of the variables that hold keys: no child ever sees them.
    pub(super) key_names: Vec<String>,
    /// Held while a worktree is made: side by side they would only stand in each other's way.
    pub(super) making: Semaphore,
    /// The clock.
    pub(super) clock: Clock,
    /// The connections to model servers.
    pub(super) http: Arc<Http>,
    /// Their limits.
    pub(super) timeouts: Timeouts,
    /// Where work goes that is to be published.
    pub(super) publishing: Publishing,
    /// How patient jobs are with a failing provider.
    pub(super) patience: Patience,
}

impl RunContext {
    /// Where a try at a job has its things.
    pub(super) fn place(&self, job: &PlannedJob, number: u32) -> Place {
        Place::of(job, number, self)
    }

    /// The folder of a job.
    pub(super) fn job_folder(&self, job: &JobId) -> PathBuf {
        self.folder.join("jobs").join(job.as_str())
    }
}

/// Tells the dispatcher what happens in a job.
#[derive(Clone)]
pub(super) struct Reporter {
    job: JobId,
    clock: Clock,
    events: mpsc::Sender<RunEvent>,
}

impl Reporter {
    /// For a job.
    pub(super) const fn new(job: JobId, clock: Clock, events: mpsc::Sender<RunEvent>) -> Self {
        Self { job, clock, events }
    }

    /// Tells; waits while the dispatcher is behind.
    pub(super) async fn tell(&self, kind: RunEventKind) {
        let event = RunEvent { at: self.clock.now(), job: Some(self.job.clone()), kind };
        // The dispatcher outlives the jobs; should it be gone, there is nobody left to tell.
        drop(self.events.send(event).await);
    }
}
