//! Drives the query of a job: parameters in, events out to the reporter and the transcript, one terminal back.

use super::changes::Changes;
use super::clients::{Clients, Toolsets};
use super::gates::Gates;
use super::job::JobRun;
use super::looped;
use super::opening::{self, SYSTEM_PROMPT};
use super::past::Talk;
use super::query::{Deps, QueryEvent, QueryRun};
use super::savepoints::{Next, Savepoints};
use super::stop_hooks::{HookRef, StopHooks};
use super::tool_hooks::{HookPlace, ToolHooks};
use super::tooling::{Tooling, USABLE};
use super::workspace::Workspace;
use crate::error::Error;
use crate::event::{JobReport, RunEventKind};
use crate::model::Key;
use crate::outcome::{AbortReason, Outcome, Reason, Terminal};
use crate::output::Transcript;
use crate::plan::{GatePlan, ModelPlan, OnFail, PlannedJob, Provider};
use crate::query::{
    AGENT, Caps, Features, HookRule, HookRuleKind, ModelLimits, Models, Notice, OnRed, Params, Query, estimate,
};
use crate::report::json::TranscriptMeta;
use crate::tools::{ToolContext, Toolbox};
use crate::units::{Tokens, fnv1a};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tokio::sync::RwLock;

/// What a conversation is held over.
pub(super) struct Conversation<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) gates: &'a Arc<Gates>,
    pub(super) changes: &'a Changes,
}

/// Holds the conversation of a job to its end.
///
/// # Errors
/// An outcome when it could not even begin.
pub(super) async fn converse(
    run: &mut JobRun<'_>,
    over: &Conversation<'_>,
    talk: Option<Box<Talk>>,
) -> Result<Terminal, Box<Outcome>> {
    let job = run.job;
    let opening = opening::open(job, over.workspace.root());
    for note in &opening.notes {
        run.reporter.tell(RunEventKind::Note(note.clone())).await;
    }
    let toolbox = toolbox(job, over.workspace)?;
    let tools = Toolsets::all();
    let tool_names: Vec<&str> = tools.job.iter().map(|tool| tool.name).collect();
    let overhead = estimate(tools.job_bytes());
    let transcript = transcript(run, over, &tool_names, talk.as_deref())?;
    let place = place(run, over);
    let hooks = Arc::new(StopHooks::new(Arc::clone(over.gates), job.hooks.clone(), place.clone()));
    let params = params(run, over, &hooks, opening.blocks, overhead);
    let tool_hooks = ToolHooks { plans: job.tool_hooks.clone(), place, runs: AtomicU32::new(0) };
    let quiet = Arc::new(RwLock::new(()));
    let deps = Deps {
        quiet: Arc::clone(&quiet),
        clients: Arc::new(clients(run, tools)?),
        tooling: Arc::new(Tooling { toolbox, hooks: tool_hooks, clock: run.context.clock }),
        hooks: Arc::clone(&hooks),
        clock: run.context.clock,
    };
    let reference = run.place.reference.clone();
    let booked = talk.as_ref().map(|talk| talk.stage.past.saved().used).unwrap_or_default();
    let worktree = Arc::clone(over.workspace.worktree());
    let mut savepoints = Savepoints::new(transcript, worktree, over.changes, quiet, reference, booked);
    let query = if let Some(talk) = talk {
        Query::resumed(params, talk.stage.past)
    } else {
        let problem = savepoints.started(run.context.clock.now()).await.map_err(|error| not_written(&error))?;
        tell_why_not(run, problem, &mut false).await;
        Query::new(params)
    };
    let tooling = Arc::clone(&deps.tooling);
    let mut query = QueryRun::new(query, deps, run.abort.clone(), Arc::clone(&run.purse));
    let ended = listen(run, over, (&hooks, &tooling), &mut query, &mut savepoints).await;
    if ended.is_err() {
        // Nothing may write to the tree while it is put away.
        query.stop().await;
    }
    ended
}

