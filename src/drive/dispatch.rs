//! The one loop that linearises everything: jobs, their events, signals, the heartbeat. It owns every task of the run.

mod decide;
mod start;
mod waits;

use super::context::RunContext;
use super::job::blank_report;
use super::purse::Purse;
use super::signal::{Asked, Signals};
use crate::event::{JobReport, RunEvent, RunEventKind, RunInfo};
use crate::exit::ExitStatus;
use crate::outcome::{AbortReason, Outcome, Reason, Verdict};
use crate::output::Sink;
use crate::plan::{PlannedJob, RunLimits};
use crate::process;
use crate::schedule::{Action, Attempt, Cause, Decision, End, Input, Scheduler, Skip};
use crate::units::{Elapsed, JobId, Usd, show_duration};
pub(super) use start::Before;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

/// How often the screen is told the time.
const TICK: Duration = Duration::from_millis(250);
/// After the first signal, running jobs have this long; then the run ends without them. CI services kill about 10 s after they ask.
const SIGNAL_LIMIT: Duration = Duration::from_secs(8);

/// What is to be run, and within what.
pub(super) struct Batch {
    pub(super) jobs: Vec<PlannedJob>,
    pub(super) slots: usize,
    pub(super) limits: RunLimits,
    /// What an earlier process has come to with each job; empty in a new run.
    pub(super) before: BTreeMap<JobId, Before>,
    /// What to tell first.
    pub(super) notes: Vec<String>,
}

/// Runs the jobs of a plan. Returns when each has ended, or when a second signal asks for an immediate end.
pub(super) struct Dispatcher {
    jobs: Arc<Vec<PlannedJob>>,
    context: Arc<RunContext>,
    limits: RunLimits,
    scheduler: Scheduler,
    sink: Sink,
    events: (mpsc::Sender<RunEvent>, mpsc::Receiver<RunEvent>),
    tasks: JoinSet<JobReport>,
    /// Decided jobs whose work is on its way out.
    publishing: JoinSet<()>,
    running: BTreeMap<Attempt, watch::Sender<Option<AbortReason>>>,
    ids: HashMap<Id, Attempt>,
    /// Attempts that were told to stop, and why.
    stopped: BTreeMap<Attempt, Cause>,
    /// How the attempts at jobs ended that are not decided yet.
    ended: BTreeMap<Attempt, JobReport>,
    before: BTreeMap<JobId, Before>,
    /// Set when the run goes on: what to tell first.
    notes: Vec<String>,
    /// The run's money, and each job's.
    purse: Arc<Purse>,
    purses: HashMap<usize, Arc<Purse>>,
    /// Where the work of decided jobs is: a commit that others may start from.
    commits: HashMap<JobId, String>,
    verdicts: Vec<Verdict>,
    signal: Option<ExitStatus>,
    done: bool,
}

impl Dispatcher {
    /// For a batch.
    pub(super) fn new(batch: Batch, context: RunContext, sink: Sink) -> Self {
        let Batch { jobs, slots, limits, before, notes } = batch;
        let (nodes, rules) = start::nodes(&jobs, slots, limits.max_failures, &before);
        let spent = before.values().map(Before::spent).fold(Usd::ZERO, |sum, spent| sum + spent);
        Self {
            scheduler: Scheduler::new(nodes, rules),
            jobs: Arc::new(jobs),
            context: Arc::new(context),
            purse: Purse::new(limits.max_cost, spent, None),
            limits,
            sink,
            events: mpsc::channel(256),
            tasks: JoinSet::new(),
            publishing: JoinSet::new(),
            running: BTreeMap::new(),
            ids: HashMap::new(),
            stopped: BTreeMap::new(),
            ended: BTreeMap::new(),
            before,
            notes,
            purses: HashMap::new(),
            commits: HashMap::new(),
            verdicts: Vec::new(),
            signal: None,
            done: false,
        }
    }

