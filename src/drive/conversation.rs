//! Drives the query of a job: parameters in, events out to the reporter and the transcript, one terminal back.

use super::gates::Gates;
use super::job::JobRun;
use super::opening::{self, SYSTEM_PROMPT};
use super::query::{Deps, QueryEvent, QueryRun};
use super::workspace::Workspace;
use crate::clean;
use crate::error::Error;
use crate::event::{GateMoment, RunEventKind};
use crate::model::{Client, Key, Session};
use crate::outcome::{Outcome, Reason, Terminal};
use crate::output::Transcript;
use crate::plan::{GatePlan, OnFail, PlannedJob, Provider};
use crate::query::{Caps, HookRule, Notice, OnRed, Params, Query, ToolDefinition, estimate};
use crate::report::json::TranscriptMeta;
use crate::tools::{ToolContext, Toolbox};
use crate::units::Tokens;
use std::sync::Arc;

/// The most of the model's last words that a report keeps, in bytes.
const LAST_WORDS: usize = 2_000;

/// The same call with the same result so often in a row ends a job: past any honest polling, well before a turn limit.
const LOOP_LIMIT: u32 = 12;

/// What a conversation is held over.
pub(super) struct Conversation<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) gates: &'a Arc<Gates>,
}

/// Holds the conversation of a job to its end.
///
/// # Errors
/// An outcome when it could not even begin.
pub(super) async fn converse(run: &mut JobRun<'_>, over: &Conversation<'_>) -> Result<Terminal, Box<Outcome>> {
    let job = run.job;
    let opening = opening::open(job, over.workspace.root());
    for note in &opening.notes {
        run.reporter.tell(RunEventKind::Note(note.clone())).await;
    }
    let toolbox = toolbox(job, over.workspace)?;
    let tools = toolbox.definitions();
    let tool_names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let overhead = overhead(&tools);
    let client = client(run, tools)?;
    let params = params(run, opening.blocks, overhead);
    let deps = Deps {
        client: Arc::new(client),
        toolbox: Arc::new(toolbox),
        gates: Arc::clone(over.gates),
        clock: run.context.clock,
    };
    let mut transcript = transcript(run, over, &tool_names)?;
    let mut query = QueryRun::new(Query::new(params), deps, run.abort.clone());
    let terminal = loop {
        let Some(event) = query.next().await else {
            return Err(broken("the query ended without a terminal"));
        };
        keep_books(run, query.query());
        match event {
            QueryEvent::Finished(terminal) => break *terminal,
            QueryEvent::Record(message) => {
                // A conversation that cannot be written down must not cost more money.
                transcript.message(run.context.clock.now(), &message).map_err(|error| not_written(&error))?;
            }
            other @ (QueryEvent::Notice(_)
            | QueryEvent::ToolStarted { .. }
            | QueryEvent::ToolFinished { .. }
            | QueryEvent::GateStarted { .. }
            | QueryEvent::GateFinished { .. }
            | QueryEvent::Progress(_)) => {
                if let QueryEvent::Notice(Notice::Turn { turn, usage, cost, request_id, message: _ }) = &other {
                    let now = run.context.clock.now();
                    let written = transcript.turn(now, *turn, usage, *cost, request_id.as_deref());
                    written.map_err(|error| not_written(&error))?;
                }
                report(run, over.gates, other).await;
            }
        }
    };
    Ok(terminal)
}

/// The outcome of a job that the runner itself failed.
fn broken(problem: impl Into<String>) -> Box<Outcome> {
    Box::new(Outcome::without_loop(Reason::Internal, problem))
}

fn not_written(error: &Error) -> Box<Outcome> {
    broken(error.to_string())
}

fn transcript(run: &JobRun<'_>, over: &Conversation<'_>, tools: &[&str]) -> Result<Transcript, Box<Outcome>> {
    let job = run.job;
    let root = over.workspace.root().to_string_lossy();
    let meta = TranscriptMeta {
        run: &run.context.run,
        job: &job.id,
        version: env!("CARGO_PKG_VERSION"),
        model: &job.model.name,
        system: SYSTEM_PROMPT,
        tools: tools.to_vec(),
        base: Some(over.workspace.base()),
        branch: Some(&job.worktree.branch),
        worktree: Some(&root),
    };
    let path = run.context.job_folder(&job.id).join("transcript.jsonl");
    Transcript::create(&run.context.files, &path, &meta).map_err(|error| not_written(&error))
}

/// Takes over what the query knows about turns and money, so that a report is right however the job ends.
fn keep_books(run: &mut JobRun<'_>, query: &Query) {
    run.report.turns = query.turns();
    run.report.model_calls = query.model_calls();
    run.report.usage = *query.ledger().used();
    run.report.cost = run.job.model.prices.as_ref().map(|_| query.ledger().spent());
}