/// Takes the events of a query to its end.
async fn listen(
    run: &mut JobRun<'_>,
    over: &Conversation<'_>,
    (hooks, tooling): (&StopHooks, &Tooling),
    query: &mut QueryRun,
    savepoints: &mut Savepoints<'_>,
) -> Result<Terminal, Box<Outcome>> {
    let mut told_why_not = false;
    loop {
        let clock = run.context.clock;
        let event = match savepoints.next(query, || clock.now()).await.map_err(|error| not_written(&error))? {
            Next::Event(Some(event)) => event,
            Next::Event(None) => return Err(broken("the query ended without a terminal")),
            Next::Kept(kept) => {
                tell_why_not(run, kept.err(), &mut told_why_not).await;
                continue;
            }
        };
        keep_books(run, query.query());
        let now = run.context.clock.now();
        savepoints.watch(&event, |tool| tooling.only_looks(tool));
        savepoints.keep_books(now, query.query()).map_err(|error| not_written(&error))?;
        let transcript = &mut savepoints.transcript;
        match event {
            QueryEvent::Finished(terminal) => {
                // One that was stopped from outside goes on from its last savepoint.
                if !matches!(terminal.abort, Some(AbortReason::Interrupt | AbortReason::FailFast)) {
                    let outcome = Outcome { terminal: Some((*terminal).clone()), ..run.report.outcome.clone() };
                    let report = JobReport { outcome, gates: over.gates.reports(), ..run.report.clone() };
                    let kept = savepoints.end(now, &report).await.map_err(|error| not_written(&error))?;
                    tell_why_not(run, kept, &mut told_why_not).await;
                }
                return Ok(*terminal);
            }
            QueryEvent::Notice(notice @ Notice::Savepoint { .. }) => {
                let report = JobReport { gates: over.gates.reports(), ..run.report.clone() };
                savepoints.save(now, &notice, &report).await.map_err(|error| not_written(&error))?;
            }
            QueryEvent::Record { agent, message } => {
                // A conversation that cannot be written down must not cost more money.
                transcript.message(now, agent, &message).map_err(|error| not_written(&error))?;
            }
            QueryEvent::KeepResult { file, content } => {
                let path = over.workspace.outputs().join(file);
                run.context.files.replace(&path, &content).map_err(|error| not_written(&error))?;
            }
            other @ (QueryEvent::Notice(_)
            | QueryEvent::ToolStarted { .. }
            | QueryEvent::ToolFinished { .. }
            | QueryEvent::HookStarted { .. }
            | QueryEvent::HookFinished { .. }
            | QueryEvent::Warning(_)
            | QueryEvent::Progress(_)) => {
                if let QueryEvent::Notice(Notice::Compacted { agent, summary, kept_from }) = &other {
                    let written = transcript.compaction(now, *agent, *summary, *kept_from);
                    written.map_err(|error| not_written(&error))?;
                }
                if let QueryEvent::Notice(Notice::Turn { turn, usage, cost, request_id, .. }) = &other {
                    let written = transcript.turn(now, *turn, usage, *cost, request_id.as_deref());
                    written.map_err(|error| not_written(&error))?;
                }
                looped::report(run, hooks, other).await;
            }
        }
    }
}

/// Tells once that the job could not be gone on with, should this process die.
async fn tell_why_not(run: &JobRun<'_>, problem: Option<String>, told: &mut bool) {
    if let Some(problem) = problem
        && !std::mem::replace(told, true)
    {
        let text = format!("there is no savepoint to go on from, should the runner be killed: {problem}");
        run.reporter.tell(RunEventKind::Warning(text)).await;
    }
}

/// The outcome of a job that the runner itself failed.
fn broken(problem: impl Into<String>) -> Box<Outcome> {
    Box::new(Outcome::without_loop(Reason::Internal, problem))
}

fn not_written(error: &Error) -> Box<Outcome> {
    broken(error.to_string())
}

fn transcript(
    run: &JobRun<'_>,
    over: &Conversation<'_>,
    tools: &[&str],
    talk: Option<&Talk>,
) -> Result<Transcript, Box<Outcome>> {
    let job = run.job;
    if let Some(talk) = talk {
        let (files, now) = (&run.context.files, run.context.clock.now());
        let transcript = Transcript::reopen(files, &talk.file, talk.whole, now, talk.stage.savepoint);
        return transcript.map_err(|error| not_written(&error));
    }
    let root = over.workspace.root().to_string_lossy();
    let meta = TranscriptMeta {
        run: &run.context.run,
        job: &job.id,
        version: env!("CARGO_PKG_VERSION"),
        model: &job.model.name,
        system: SYSTEM_PROMPT,
        tools: tools.to_vec(),
        base: Some(over.workspace.base()),
        branch: Some(&run.place.branch),
        worktree: Some(&root),
    };
    let path = run.place.folder.join("transcript.jsonl");
    Transcript::create(&run.context.files, &path, &meta).map_err(|error| not_written(&error))
}

