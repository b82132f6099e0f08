//! How a batch begins: what the scheduler is told, what an earlier process has come to, the start of an attempt.

use super::{Dispatcher, counted};
use crate::drive::context::Reporter;
use crate::drive::job::{Try, run_job};
use crate::drive::past::Past;
use crate::drive::purse::Purse;
use crate::event::{JobReport, RunEvent, RunEventKind, RunInfo};
use crate::outcome::Verdict;
use crate::plan::{JOB_BASE, PlannedJob};
use crate::schedule::{Attempt, End, Known, Limits, Node};
use crate::units::{Elapsed, JobId, Usd};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// What an earlier process has come to with a job.
#[derive(Debug)]
pub(in crate::drive) enum Before {
    /// It is over.
    Decided(Box<JobReport>),
    /// It is not.
    Begun {
        /// Attempts that have ended.
        ended: BTreeMap<u32, JobReport>,
        /// Attempts that were at work.
        open: BTreeMap<u32, Past>,
    },
}

impl Before {
    /// What it has cost.
    pub(in crate::drive) fn spent(&self) -> Usd {
        match self {
            Self::Decided(report) => report.cost.unwrap_or_default(),
            Self::Begun { ended, open } => {
                let ended = ended.values().filter_map(|report| report.cost);
                let open =
                    open.values().filter_map(|past| past.talk.as_ref()).map(|talk| talk.stage.past.saved().spent);
                ended.chain(open).fold(Usd::ZERO, |sum, cost| sum + cost)
            }
        }
    }
}

/// A batch, as far as its time is concerned.
pub(super) fn nodes(
    jobs: &[PlannedJob],
    slots: usize,
    max_failures: Option<u32>,
    before: &BTreeMap<JobId, Before>,
) -> (Vec<Node>, Limits) {
    let mut groups: Vec<(String, usize)> = Vec::new();
    let places: BTreeMap<&JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (&job.id, at)).collect();
    let nodes = jobs
        .iter()
        .map(|job| {
            let course = &job.course;
            let group = course.group.as_ref().map(|group| {
                groups.iter().position(|(name, _)| *name == group.name).unwrap_or_else(|| {
                    groups.push((group.name.clone(), group.max as usize));
                    groups.len() - 1
                })
            });
            Node {
                needs: course.needs.iter().filter_map(|need| places.get(need).copied()).collect(),
                priority: course.priority.into(),
                group,
                attempts: course.attempts,
                retries: course.retries,
                known: known(job, before.get(&job.id)),
            }
        })
        .collect();
    let groups = groups.into_iter().map(|(_, max)| max).collect();
    (nodes, Limits { slots, groups, max_failures })
}

fn known(job: &PlannedJob, before: Option<&Before>) -> Known {
    match before {
        None => Known::New,
        Some(Before::Decided(report)) => {
            // A job that had passed in the run that this one repeats stands for its pass.
            let passed = report.outcome.verdict() == Verdict::Passed;
            Known::Decided { passed: passed || report.outcome.reason == crate::outcome::Reason::AlreadyDone }
        }
        Some(Before::Begun { ended, .. }) => {
            let end = |report: &JobReport| match report.outcome.verdict() {
                Verdict::Passed => End::Passed,
                Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled => {
                    End::Failed { again: job.course.wants_retry(report.outcome.reason) }
                }
            };
            Known::Tried(ended.iter().map(|(number, report)| (*number, end(report))).collect())
        }
    }
}

impl Dispatcher {
    /// Takes over what an earlier process has come to, and says that the run goes on.
    pub(super) fn go_on(&mut self, info: RunInfo) {
        self.sink.take_up(&RunEvent { at: Elapsed::default(), job: None, kind: RunEventKind::RunStarted(info) });
        self.replay();
        for note in std::mem::take(&mut self.notes) {
            self.tell(None, RunEventKind::Note(note));
        }
    }

    /// Tells of jobs that are not run, since another run has settled them.
    pub(super) fn tell_settled(&mut self) {
        let jobs = Arc::clone(&self.jobs);
        for job in jobs.iter() {
            if let Some(Before::Decided(report)) = self.before.get(&job.id) {
                self.finished((**report).clone());
            }
        }
    }

    fn replay(&mut self) {
        let jobs = Arc::clone(&self.jobs);
        for (index, job) in jobs.iter().enumerate() {
            match self.before.get(&job.id) {
                Some(Before::Decided(report)) => {
                    let report = report.clone();
                    self.verdicts.push(counted(&report));
                    if let Some(commit) = report.commit.clone().or_else(|| report.base.clone()) {
                        self.commits.insert(job.id.clone(), commit);
                    }
                    let at = report.started_at.plus(report.duration);
                    let kind = RunEventKind::JobFinished(report.clone());
                    self.sink.take_up(&RunEvent { at, job: Some(job.id.clone()), kind });
                    self.publish(index, *report);
                }
                Some(Before::Begun { ended, .. }) => {
                    let ended =
                        ended.iter().map(|(number, report)| (Attempt { job: index, number: *number }, report.clone()));
                    let ended: Vec<_> = ended.collect();
                    self.ended.extend(ended);
                }
                None => {}
            }
        }
    }

    /// Gives an attempt a task of its own.
    pub(super) fn start(&mut self, attempt: Attempt) {
        let (jobs, context) = (Arc::clone(&self.jobs), Arc::clone(&self.context));
        let (sender, abort) = watch::channel(None);
        let events = self.events.0.clone();
        self.running.insert(attempt, sender);
        let place = context.place(&jobs[attempt.job], attempt.number);
        let purse = self.purse_of(attempt.job);
        let past = match self.before.get_mut(&jobs[attempt.job].id) {
            Some(Before::Begun { open, .. }) => open.remove(&attempt.number),
            Some(Before::Decided(_)) | None => None,
        };
        let base = self.base_of(attempt.job);
        self.spawn(attempt, async move {
            let mut job = jobs[attempt.job].clone();
            job.worktree.base = base;
            let reporter = Reporter::new(job.id.clone(), context.clock, events);
            Box::pin(run_job(&job, &context, &reporter, Try { place, purse, abort, past })).await
        });
    }

    /// Gives work a task of its own, which may panic.
    pub(super) fn spawn(&mut self, attempt: Attempt, work: impl Future<Output = JobReport> + Send + 'static) {
        let handle = self.tasks.spawn(work);
        self.ids.insert(handle.id(), attempt);
    }

    fn purse_of(&mut self, job: usize) -> Arc<Purse> {
        let spent = self.before.get(&self.jobs[job].id).map(Before::spent).unwrap_or_default();
        let (cap, above) = (self.jobs[job].limits.max_cost, Arc::clone(&self.purse));
        let purse = self.purses.entry(job).or_insert_with(|| Purse::new(cap, spent, Some(above)));
        Arc::clone(purse)
    }

    /// What an attempt starts from: for `job:NAME`, the work of that job.
    fn base_of(&self, job: usize) -> String {
        let base = &self.jobs[job].worktree.base;
        let named = base.strip_prefix(JOB_BASE).and_then(|name| JobId::new(name).ok());
        named.and_then(|name| self.commits.get(&name).cloned()).unwrap_or_else(|| base.clone())
    }
}