    /// Runs everything; gives back how the process exits and what could not be written.
    pub(super) async fn run(mut self, info: RunInfo, mut signals: Signals) -> (ExitStatus, Vec<String>) {
        if self.notes.is_empty() {
            self.tell(None, RunEventKind::RunStarted(info));
            self.tell_settled();
        } else {
            self.go_on(info);
        }
        self.schedule(Input::Start);
        self.listen(&mut signals).await;
        // A part of a batch in which no job happens to lie has not failed.
        let is_empty = self.jobs.is_empty();
        let of_verdicts = || ExitStatus::of(self.verdicts.iter().copied());
        let by_verdicts = || if is_empty { ExitStatus::Passed } else { of_verdicts() };
        let exit = self.signal.unwrap_or_else(by_verdicts);
        self.tell(None, RunEventKind::RunFinished { exit });
        (exit, self.sink.finish())
    }

    /// The loop itself, until every job has ended or the run is given up.
    async fn listen(&mut self, signals: &mut Signals) {
        let mut ticks = tokio::time::interval(TICK);
        let mut give_up_at = None;
        let mut end_at = self.limits.timeout.map(|limit| Elapsed::default().plus(limit));
        while !self.done || !self.publishing.is_empty() {
            tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    Asked::Status => {
                        let text = self.waits();
                        self.sink.say(&text);
                    }
                    // It comes back when the process goes on.
                    Asked::Pause => process::pause(),
                    Asked::End(_) if self.signal.is_some() => {
                        self.give_up();
                        break;
                    }
                    Asked::End(exit) => {
                        self.signal = Some(exit);
                        give_up_at = Some(self.context.clock.now().plus(SIGNAL_LIMIT));
                        self.tell(None, RunEventKind::Interrupted(exit));
                        self.schedule(Input::Halt(Cause::Interrupted));
                    }
                },
                Some(event) = self.events.1.recv() => self.sink.handle(&event),
                Some(joined) = self.tasks.join_next_with_id() => self.job_ended(joined),
                Some(_) = self.publishing.join_next() => self.hear(),
                _ = ticks.tick() => {
                    let now = self.context.clock.now();
                    self.sink.tick(now);
                    if give_up_at.is_some_and(|moment| now >= moment) {
                        self.give_up();
                        break;
                    }
                    if end_at.take_if(|moment| now >= *moment).is_some() {
                        self.schedule(Input::Halt(Cause::Timeout));
                    }
                }
            }
        }
    }

    fn schedule(&mut self, input: Input) {
        for action in self.scheduler.step(input) {
            match action {
                Action::Start(attempt) => self.start(attempt),
                Action::Stop(attempt, cause) => self.stop(attempt, cause),
                Action::Decide(job, Decision::By(number)) => self.decide(job, number),
                Action::Decide(job, Decision::Skipped(skip)) => {
                    let outcome = self.skipped(skip);
                    self.never_ran(job, outcome);
                }
                Action::Done => self.done = true,
            }
        }
    }

    fn stop(&mut self, attempt: Attempt, cause: Cause) {
        let reason = match cause {
            Cause::FailFast | Cause::Sibling => AbortReason::FailFast,
            Cause::Interrupted => AbortReason::Interrupt,
            Cause::Timeout => AbortReason::Timeout,
            Cause::Money => AbortReason::CostLimit,
        };
        self.stopped.entry(attempt).or_insert(cause);
        if let Some(abort) = self.running.get(&attempt) {
            // The first reason stands, but a signal outranks a limit, at which the work is still judged.
            let outranks = |set: AbortReason| {
                reason == AbortReason::Interrupt && matches!(set, AbortReason::Timeout | AbortReason::CostLimit)
            };
            abort.send_if_modified(|set| {
                let takes = set.is_none_or(outranks);
                if takes {
                    *set = Some(reason);
                }
                takes
            });
        }
    }

    /// An attempt's task ended. A panic is that job's outcome, and no other's.
    fn job_ended(&mut self, joined: Result<(Id, JobReport), JoinError>) {
        let (id, report) = match joined {
            Ok((id, report)) => (id, Ok(report)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(attempt) = self.ids.remove(&id) else { return };
        self.running.remove(&attempt);
        self.hear();
        let report = report.unwrap_or_else(|error| {
            let message = format!("the runner failed in this job: {}", panic_text(error));
            self.left_behind(attempt, Outcome::without_loop(Reason::Internal, message))
        });
        self.attempt_ended(attempt, report);
    }

    /// What was told before something ended comes first.
    fn hear(&mut self) {
        while let Ok(event) = self.events.1.try_recv() {
            self.sink.handle(&event);
        }
    }

    fn attempt_ended(&mut self, attempt: Attempt, report: JobReport) {
        let outcome = &report.outcome;
        let again = self.jobs[attempt.job].course.wants_retry(outcome.reason);
        let end = match (outcome.verdict(), self.stopped.contains_key(&attempt)) {
            (Verdict::Passed, _) => End::Passed,
            (Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled, true) => End::Stopped,
            (Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled, false) => End::Failed { again },
        };
        let is_dry = outcome.reason == Reason::CostLimit && self.purse.is_dry();
        self.keep_attempt(attempt, report);
        self.schedule(Input::Ended(attempt, end));
        if is_dry {
            self.schedule(Input::Halt(Cause::Money));
        }
    }

    /// The report of an attempt that ended without its own; what it worked in is still there.
    fn left_behind(&self, attempt: Attempt, outcome: Outcome) -> JobReport {
        let job = &self.jobs[attempt.job];
        let place = self.context.place(job, attempt.number);
        let worktree = Some(place.worktree).filter(|folder| folder.is_dir());
        let report = JobReport { outcome, worktree, ..blank_report(job, self.context.clock.now()) };
        JobReport { attempt: attempt.number, attempts: vec![report.as_attempt(attempt.number)], ..report }
    }

    fn never_ran(&mut self, index: usize, outcome: Outcome) {
        let report = JobReport { outcome, ..blank_report(&self.jobs[index], self.context.clock.now()) };
        self.finished(report);
    }

    fn finished(&mut self, report: JobReport) {
        self.verdicts.push(counted(&report));
        let job = report.info.id.clone();
        if let Some(commit) = report.commit.clone().or_else(|| report.base.clone()) {
            self.commits.insert(job.clone(), commit);
        }
        self.tell(Some(job), RunEventKind::JobFinished(Box::new(report)));
    }

    /// Ends without the jobs that still run: each is reported, and their processes die with the run.
    fn give_up(&mut self) {
        self.tasks.abort_all();
        self.publishing.abort_all();
        let left: Vec<Attempt> = std::mem::take(&mut self.running).into_keys().collect();
        for attempt in left {
            let message = "interrupted by a signal; its work was not collected, its worktree was left as it was";
            let report = self.left_behind(attempt, Outcome::without_loop(Reason::Interrupted, message));
            self.stopped.entry(attempt).or_insert(Cause::Interrupted);
            self.attempt_ended(attempt, report);
        }
    }

    fn tell(&mut self, job: Option<JobId>, kind: RunEventKind) {
        let event = RunEvent { at: self.context.clock.now(), job, kind };
        self.sink.handle(&event);
    }

    fn skipped(&self, skip: Skip) -> Outcome {
        match skip {
            Skip::Dependency(need) => {
                let need = &self.jobs[need].id;
                Outcome::without_loop(
                    Reason::Dependency,
                    format!("not started, because `{need}`, which it needs, did not pass"),
                )
            }
            Skip::Halted(Cause::FailFast | Cause::Sibling) => {
                Outcome::without_loop(Reason::FailFast, "not started, because another job failed")
            }
            Skip::Halted(Cause::Interrupted) => {
                Outcome::without_loop(Reason::Interrupted, "not started, because of a signal")
            }
            Skip::Halted(Cause::Timeout) => {
                let limit = self.limits.timeout.map(show_duration).unwrap_or_default();
                Outcome::without_loop(Reason::Timeout, format!("not started, because the run's time of {limit} was up"))
            }
            Skip::Halted(Cause::Money) => {
                let cap = self.limits.max_cost.map(|cap| format!(" of ${}", cap.dollars())).unwrap_or_default();
                Outcome::without_loop(Reason::CostLimit, format!("not started, because the run's money{cap} was spent"))
            }
        }
    }
}

/// How a job counts for the exit status: what had passed in the run that this one repeats has passed.
pub(super) fn counted(report: &JobReport) -> Verdict {
    let reason = report.outcome.reason;
    if reason == Reason::AlreadyDone { Verdict::Passed } else { reason.verdict() }
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
