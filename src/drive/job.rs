//! One job from its worktree to its report: worktree, setup, gates on the base, the query, judging, clean-up.

use super::changes::Changes;
use super::closing;
use super::context::{Reporter, RunContext};
use super::conversation::{Conversation, converse};
use super::gates::{self, Gates};
use super::judging;
use super::past::{self, Past, Talk};
use super::place::Place;
use super::purse::Purse;
use super::workspace::Workspace;
use crate::event::{GateMoment, JobInfo, JobReport, Phase, RunEventKind};
use crate::hooks::run_setup;
use crate::judge::{BaseGate, judge_base};
use crate::outcome::{AbortReason, Outcome, Reason};
use crate::plan::{Before, PlannedJob};
use crate::query::{HookResult, describe};
use crate::units::{Elapsed, Turns, Usage, show_duration};
use crate::worktree::TreeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A worktree must be there within this time; the checkout of a large repository takes seconds.
const WORKTREE_LIMIT: Duration = Duration::from_mins(5);

/// How long a worktree that is given up may take to be gone again.
const TAKE_BACK_LIMIT: Duration = Duration::from_secs(10);

/// The abort signal of a job: set once, never taken back.
pub(super) type Abort = watch::Receiver<Option<AbortReason>>;

/// A job at work.
pub(super) struct JobRun<'a> {
    pub(super) job: &'a PlannedJob,
    pub(super) context: &'a RunContext,
    pub(super) reporter: &'a Reporter,
    pub(super) abort: Abort,
    /// Cancelled when the job is aborted: for everything before the query.
    pub(super) stop: CancellationToken,
    /// Cancelled when nobody will read a judgement: for everything after the query. At a limit of the run the work is judged.
    pub(super) hurry: CancellationToken,
    pub(super) deadline: Elapsed,
    pub(super) report: JobReport,
    /// Where this try has its things.
    pub(super) place: Place,
    /// What it may spend.
    pub(super) purse: Arc<Purse>,
    /// What another process has left of it.
    pub(super) past: Option<Past>,
    /// The tree that the final gates judge: what they write into the worktree themselves is not part of the work.
    pub(super) judged: Option<TreeId>,
}

/// What one try at a job is given.
pub(super) struct Try {
    /// Where it has its things.
    pub(super) place: Place,
    /// What it may spend.
    pub(super) purse: Arc<Purse>,
    /// How it is stopped.
    pub(super) abort: Abort,
    /// What another process has left of it.
    pub(super) past: Option<Past>,
}

