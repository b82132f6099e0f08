//! Runs the gates of one job and keeps the books about their runs.

use super::changes::Changes;
use crate::event::{GateMoment, GateReport, GateStatus};
use crate::hooks::run_gate;
use crate::plan::{Before, GatePlan};
use crate::process::Environment;
use crate::query::{HookResult, HookStatus};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The gates of one job.
pub(super) struct Gates {
    plans: Vec<GatePlan>,
    cwd: PathBuf,
    env: Environment,
    /// The job's `tools` folder, and how it is called relative to the run's folder.
    outputs: PathBuf,
    shown_outputs: String,
    books: Mutex<Vec<Book>>,
    /// Set when the agent is given the tree.
    changes: OnceLock<Changes>,
}

/// What is known about one gate.
#[derive(Clone, Debug, Default)]
struct Book {
    before: Option<GateStatus>,
    last: Option<Last>,
    after: Option<Last>,
    runs: u32,
    flaky: bool,
}

#[derive(Clone, Debug)]
struct Last {
    status: GateStatus,
    exit_code: Option<i32>,
    result: HookResult,
    log: String,
}

impl Gates {
    /// For a job's worktree.
    pub(super) fn new(
        plans: Vec<GatePlan>,
        cwd: PathBuf,
        env: Environment,
        outputs: PathBuf,
        shown_outputs: String,
    ) -> Self {
        let books = Mutex::new(vec![Book::default(); plans.len()]);
        Self { plans, cwd, env, outputs, shown_outputs, books, changes: OnceLock::new() }
    }

    /// Takes over what another process has found.
    pub(super) fn go_on(&self, reports: &[GateReport]) {
        let mut books = self.lock();
        for (plan, book) in self.plans.iter().zip(books.iter_mut()) {
            if let Some(known) = reports.iter().find(|report| report.name == plan.name) {
                (book.before, book.runs, book.flaky) = (known.before, known.runs, known.flaky);
            }
        }
    }

    /// Keeps an eye on the tree from here on, so that what gates leave in it is not taken for work.
    pub(super) fn watch(&self, changes: Changes) -> &Changes {
        self.changes.get_or_init(|| changes)
    }

    /// The plans, in the order of the job file.
    pub(super) fn plans(&self) -> &[GatePlan] {
        &self.plans
    }

    /// The name of one.
    pub(super) fn name(&self, index: usize) -> String {
        self.plans.get(index).map(|plan| plan.name.clone()).unwrap_or_default()
    }

    /// Runs one, with its retries.
    pub(super) async fn run(&self, index: usize, moment: GateMoment, cancel: &CancellationToken) -> HookResult {
        let Some(plan) = self.plans.get(index) else {
            let status = HookStatus::Broken(format!("the job has no gate number {index}"));
            return HookResult { status, tail: String::new(), duration: Duration::ZERO };
        };
        let watched = self.changes.get().filter(|_| moment == GateMoment::Stop);
        if let Some(changes) = watched.filter(|_| index == 0) {
            changes.before_gates().await;
        }
        let number = self.lock().get(index).map_or(0, |book| book.runs) + 1;
        let file = format!("gate-{}-{}-{number}.log", file_name(&plan.name), moment.code());
        let run = run_gate(plan, &self.cwd, &self.env, &self.outputs.join(&file), cancel).await;
        let status = status(&run.result.status);
        if let Some(book) = self.lock().get_mut(index) {
            book.runs += run.runs;
            book.flaky |= run.flaky;
            let log = format!("{}/{file}", self.shown_outputs);
            let last = Last { status, exit_code: run.exit_code, result: run.result.clone(), log };
            match moment {
                GateMoment::Before => book.before = Some(status),
                GateMoment::Stop => {}
                GateMoment::Final => book.after = Some(last.clone()),
            }
            book.last = Some(last);
        }
        if let Some(changes) = watched.filter(|_| index + 1 == self.plans.len()) {
            changes.after_gates().await;
        }
        run.result
    }

    /// Whether a gate was red on the base, as it had to be.
    pub(super) fn proved_red(&self, index: usize) -> bool {
        let wanted = self.plans.get(index).is_some_and(|plan| plan.before == Before::Fail);
        wanted && self.lock().get(index).is_some_and(|book| book.before == Some(GateStatus::Fail))
    }

    /// The exit code of a gate's last run.
    pub(super) fn exit_code(&self, index: usize) -> Option<i32> {
        self.lock().get(index).and_then(|book| book.last.as_ref()).and_then(|last| last.exit_code)
    }

    /// What is known about all of them.
    pub(super) fn reports(&self) -> Vec<GateReport> {
        let books = self.lock().clone();
        let report = |(plan, book): (&GatePlan, Book)| {
            let shown = book.after.as_ref().or(book.last.as_ref());
            GateReport {
                name: plan.name.clone(),
                command: plan.run.shown(),
                before: book.before,
                after: book.after.as_ref().map(|last| last.status),
                exit_code: book.after.as_ref().and_then(|last| last.exit_code),
                runs: book.runs,
                flaky: book.flaky,
                duration: shown.map(|last| last.result.duration).unwrap_or_default(),
                tail: shown.map(|last| last.result.tail.clone()).unwrap_or_default(),
                log: shown.map(|last| last.log.clone()),
            }
        };
        self.plans.iter().zip(books).map(report).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Book>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a gate's end says.
pub(super) const fn status(status: &HookStatus) -> GateStatus {
    match status {
        HookStatus::Pass => GateStatus::Pass,
        HookStatus::Fail { .. } | HookStatus::Object(_) | HookStatus::Prevent(_) => GateStatus::Fail,
        HookStatus::TimedOut | HookStatus::Broken(_) => GateStatus::Error,
    }
}

/// A gate's name as a part of a file's name.
fn file_name(name: &str) -> String {
    name.chars().take(60).map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' }).collect()
}
