//! The one loop that linearises everything: jobs, their events, signals, the heartbeat. It owns every task of the run.

use super::context::{Reporter, RunContext};
use super::job::{blank_report, run_job};
use super::signal::Signals;
use crate::event::{JobReport, RunEvent, RunEventKind, RunInfo};
use crate::exit::ExitStatus;
use crate::outcome::{AbortReason, Outcome, Reason, Verdict};
use crate::output::Sink;
use crate::plan::PlannedJob;
use crate::schedule::{Action, FailFast, Input, Scheduler, Skip};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

/// How often the screen is told the time.
const TICK: Duration = Duration::from_millis(250);
/// After the first signal, running jobs have this long; then the run ends without them.
const SIGNAL_LIMIT: Duration = Duration::from_secs(8);

/// Runs the jobs of a plan. Returns when each has ended, or when a second signal asks for an immediate end.
pub(super) struct Dispatcher {
    jobs: Arc<Vec<PlannedJob>>,
    context: Arc<RunContext>,
    scheduler: Scheduler,
    sink: Sink,
    events: (mpsc::Sender<RunEvent>, mpsc::Receiver<RunEvent>),
    tasks: JoinSet<JobReport>,
    running: BTreeMap<usize, watch::Sender<Option<AbortReason>>>,
    ids: HashMap<Id, usize>,
    verdicts: Vec<Verdict>,
    signal: Option<ExitStatus>,
    done: bool,
}

impl Dispatcher {
    /// For a plan.
    pub(super) fn new(
        jobs: Vec<PlannedJob>,
        context: RunContext,
        slots: usize,
        fail_fast: FailFast,
        sink: Sink,
    ) -> Self {
        Self {
            scheduler: Scheduler::new(jobs.len(), slots, fail_fast),
            jobs: Arc::new(jobs),
            context: Arc::new(context),
            sink,
            events: mpsc::channel(256),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            ids: HashMap::new(),
            verdicts: Vec::new(),
            signal: None,
            done: false,
        }
    }

    /// Runs everything; gives back how the process exits and what could not be written.
    pub(super) async fn run(mut self, info: RunInfo, mut signals: Signals) -> (ExitStatus, Vec<String>) {
        self.tell(None, RunEventKind::RunStarted(info));
        self.schedule(Input::Start);
        self.listen(&mut signals).await;
        let exit = self.signal.unwrap_or_else(|| ExitStatus::of(self.verdicts.iter().copied()));
        self.tell(None, RunEventKind::RunFinished { exit });
        (exit, self.sink.finish())
    }

    /// The loop itself, until every job has ended or the run is given up.
    async fn listen(&mut self, signals: &mut Signals) {
        let mut ticks = tokio::time::interval(TICK);
        let mut give_up_at = None;
        while !self.done {
            tokio::select! {
                biased;
                asked = signals.next() => {
                    if self.signal.is_some() {
                        self.give_up();
                        break;
                    }
                    self.signal = Some(asked);
                    give_up_at = Some(self.context.clock.now().plus(SIGNAL_LIMIT));
                    self.tell(None, RunEventKind::Interrupted(asked));
                    self.schedule(Input::Cancel);
                }
                Some(event) = self.events.1.recv() => self.sink.handle(&event),
                Some(joined) = self.tasks.join_next_with_id() => self.job_ended(joined),
                _ = ticks.tick() => {
                    let now = self.context.clock.now();
                    self.sink.tick(now);
                    if give_up_at.is_some_and(|moment| now >= moment) {
                        self.give_up();
                        break;
                    }
                }
            }
        }
    }

    fn schedule(&mut self, input: Input) {
        for action in self.scheduler.step(input) {
            match action {
                Action::Start(index) => self.start(index),
                Action::Skip(index, skip) => self.skip(index, skip),
                Action::StopRunning(skip) => {
                    let reason = match skip {
                        Skip::FailFast => AbortReason::FailFast,
                        Skip::Interrupted => AbortReason::Interrupt,
                    };
                    for abort in self.running.values() {
                        // The first reason stands.
                        abort.send_if_modified(|set| set.is_none() && set.replace(reason).is_none());
                    }
                }
                Action::Done => self.done = true,
            }
        }
    }

    fn start(&mut self, index: usize) {
        let (jobs, context) = (Arc::clone(&self.jobs), Arc::clone(&self.context));
        let (sender, abort) = watch::channel(None);
        let events = self.events.0.clone();
        self.running.insert(index, sender);
        self.spawn(index, async move {
            let job = &jobs[index];
            let reporter = Reporter::new(job.id.clone(), context.clock, events);
            run_job(job, &context, abort, &reporter).await
        });
    }

    /// Gives a job a task of its own, which may panic.
    fn spawn(&mut self, index: usize, work: impl Future<Output = JobReport> + Send + 'static) {
        let handle = self.tasks.spawn(work);
        self.ids.insert(handle.id(), index);
    }

    fn skip(&mut self, index: usize, skip: Skip) {
        let outcome = match skip {
            Skip::FailFast => Outcome::without_loop(Reason::FailFast, "not started, because another job failed"),
            Skip::Interrupted => Outcome::without_loop(Reason::Interrupted, "not started, because of a signal"),
        };
        self.never_ran(index, outcome);
    }

    fn never_ran(&mut self, index: usize, outcome: Outcome) {
        let report = JobReport { outcome, ..blank_report(&self.jobs[index], self.context.clock.now()) };
        self.finished(report);
    }

    /// Reports a job that ended without its own report; what it worked in is still there.
    fn left_behind(&mut self, index: usize, outcome: Outcome) {
        let job = &self.jobs[index];
        let worktree = Some(self.context.worktree(&job.id)).filter(|folder| folder.is_dir());
        let report = JobReport { outcome, worktree, ..blank_report(job, self.context.clock.now()) };
        self.finished(report);
    }

    /// A job's task ended. A panic is that job's outcome, and no other's.
    fn job_ended(&mut self, joined: Result<(Id, JobReport), JoinError>) {
        let (id, report) = match joined {
            Ok((id, report)) => (id, Ok(report)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(index) = self.ids.remove(&id) else { return };
        self.running.remove(&index);
        // What the job told before it ended comes first.
        while let Ok(event) = self.events.1.try_recv() {
            self.sink.handle(&event);
        }
        let passed = match report {
            Ok(report) => {
                let passed = report.outcome.verdict() == Verdict::Passed;
                self.finished(report);
                passed
            }
            Err(error) => {
                let message = format!("the runner failed in this job: {}", panic_text(error));
                self.left_behind(index, Outcome::without_loop(Reason::Internal, message));
                false
            }
        };
        self.schedule(Input::Finished { job: index, passed });
    }

    fn finished(&mut self, report: JobReport) {
        self.verdicts.push(report.outcome.verdict());
        let job = report.info.id.clone();
        self.tell(Some(job), RunEventKind::JobFinished(Box::new(report)));
    }

    /// Ends without the jobs that still run: each is reported, and their processes die with the run.
    fn give_up(&mut self) {
        self.tasks.abort_all();
        let left: Vec<usize> = std::mem::take(&mut self.running).into_keys().collect();
        for index in left {
            let message = "interrupted by a signal; its work was not collected, its worktree was left as it was";
            self.left_behind(index, Outcome::without_loop(Reason::Interrupted, message));
        }
    }

    fn tell(&mut self, job: Option<crate::units::JobId>, kind: RunEventKind) {
        let event = RunEvent { at: self.context.clock.now(), job, kind };
        self.sink.handle(&event);
    }
}

/// What a panic said.
fn panic_text(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic".to_owned()),
        Err(_) => "its task was cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests;