/// Tries a job once, to its report. Never fails: whatever goes wrong is an outcome.
pub(super) async fn run_job(job: &PlannedJob, context: &RunContext, reporter: &Reporter, one: Try) -> JobReport {
    let Try { place, purse, abort, past } = one;
    // A job that goes on keeps its time: its limit is one for all of it.
    let begun = past.as_ref().and_then(|past| past.talk.as_ref()).map(|talk| talk.stage.report.clone());
    let started_at = begun.as_ref().map_or_else(|| context.clock.now(), |report| report.started_at);
    reporter.tell(RunEventKind::JobStarted).await;
    let (stop, hurry) = (CancellationToken::new(), CancellationToken::new());
    let mut run = JobRun {
        job,
        context,
        reporter,
        abort: abort.clone(),
        stop: stop.clone(),
        hurry: hurry.clone(),
        deadline: started_at.plus(job.limits.timeout),
        report: begun.map_or_else(|| blank_report(job, started_at), |report| JobReport { info: job.info(), ..report }),
        place,
        purse,
        past,
        judged: None,
    };
    let pass_on = async move {
        let mut abort = abort;
        if abort.wait_for(Option::is_some).await.is_ok() {
            stop.cancel();
        }
        if abort.wait_for(|reason| reason.is_some_and(is_hurried)).await.is_ok() {
            hurry.cancel();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = run.work() => run.report.outcome = outcome,
        () = pass_on => {}
    }
    run.report.duration = context.clock.now().since(started_at);
    run.report.attempt = run.place.number;
    run.report.attempts = vec![run.report.as_attempt(run.place.number)];
    run.report
}

/// Whether somebody wants it to be over at once: at a limit, what was done is judged all the same.
const fn is_hurried(reason: AbortReason) -> bool {
    match reason {
        AbortReason::Interrupt | AbortReason::FailFast => true,
        AbortReason::Timeout | AbortReason::CostLimit | AbortReason::LoopDetected | AbortReason::Input => false,
    }
}

/// The report of a job of which nothing is known yet; should nothing ever be known, it says so.
pub(super) fn blank_report(job: &PlannedJob, started_at: Elapsed) -> JobReport {
    let cost = job.model.prices.as_ref().map(|_| crate::units::Usd::ZERO);
    JobReport { cost, ..unknown_report(job.info(), started_at) }
}

/// The same of a job whose plan is not known.
pub(super) fn unknown_report(info: JobInfo, started_at: Elapsed) -> JobReport {
    JobReport {
        info,
        outcome: Outcome::without_loop(Reason::Internal, "the job ended without an outcome"),
        transitions: Vec::new(),
        turns: Turns(0),
        model_calls: 0,
        retries: 0,
        counts: crate::event::LoopCounts::default(),
        usage: Usage::default(),
        cost: None,
        started_at,
        duration: Duration::ZERO,
        gates: Vec::new(),
        protected_changes: Vec::new(),
        base: None,
        branch: None,
        commit: None,
        worktree: None,
        last_words: String::new(),
        attempt: 1,
        attempts: Vec::new(),
    }
}

impl JobRun<'_> {
    async fn work(&mut self) -> Outcome {
        self.phase(Phase::Worktree).await;
        let mut past = self.past.take();
        let workspace = match self.open(past.as_mut()).await {
            Ok(workspace) => workspace,
            Err(outcome) => return *outcome,
        };
        self.report.base = Some(workspace.base().to_owned());
        for note in workspace.notes().iter().chain(past.iter().flat_map(|past| &past.notes)) {
            self.reporter.tell(RunEventKind::Note(note.clone())).await;
        }
        let talk = past.and_then(|past| past.talk);
        if talk.is_none() {
            past::put_aside(&self.place.folder);
        }
        let gates = Arc::new(workspace.gates(self.job, &self.place));
        let outcome = self.in_workspace(&workspace, &gates, talk).await;
        self.report.gates = gates.reports();
        self.phase(Phase::Cleanup).await;
        closing::close(self, workspace, outcome).await
    }

    /// Makes the workspace. At a limit it is told to stop and waited for, so that it can take back what it has begun.
    async fn open(&self, past: Option<&mut Past>) -> Result<Workspace, Box<Outcome>> {
        let stop = self.stop.child_token();
        // Where very many jobs begin at once, each waits for its turn: that is no fault of its repository.
        let _turn = tokio::select! {
            () = stop.cancelled() => return Err(Box::new(self.stopped())),
            turn = tokio::time::timeout(self.time_left(), self.context.making.acquire()) => turn,
        };
        let mut opening = std::pin::pin!(Workspace::open(self.job, self.context, &self.place, past, &stop));
        let limit = WORKTREE_LIMIT.min(self.time_left());
        let opened = if let Ok(opened) = tokio::time::timeout(limit, opening.as_mut()).await {
            opened
        } else {
            stop.cancel();
            drop(tokio::time::timeout(TAKE_BACK_LIMIT, opening).await);
            Err(format!("the worktree was not made within {}", show_duration(limit)))
        };
        opened.map_err(|problem| {
            Box::new(if self.aborted().is_some() {
                self.stopped()
            } else if self.time_left().is_zero() {
                self.out_of_time("the making of the worktree")
            } else {
                Outcome::without_loop(Reason::WorktreeFailed, problem)
            })
        })
    }

    async fn in_workspace(&mut self, workspace: &Workspace, gates: &Arc<Gates>, talk: Option<Box<Talk>>) -> Outcome {
        if workspace.is_new()
            && let Some(outcome) = self.set_up(workspace).await
        {
            return outcome;
        }
        let given = match &talk {
            None => {
                if let Some(outcome) = self.judge_base(gates).await {
                    return outcome;
                }
                self.given(workspace).await
            }
            Some(talk) => {
                gates.go_on(&talk.stage.report.gates);
                self.given_before(workspace, talk).await
            }
        };
        let changes = match given {
            Ok(changes) => gates.watch(changes),
            Err(problem) => return Outcome::without_loop(Reason::WorktreeFailed, problem),
        };
        let ended = talk.as_ref().filter(|talk| talk.stage.ended);
        if let Some(terminal) = ended.and_then(|talk| talk.stage.report.outcome.terminal.clone()) {
            return judging::judge(self, workspace, gates, changes, terminal).await;
        }
        self.phase(Phase::Query).await;
        let conversation = Conversation { workspace, gates, changes };
        let terminal = match converse(self, &conversation, talk).await {
            Ok(terminal) => terminal,
            Err(outcome) => return *outcome,
        };
        judging::judge(self, workspace, gates, changes, terminal).await
    }

    /// What the agent is given. What setup and gates left in the tree is not its work.
    async fn given(&self, workspace: &Workspace) -> Result<Changes, String> {
        let start = workspace.worktree().snapshot().await?;
        let ignored = judging::ignored_at_protected(self.job, workspace, &start).await?;
        Ok(Changes::new(Arc::clone(workspace.worktree()), start, ignored))
    }

    /// What the agent was given when another process began the job; in a worktree that was made anew, its work comes back.
    async fn given_before(&self, workspace: &Workspace, talk: &Talk) -> Result<Changes, String> {
        let worktree = workspace.worktree();
        let stand = &talk.stage.stand;
        if workspace.is_new()
            && let Some(tree) = &stand.tree
        {
            let tree = TreeId::new(tree)?;
            worktree.return_to(&tree, &worktree.snapshot().await?).await?;
        }
        let start = TreeId::new(&talk.given.tree)?;
        let changes = Changes::new(Arc::clone(worktree), start, talk.given.ignored.clone());
        Ok(changes.going_on(TreeId::new(&stand.given)?, stand.by_agent))
    }

    /// Runs the setup commands; an outcome when one fails.
    async fn set_up(&mut self, workspace: &Workspace) -> Option<Outcome> {
        if self.job.worktree.setup.is_empty() {
            return None;
        }
        self.phase(Phase::Setup).await;
        for (index, command) in self.job.worktree.setup.iter().enumerate() {
            let log = workspace.outputs().join(format!("setup-{}.log", index + 1));
            let limit = self.time_left();
            let run = run_setup(command, workspace.root(), workspace.env(), limit, &log, &self.stop).await;
            let Err(problem) = run else { continue };
            return Some(if self.aborted().is_some() {
                self.stopped()
            } else if self.time_left().is_zero() {
                self.out_of_time("a setup command")
            } else {
                let message = format!("setup command `{}` {}", command.shown(), problem.how);
                Outcome::without_loop(Reason::SetupFailed, message).with_detail(problem.tail)
            });
        }
        None
    }

    /// Runs the gates whose state on the untouched base was asked for; an outcome when one is not as it must be.
    async fn judge_base(&mut self, gates: &Gates) -> Option<Outcome> {
        let asked = |(_, plan): &(usize, &crate::plan::GatePlan)| plan.before != Before::Any;
        let asked: Vec<_> = gates.plans().iter().enumerate().filter(asked).collect();
        if asked.is_empty() {
            return None;
        }
        self.phase(Phase::Before).await;
        for (index, plan) in asked {
            let result = self.run_gate(gates, index, GateMoment::Before).await;
            if self.aborted().is_some() {
                return Some(self.stopped());
            }
            if self.time_left().is_zero() {
                return Some(self.out_of_time("a gate on the untouched base"));
            }
            let status = gates::status(&result.status);
            let how = describe(&result);
            let gate = BaseGate { name: &plan.name, wanted: plan.before, status, how: &how, tail: &result.tail };
            if let Some(outcome) = judge_base(&gate) {
                return Some(outcome);
            }
        }
        None
    }

    /// Runs a gate and tells about it.
    pub(super) async fn run_gate(&self, gates: &Gates, index: usize, moment: GateMoment) -> HookResult {
        self.gate_started(gates, index, moment).await;
        let cancel = match moment {
            GateMoment::Before | GateMoment::Stop => &self.stop,
            GateMoment::Final => &self.hurry,
        };
        let result = gates.run(index, moment, cancel).await;
        self.gate_finished(gates, index, moment, &result).await;
        result
    }

    pub(super) async fn gate_started(&self, gates: &Gates, index: usize, moment: GateMoment) {
        self.reporter.tell(RunEventKind::GateStarted { gate: gates.name(index), moment }).await;
    }

    pub(super) async fn gate_finished(&self, gates: &Gates, index: usize, moment: GateMoment, result: &HookResult) {
        let event = RunEventKind::GateFinished {
            gate: gates.name(index),
            moment,
            status: gates::status(&result.status),
            exit_code: gates.exit_code(index),
            duration: result.duration,
        };
        self.reporter.tell(event).await;
    }

    pub(super) async fn phase(&self, phase: Phase) {
        self.reporter.tell(RunEventKind::Phase(phase)).await;
    }

    /// What is left of the job's time.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline.since(self.context.clock.now())
    }

    /// Why the job was aborted, if it was.
    pub(super) fn aborted(&self) -> Option<AbortReason> {
        *self.abort.borrow()
    }

    /// Whether somebody wants it to be over at once.
    pub(super) fn hurried(&self) -> bool {
        self.aborted().is_some_and(is_hurried)
    }

    /// The outcome of a job that was aborted while its loop did not run.
    pub(super) fn stopped(&self) -> Outcome {
        let (reason, message) = match self.aborted() {
            Some(AbortReason::FailFast) => (Reason::FailFast, "stopped because another job failed"),
            Some(AbortReason::Timeout) => (Reason::Timeout, "the time of the run was up before its work began"),
            Some(AbortReason::CostLimit) => (Reason::CostLimit, "the money of the run was spent before its work began"),
            Some(AbortReason::Interrupt | AbortReason::LoopDetected | AbortReason::Input) | None => {
                (Reason::Interrupted, "interrupted by a signal")
            }
        };
        Outcome::without_loop(reason, message)
    }

    fn out_of_time(&self, what: &str) -> Outcome {
        let limit = show_duration(self.job.limits.timeout);
        Outcome::without_loop(Reason::Timeout, format!("the job's time of {limit} ran out during {what}"))
    }
}