async fn report(run: &mut JobRun<'_>, gates: &Gates, event: QueryEvent) {
    let kind = match event {
        QueryEvent::Notice(notice) => match from_notice(run, notice) {
            Some(kind) => kind,
            None => return,
        },
        QueryEvent::ToolStarted { tool, subject } => RunEventKind::ToolStarted { tool, subject },
        QueryEvent::ToolFinished { tool, is_error, duration } => {
            RunEventKind::ToolFinished { tool, is_error, duration }
        }
        QueryEvent::GateStarted { index } => return run.gate_started(gates, index, GateMoment::Stop).await,
        QueryEvent::GateFinished { index, result } => {
            return run.gate_finished(gates, index, GateMoment::Stop, &result).await;
        }
        QueryEvent::Progress(progress) => RunEventKind::Progress(progress),
        QueryEvent::Record(_) | QueryEvent::Finished(_) => return,
    };
    run.reporter.tell(kind).await;
}

fn from_notice(run: &mut JobRun<'_>, notice: Notice) -> Option<RunEventKind> {
    Some(match notice {
        Notice::ModelCalled { call, turn, estimate: _ } => RunEventKind::ModelCalled { call: call.0, turn },
        Notice::Retrying { kind, message, wait, call: _, until: _ } => {
            run.report.retries += 1;
            RunEventKind::Retrying { code: kind.reason().code(), message, wait }
        }
        Notice::Turn { turn, message, usage, cost, request_id } => {
            let text = message.text();
            if !text.is_empty() {
                clean::tail(&clean::clean(&text), LAST_WORDS).clone_into(&mut run.report.last_words);
            }
            let tools = message.tool_uses().map(|call| call.name.clone()).collect();
            RunEventKind::Turn { turn, usage, cost, request_id, text, tools }
        }
        Notice::Continued(transition) => {
            run.report.transitions.push(transition);
            RunEventKind::Continued(transition)
        }
        Notice::InputStarted(index) => RunEventKind::InputStarted(index),
        Notice::InputCompleted(index) => RunEventKind::InputCompleted(index),
        // The gate's own event says it.
        Notice::HookJudged { .. } => return None,
        Notice::LimitReached(message) => RunEventKind::Note(message),
        Notice::ReserveExceeded { call, reserved, used } => RunEventKind::Warning(format!(
            "model call {} used {} tokens, more than the {} that were set aside for it",
            call.0, used.0, reserved.0
        )),
    })
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

fn client(run: &JobRun<'_>, tools: Vec<ToolDefinition>) -> Result<Client, Box<Outcome>> {
    let key = match &run.job.model.provider {
        Provider::Anthropic { api_key_env, .. } => run.context.env.get(api_key_env).and_then(|key| Key::new(key)),
        Provider::Replay { .. } => None,
    };
    let session = Session { system: SYSTEM_PROMPT.to_owned(), tools, key, timeouts: run.context.timeouts };
    Client::new(&run.job.model, &session, &run.context.http)
        .map_err(|problem| Box::new(Outcome::without_loop(Reason::InvalidRequest, problem)))
}

/// Estimated tokens of what precedes the messages.
fn overhead(tools: &[ToolDefinition]) -> Tokens {
    const FRAME: usize = 200; // Field names around each tool.
    let bytes: usize =
        tools.iter().map(|tool| FRAME + tool.description.len() + tool.input_schema.to_string().len()).sum();
    estimate(SYSTEM_PROMPT.len() + bytes)
}

fn params(run: &JobRun<'_>, prompt: Vec<String>, overhead: Tokens) -> Params {
    let job = run.job;
    let hook = |gate: &GatePlan| HookRule {
        name: gate.name.clone(),
        command: gate.run.shown(),
        max_blocks: gate.max_blocks,
        on_red: match gate.on_fail {
            OnFail::Block => OnRed::Block,
            OnFail::Stop => OnRed::Stop,
        },
    };
    Params {
        prompt,
        follow_ups: job.follow_ups.clone(),
        max_turns: job.limits.max_turns,
        caps: Caps {
            tokens: job.limits.token_budget,
            cost: job.limits.max_cost,
            prices: job.model.prices.clone().unwrap_or_default(),
        },
        max_output: job.model.max_output,
        escalated_output: job.model.escalated_output,
        context_window: job.model.context_window,
        overhead,
        deadline: run.deadline,
        patience: run.context.patience,
        loop_limit: LOOP_LIMIT,
        seed: seed(&format!("{}/{}", run.context.run, job.id)),
        hooks: job.gates.iter().map(hook).collect(),
        concurrency: Toolbox::concurrency,
    }
}

/// The FNV-1a hash of a name: each job has its own chance, the same job of the same run always the same.
fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
