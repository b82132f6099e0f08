//! Runs the stop hooks of a job, gates and others, in the order of the job file.

use super::gates::Gates;
use super::tool_hooks::HookPlace;
use crate::event::GateMoment;
use crate::hooks::{StopDecision, StopHookRun, StopInput, run_stop_hook};
use crate::plan::HookPlan;
use crate::query::{AgentId, AgentKind, HookResult, HookStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The stop hooks of one job.
pub(super) struct StopHooks {
    pub(super) gates: Arc<Gates>,
    hooks: Vec<HookPlan>,
    place: HookPlace,
    order: Vec<HookRef>,
    runs: AtomicU32,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookRef {
    /// A gate, by its place among the gates.
    Gate(usize),
    /// Another hook, by its place among those.
    Hook(usize),
}

impl StopHooks {
    pub(super) fn new(gates: Arc<Gates>, hooks: Vec<HookPlan>, place: HookPlace) -> Self {
        let gate_places = gates.plans().iter().enumerate().map(|(at, gate)| (gate.place, HookRef::Gate(at)));
        let hook_places = hooks.iter().enumerate().map(|(at, hook)| (hook.place, HookRef::Hook(at)));
        let mut order: Vec<(usize, HookRef)> = gate_places.chain(hook_places).collect();
        order.sort_by_key(|(place, _)| *place);
        let order = order.into_iter().map(|(_, hook)| hook).collect();
        Self { gates, hooks, place, order, runs: AtomicU32::new(0) }
    }

    /// All of them, in the order in which they run.
    pub(super) fn order(&self) -> &[HookRef] {
        &self.order
    }

    /// What the hook with this number is.
    pub(super) fn get(&self, index: usize) -> Option<HookRef> {
        self.order.get(index).copied()
    }

    /// A hook that is no gate.
    pub(super) fn hook(&self, index: usize) -> Option<&HookPlan> {
        self.hooks.get(index)
    }

    /// Runs one; gives back what it said, and what a reader should know.
    pub(super) async fn run(
        &self,
        index: usize,
        stop_hook_active: bool,
        last_words: String,
        cancel: &CancellationToken,
    ) -> (HookResult, Option<String>) {
        match self.get(index) {
            Some(HookRef::Gate(gate)) => (self.gates.run(gate, GateMoment::Stop, cancel).await, None),
            Some(HookRef::Hook(hook)) => self.run_hook(hook, stop_hook_active, last_words, cancel).await,
            None => broken(format!("the job has no stop hook number {index}")),
        }
    }

    async fn run_hook(
        &self,
        index: usize,
        stop_hook_active: bool,
        last_assistant_message: String,
        cancel: &CancellationToken,
    ) -> (HookResult, Option<String>) {
        let Some(plan) = self.hooks.get(index) else { return broken(format!("the job has no hook number {index}")) };
        let session = self.place.session(AgentId::JOB, AgentKind::Job);
        let input = StopInput { session, stop_hook_active, last_assistant_message };
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let log = self.place.outputs.join(format!("stop-hook-{number}.log"));
        let place = &self.place;
        let run = run_stop_hook(&plan.run, &place.cwd, &place.env, plan.timeout, &log, cancel, &input).await;
        let StopHookRun { decision, tail, duration, exit_code: _, warning } = run;
        let status = match decision {
            StopDecision::Pass => HookStatus::Pass,
            StopDecision::Block(words) => HookStatus::Object(words),
            StopDecision::Prevent(words) => HookStatus::Prevent(words),
            StopDecision::Broken(why) => HookStatus::Broken(why),
        };
        (HookResult { status, tail, duration }, warning.map(|warning| format!("hook `{}`: {warning}", plan.name)))
    }
}

fn broken(why: String) -> (HookResult, Option<String>) {
    (HookResult { status: HookStatus::Broken(why), tail: String::new(), duration: Duration::ZERO }, None)
}