/// Takes over what the query knows about turns and money, so that a report is right however the job ends.
fn keep_books(run: &mut JobRun<'_>, query: &Query) {
    run.report.turns = query.turns();
    run.report.model_calls = query.model_calls();
    run.report.usage = *query.ledger().used();
    run.report.cost = run.job.model.prices.as_ref().map(|_| query.ledger().spent());
}

fn toolbox(job: &PlannedJob, workspace: &Workspace) -> Result<Toolbox, Box<Outcome>> {
    let context = ToolContext {
        root: workspace.root().to_owned(),
        env: workspace.env().clone(),
        outputs: workspace.outputs().to_owned(),
        protect: job.protect.clone(),
    };
    Toolbox::new(context).map_err(broken)
}

fn clients(run: &JobRun<'_>, tools: Toolsets) -> Result<Clients, Box<Outcome>> {
    let key = match &run.job.model.provider {
        Provider::Anthropic { api_key_env, .. } => run.context.env.get(api_key_env).and_then(|key| Key::new(key)),
        Provider::Replay { .. } => None,
    };
    Clients::new(&run.job.model, key, run.context.timeouts, &run.context.http, tools)
        .map_err(|problem| Box::new(Outcome::without_loop(Reason::InvalidRequest, problem)))
}

/// A name of the conversation that no other one has.
fn session(run: &JobRun<'_>) -> String {
    let number = run.place.number;
    let tail = if number > 1 { format!("/{number}") } else { String::new() };
    format!("{}/{}{tail}", run.context.run, run.job.id)
}

/// Where the hooks of the job run, and what they are told.
fn place(run: &JobRun<'_>, over: &Conversation<'_>) -> HookPlace {
    HookPlace {
        cwd: over.workspace.root().to_owned(),
        env: over.workspace.env().clone(),
        outputs: over.workspace.outputs().to_owned(),
        session: session(run),
        transcript: run.place.folder.join("transcript.jsonl"),
    }
}

fn params(
    run: &JobRun<'_>,
    over: &Conversation<'_>,
    hooks: &StopHooks,
    prompt: Vec<String>,
    overhead: Tokens,
) -> Params {
    let job = run.job;
    let model = &job.model;
    let is_recorded = matches!(model.provider, Provider::Replay { .. });
    Params {
        prompt,
        follow_ups: job.follow_ups.clone(),
        max_turns: job.limits.max_turns,
        caps: Caps { tokens: job.limits.token_budget, cost: job.limits.max_cost },
        keep_working: job.limits.keep_working,
        task_budget: job.limits.task_budget,
        models: Models {
            main: limits(model),
            fallback: model.fallback.as_deref().map(limits),
            // Recorded answers have one order; a call beside the others would take one of theirs.
            small: model.small.as_deref().filter(|_| !is_recorded).map(limits),
        },
        overhead,
        deadline: run.deadline,
        patience: run.context.patience,
        loop_limit: job.limits.loop_limit,
        // Each job has its own chance, the same job of the same run always the same.
        seed: fnv1a(&session(run)),
        hooks: hooks.order().iter().filter_map(|hook| rule(hooks, *hook)).collect(),
        tools: USABLE,
        clear_agents: job.tool_hooks.iter().any(|hook| hook.matches.matches(AGENT.name)),
        outputs: over.workspace.outputs().display().to_string(),
        features: Features::default(),
    }
}

fn limits(plan: &ModelPlan) -> ModelLimits {
    ModelLimits {
        name: plan.name.clone(),
        max_output: plan.max_output,
        escalated_output: plan.escalated_output,
        context_window: plan.context_window,
        prices: plan.prices.clone().unwrap_or_default(),
        binds_thinking: plan.binds_thinking,
    }
}

fn rule(hooks: &StopHooks, hook: HookRef) -> Option<HookRule> {
    match hook {
        HookRef::Gate(gate) => hooks.gates.plans().get(gate).map(gate_rule),
        HookRef::Hook(hook) => hooks.hook(hook).map(|hook| HookRule {
            name: hook.name.clone(),
            command: hook.run.shown(),
            kind: HookRuleKind::Hook,
            max_blocks: hook.max_blocks,
            on_red: on_red(hook.on_fail),
        }),
    }
}

fn gate_rule(gate: &GatePlan) -> HookRule {
    HookRule {
        name: gate.name.clone(),
        command: gate.run.shown(),
        kind: HookRuleKind::Gate,
        max_blocks: gate.max_blocks,
        on_red: on_red(gate.on_fail),
    }
}

const fn on_red(on_fail: OnFail) -> OnRed {
    match on_fail {
        OnFail::Block => OnRed::Block,
        OnFail::Stop => OnRed::Stop,
    }
}
