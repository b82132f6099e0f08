//! Performs the effects of one query and feeds their results back. It decides nothing.
//!
//! Pull-driven: nothing runs before the first [`QueryRun::next`], a slow consumer slows the loop, and dropping the value stops
//! everything that it had started.

use super::clients::Clients;
use super::clock::Clock;
use super::purse::{Hold, Purse};
use super::stop_hooks::StopHooks;
use super::tooling::{Clearance, ToolEnd, Tooling};
use crate::model::Progress;
use crate::outcome::{AbortReason, ModelErrorKind, Terminal};
use crate::query::{
    AgentId, CallId, Effect, Event, Failure, HookResult, HookStatus, Message, ModelCall, Notice, Query, Remedy, Reply,
    Source, ToolResult, ToolRun, ToolRunId,
};
use crate::tools::Toolbox;
use crate::units::{Usage, Usd};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{RwLock, mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long stopped work may take to end before it is dropped: above the grace of a process group.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Streamed pieces that wait for the loop at most: past them the streams wait.
const PIECES: usize = 32;

/// What a query tells whoever drives it.
#[derive(Debug)]
pub(super) enum QueryEvent {
    /// The core says so.
    Notice(Notice),
    /// A message joined a conversation.
    Record { agent: AgentId, message: Arc<Message> },
    /// A whole result is to be kept in the folder for outputs.
    KeepResult { file: String, content: String },
    /// A tool call began.
    ToolStarted { tool: String, subject: String },
    /// A tool call ended.
    ToolFinished { tool: String, is_error: bool, duration: Duration },
    /// A stop hook began.
    HookStarted { index: usize },
    /// A stop hook ended.
    HookFinished { index: usize, result: HookResult },
    /// Something that a reader should know about hooks and tools.
    Warning(String),
    /// The model is at work: for the screen only.
    Progress(String),
    /// The end; nothing follows.
    Finished(Box<Terminal>),
}

/// What a query is driven with.
#[derive(Clone)]
pub(super) struct Deps {
    pub(super) clients: Arc<Clients>,
    pub(super) tooling: Arc<Tooling>,
    pub(super) hooks: Arc<StopHooks>,
    pub(super) clock: Clock,
    /// Held for reading by whatever may change the files, for writing while they are kept.
    pub(super) quiet: Arc<RwLock<()>>,
}

/// A query at work.
pub(super) struct QueryRun {
    query: Query,
    deps: Deps,
    abort: watch::Receiver<Option<AbortReason>>,
    open: CancellationToken,
    /// What is under way, each with what stops it alone.
    calls: HashMap<CallId, CancellationToken>,
    runs: HashMap<ToolRunId, CancellationToken>,
    tasks: JoinSet<Done>,
    names: HashMap<Id, Pending>,
    pieces: (mpsc::Sender<Piece>, mpsc::Receiver<Piece>),
    doing: String,
    backlog: VecDeque<QueryEvent>,
    /// Calls that are sent once the savepoint before them has been dealt with.
    held: Vec<ModelCall>,
    stage: Stage,
    purse: Arc<Purse>,
    /// What is set aside for calls that have ended, until it is booked what they cost.
    landed: Vec<Hold>,
    /// What was spent by now, as the purse knows it.
    booked: Usd,
}

/// A piece of an answer that streams.
struct Piece {
    call: CallId,
    source: Source,
    progress: Progress,
}

#[derive(Debug)]
enum Stage {
    New,
    Running,
    Ending(Box<Terminal>),
    Ended,
}

/// What a task brings back.
enum Done {
    Model(CallId, Result<Reply, (Failure, Option<Usage>)>, Hold),
    /// The purse has too little left for a call.
    Dry,
    Tool {
        run: ToolRunId,
        tool: String,
        end: ToolEnd,
        duration: Duration,
    },
    Cleared {
        run: ToolRunId,
        clearance: Clearance,
    },
    Hook {
        index: usize,
        result: HookResult,
        warning: Option<String>,
    },
    Stopped,
}

/// What a task was for: answers for it when it panics.
enum Pending {
    Model(CallId),
    Tool(ToolRunId, String),
    Hook(usize),
}

impl QueryRun {
    /// A query that has not begun.
    pub(super) fn new(
        query: Query,
        deps: Deps,
        abort: watch::Receiver<Option<AbortReason>>,
        purse: Arc<Purse>,
    ) -> Self {
        Self {
            purse,
            landed: Vec::new(),
            booked: query.ledger().spent(),
            query,
            deps,
            abort,
            open: CancellationToken::new(),
            calls: HashMap::new(),
            runs: HashMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            pieces: mpsc::channel(PIECES),
            doing: String::new(),
            backlog: VecDeque::new(),
            held: Vec::new(),
            stage: Stage::New,
        }
    }

    /// The query as it stands.
    pub(super) const fn query(&self) -> &Query {
        &self.query
    }

    /// The next event; `None` after [`QueryEvent::Finished`]. Safe to drop at any time.
    pub(super) async fn next(&mut self) -> Option<QueryEvent> {
        loop {
            if let Some(event) = self.backlog.pop_front() {
                return Some(event);
            }
            for call in std::mem::take(&mut self.held) {
                self.call_model(call);
            }
            match &self.stage {
                Stage::New => {
                    self.stage = Stage::Running;
                    self.step(Event::Start);
                }
                Stage::Running => {
                    if let Some(event) = self.wait().await {
                        self.step(event);
                    }
                }
                Stage::Ending(_) => {
                    self.stop().await;
                    if let Stage::Ending(terminal) = std::mem::replace(&mut self.stage, Stage::Ended) {
                        return Some(QueryEvent::Finished(terminal));
                    }
                }
                Stage::Ended => return None,
            }
        }
    }

    /// Ends all that runs. Whoever goes on then finds nothing of ours that still writes to the tree.
    pub(super) async fn stop(&mut self) {
        self.open.cancel();
        let tooling = Arc::clone(&self.deps.tooling);
        let tasks = async { while self.tasks.join_next().await.is_some() {} };
        let all_ended = async { tokio::join!(tasks, tooling.shutdown()) };
        if tokio::time::timeout(STOP_LIMIT, all_ended).await.is_err() {
            self.tasks.shutdown().await;
            drop(tokio::time::timeout(STOP_LIMIT, tooling.shutdown()).await);
        }
    }

    /// Waits for the next thing that concerns the core; what concerns only the watcher goes to the backlog.
    async fn wait(&mut self) -> Option<Event> {
        let deadline = self.query.deadline().unwrap_or_default();
        tokio::select! {
            biased;
            reason = aborted(&mut self.abort) => Some(Event::Cancel(reason)),
            // Before the tasks: the blocks of an answer come before the answer.
            Some(piece) = self.pieces.1.recv() => self.take_piece(piece),
            Some(joined) = self.tasks.join_next_with_id() => self.take(joined),
            Some((id, text)) = self.deps.tooling.next_ended() => Some(Event::CommandEnded { id, text }),
            () = self.deps.clock.sleep_until(deadline) => Some(Event::Tick),
        }
    }

    fn take_piece(&mut self, piece: Piece) -> Option<Event> {
        let Piece { call, source, progress } = piece;
        let doing = match progress {
            Progress::Usage(usage) => return Some(Event::UsageTold { call, usage }),
            Progress::Block(block) => return Some(Event::BlockDone { call, block }),
            Progress::Text(_) | Progress::Thinking(_) | Progress::ToolCall(_) if source == Source::Summary => {
                return None;
            }
            Progress::Text(_) if source == Source::Compact => "the model summarises the conversation".to_owned(),
            Progress::Text(_) => "the model answers".to_owned(),
            Progress::Thinking(_) => "the model thinks".to_owned(),
            Progress::ToolCall(tool) => format!("the model calls {tool}"),
        };
        // A delta comes every few milliseconds; only news reaches the screen.
        if self.doing != doing {
            self.doing.clone_from(&doing);
            self.backlog.push_back(QueryEvent::Progress(doing));
        }
        None
    }

    fn take(&mut self, joined: Result<(Id, Done), tokio::task::JoinError>) -> Option<Event> {
        let (id, done) = match joined {
            Ok(joined) => joined,
            Err(error) => (error.id(), self.answer_for(&error)?),
        };
        self.names.remove(&id);
        match done {
            Done::Dry => Some(Event::Cancel(AbortReason::CostLimit)),
            Done::Model(call, answer, hold) => {
                self.calls.remove(&call);
                self.landed.push(hold);
                Some(match answer {
                    Ok(reply) => Event::Reply { call, reply },
                    Err((failure, usage)) => Event::ModelFailed { call, failure, usage },
                })
            }
            Done::Tool { run, tool, end, duration } => {
                self.runs.remove(&run);
                let ToolEnd { result, stopped, warnings } = end;
                self.backlog.extend(warnings.into_iter().map(QueryEvent::Warning));
                self.backlog.push_back(QueryEvent::ToolFinished { tool, is_error: result.is_error, duration });
                Some(Event::ToolDone { run, result, stopped })
            }
            Done::Cleared { run, clearance: Clearance::May { input, warnings } } => {
                self.runs.remove(&run);
                self.backlog.extend(warnings.into_iter().map(QueryEvent::Warning));
                Some(Event::ToolCleared { run, input })
            }
            Done::Cleared { run, clearance: Clearance::MayNot(end) } => {
                self.runs.remove(&run);
                self.backlog.extend(end.warnings.into_iter().map(QueryEvent::Warning));
                Some(Event::ToolDone { run, result: end.result, stopped: end.stopped })
            }
            Done::Hook { index, result, warning } => {
                self.backlog.extend(warning.map(QueryEvent::Warning));
                self.backlog.push_back(QueryEvent::HookFinished { index, result: result.clone() });
                Some(Event::HookDone { index, result })
            }
            Done::Stopped => None,
        }
    }

    /// A task that panicked still owes its result.
    fn answer_for(&self, error: &tokio::task::JoinError) -> Option<Done> {
        let problem = "the runner failed while it did this (a panic); please report it";
        Some(match self.names.get(&error.id())? {
            Pending::Model(call) => {
                let kind = ModelErrorKind::Api;
                let message = problem.to_owned();
                let failure = Failure { remedy: Remedy::GiveUp, kind, message, request_id: None, status: None };
                Done::Model(*call, Err((failure, None)), Hold::nothing(&self.purse))
            }
            Pending::Tool(run, tool) => {
                let result = ToolResult::new("".into(), format!("{tool} failed: {problem}"), true);
                let end = ToolEnd { result, stopped: None, warnings: Vec::new() };
                Done::Tool { run: *run, tool: tool.clone(), end, duration: Duration::ZERO }
            }
            Pending::Hook(index) => {
                let status = HookStatus::Broken(problem.into());
                let result = HookResult { status, tail: String::new(), duration: Duration::ZERO };
                Done::Hook { index: *index, result, warning: None }
            }
        })
    }

    fn step(&mut self, event: Event) {
        let effects = self.query.step(self.deps.clock.now(), event);
        // First what it cost, then what was set aside for it: in between the purse holds too much, never too little.
        let spent = self.query.ledger().spent();
        self.purse.spend(spent.minus(self.booked));
        self.booked = spent;
        self.landed.clear();
        let mut is_saved = false;
        for effect in effects {
            is_saved |= matches!(effect, Effect::Emit(Notice::Savepoint { .. }));
            self.perform(effect, is_saved);
        }
    }

    /// `is_saved`: a savepoint came before it in the same step.
    fn perform(&mut self, effect: Effect, is_saved: bool) {
        match effect {
            Effect::CallModel(call) if is_saved => self.held.push(call),
            Effect::CallModel(call) => self.call_model(call),
            Effect::RunTool(run) => self.run_tool(run),
            Effect::ClearAgent(run) => self.clear_agent(run),
            Effect::RunHook { index, stop_hook_active, last_words } => {
                self.run_hook(index, stop_hook_active, last_words);
            }
            Effect::StopCall(call) => cancel(self.calls.remove(&call)),
            Effect::StopTool(run) => cancel(self.runs.remove(&run)),
            Effect::StopAll => self.open.cancel(),
            Effect::KeepResult { file, content } => {
                self.backlog.push_back(QueryEvent::KeepResult { file, content });
            }
            Effect::Record { agent, message } => self.backlog.push_back(QueryEvent::Record { agent, message }),
            Effect::Emit(notice) => self.backlog.push_back(QueryEvent::Notice(notice)),
            Effect::Finish(terminal) => self.stage = Stage::Ending(Box::new(terminal)),
        }
    }

    fn call_model(&mut self, call: ModelCall) {
        let (id, source) = (call.id, call.source);
        let stop = self.open.child_token();
        self.calls.insert(id, stop.clone());
        let (clients, pieces, purse) = (Arc::clone(&self.deps.clients), self.pieces.0.clone(), Arc::clone(&self.purse));
        let task = async move {
            let hold = tokio::select! {
                biased;
                () = stop.cancelled() => return Done::Stopped,
                hold = purse.hold(call.worst_cost) => hold,
            };
            let Ok(hold) = hold else { return Done::Dry };
            let work = async {
                let client = match clients.get(call.model, call.source, call.kind) {
                    Ok(client) => client,
                    Err(failure) => return Err((failure, None)),
                };
                let (sender, mut receiver) = mpsc::channel(PIECES);
                let pass_on = async {
                    while let Some(progress) = receiver.recv().await {
                        if pieces.send(Piece { call: id, source, progress }).await.is_err() {
                            break;
                        }
                    }
                };
                let answer = async {
                    let answer = client.call(&call, &sender).await;
                    drop(sender);
                    answer
                };
                tokio::join!(answer, pass_on).0
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Done::Stopped,
                answer = work => Done::Model(id, answer, hold),
            }
        };
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), Pending::Model(id));
    }

    fn run_tool(&mut self, run: ToolRun) {
        let ToolRun { id, agent, kind, call } = run;
        let subject = Toolbox::subject(&call);
        self.backlog.push_back(QueryEvent::ToolStarted { tool: call.name.clone(), subject });
        let pending = Pending::Tool(id, call.name.clone());
        let stop = self.open.child_token();
        self.runs.insert(id, stop.clone());
        let (tooling, clock) = (Arc::clone(&self.deps.tooling), self.deps.clock);
        let quiet = (!tooling.only_looks(&call.name)).then(|| Arc::clone(&self.deps.quiet));
        let handle = self.tasks.spawn(async move {
            let _quiet = match quiet {
                Some(quiet) => Some(quiet.read_owned().await),
                None => None,
            };
            let began = clock.now();
            let end = tooling.run(&call, agent, kind, &stop).await;
            Done::Tool { run: id, tool: call.name, end, duration: clock.now().since(began) }
        });
        self.names.insert(handle.id(), pending);
    }

    fn clear_agent(&mut self, run: ToolRun) {
        let ToolRun { id, agent, kind, call } = run;
        let pending = Pending::Tool(id, call.name.clone());
        let stop = self.open.child_token();
        self.runs.insert(id, stop.clone());
        let tooling = Arc::clone(&self.deps.tooling);
        let handle = self
            .tasks
            .spawn(async move { Done::Cleared { run: id, clearance: tooling.clear(&call, agent, kind, &stop).await } });
        self.names.insert(handle.id(), pending);
    }

    fn run_hook(&mut self, index: usize, stop_hook_active: bool, last_words: String) {
        self.backlog.push_back(QueryEvent::HookStarted { index });
        let (hooks, open, quiet) = (Arc::clone(&self.deps.hooks), self.open.clone(), Arc::clone(&self.deps.quiet));
        let handle = self.tasks.spawn(async move {
            let _quiet = quiet.read_owned().await;
            let (result, warning) = hooks.run(index, stop_hook_active, last_words, &open).await;
            Done::Hook { index, result, warning }
        });
        self.names.insert(handle.id(), Pending::Hook(index));
    }
}

fn cancel(token: Option<CancellationToken>) {
    if let Some(token) = token {
        token.cancel();
    }
}

/// Ends when the query is aborted; never when nobody can abort it any more.
async fn aborted(abort: &mut watch::Receiver<Option<AbortReason>>) -> AbortReason {
    let reason = abort.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
    match reason {
        Some(reason) => reason,
        None => std::future::pending().await,
    }
}

impl Drop for QueryRun {
    fn drop(&mut self) {
        self.open.cancel();
    }
}
