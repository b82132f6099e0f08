//! What the scheduler is told, and what it says.

use std::collections::BTreeMap;

/// A job, as far as its time is concerned. Jobs are named by their places in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Jobs that have to pass before.
    pub needs: Vec<usize>,
    /// Higher first; equal ones in the order of the plan.
    pub priority: i64,
    /// The group that it belongs to, by its place in [`Limits::groups`].
    pub group: Option<usize>,
    /// So many attempts side by side; at least 1.
    pub attempts: u32,
    /// So many more, one after the other, when none of those passed.
    pub retries: u32,
    /// What an earlier process has come to.
    pub known: Known,
}

/// What an earlier process has come to with a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is to be run.
    #[default]
    New,
    /// These attempts have ended. With a pass among them the job only has to be decided.
    Tried(BTreeMap<u32, End>),
    /// It was decided.
    Decided {
        /// It passed.
        passed: bool,
    },
}

/// An attempt at a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The job.
    pub job: usize,
    /// Which attempt, from 1. Those beyond [`Node::attempts`] are retries.
    pub number: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a pass.
    Passed,
    /// Without.
    Failed {
        /// Another try could change it, and the job wants one for this reason.
        again: bool,
    },
    /// It was stopped as it was told to.
    Stopped,
}

/// What holds for the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts at once; at least 1.
    pub slots: usize,
    /// For each group, how many of its attempts at once; at least 1.
    pub groups: Vec<usize>,
    /// After so many failed jobs no other one starts, and running ones are stopped; `None`: never.
    pub max_failures: Option<u32>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The run begins.
    Start,
    /// A started attempt ended.
    Ended(Attempt, End),
    /// The run is to end early.
    Halt(Cause),
}

/// Why an attempt is stopped, or a job is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Another attempt at the job passed.
    Sibling,
    /// Enough jobs have failed.
    FailFast,
    /// A signal came.
    Interrupted,
    /// The time of the run is up.
    Timeout,
    /// The money of the run is spent.
    Money,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start an attempt.
    Start(Attempt),
    /// Tell a running attempt to stop; its end still has to come.
    Stop(Attempt, Cause),
    /// A job has its end; nothing more of it starts or runs.
    Decide(usize, Decision),
    /// All jobs are decided. Nothing follows.
    Done,
}

/// How a job is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// As this attempt ended.
    By(u32),
    /// It never started, or none of its attempts came to an end of its own.
    Skipped(Skip),
}

/// Why a job was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// This job that it needs did not pass.
    Dependency(usize),
    /// The run ended early.
    Halted(Cause),
}
