//! Performs the effects of one query and feeds their results back. It decides nothing.
//!
//! Pull-driven: nothing runs before the first [`QueryRun::next`], a slow consumer slows the loop, and dropping the value stops
//! everything that it had started.

use super::clock::Clock;
use super::gates::Gates;
use crate::event::GateMoment;
use crate::model::{Client, Progress};
use crate::outcome::{AbortReason, ModelErrorKind, Terminal};
use crate::query::{
    CallId, Effect, Event, Failure, HookResult, HookStatus, Message, ModelCall, Notice, Query, Remedy, ToolResult,
    ToolUse, ToolUseId,
};
use crate::tools::{Access, Toolbox};
use crate::units::Usage;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long stopped work may take to end before it is dropped: above the grace of a process group.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What a query tells whoever drives it.
#[derive(Debug)]
pub(super) enum QueryEvent {
    /// The core says so.
    Notice(Notice),
    /// A message joined the conversation.
    Record(Arc<Message>),
    /// A tool call began.
    ToolStarted { tool: String, subject: String },
    /// A tool call ended.
    ToolFinished { tool: String, is_error: bool, duration: Duration },
    /// A gate began.
    GateStarted { index: usize },
    /// A gate ended.
    GateFinished { index: usize, result: HookResult },
    /// The model is at work: for the screen only.
    Progress(String),
    /// The end; nothing follows.
    Finished(Box<Terminal>),
}

/// What a query is driven with.
#[derive(Clone)]
pub(super) struct Deps {
    pub(super) client: Arc<Client>,
    pub(super) toolbox: Arc<Toolbox>,
    pub(super) gates: Arc<Gates>,
    pub(super) clock: Clock,
}

/// A query at work.
pub(super) struct QueryRun {
    query: Query,
    deps: Deps,
    abort: watch::Receiver<Option<AbortReason>>,
    open: CancellationToken,
    tasks: JoinSet<Done>,
    names: HashMap<Id, Pending>,
    progress: (mpsc::Sender<Progress>, mpsc::Receiver<Progress>),
    doing: String,
    backlog: VecDeque<QueryEvent>,
    stage: Stage,
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
    Model(CallId, Result<crate::query::Reply, (Failure, Option<Usage>)>),
    Tool { tool: String, result: ToolResult, duration: Duration },
    Hook { index: usize, result: HookResult },
    Stopped,
}

/// What a task was for: answers for it when it panics.
enum Pending {
    Model(CallId),
    Tool(String, ToolUseId),
    Hook(usize),
}

impl QueryRun {
    /// A query that has not begun.
    pub(super) fn new(query: Query, deps: Deps, abort: watch::Receiver<Option<AbortReason>>) -> Self {
        Self {
            query,
            deps,
            abort,
            open: CancellationToken::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            progress: mpsc::channel(32),
            doing: String::new(),
            backlog: VecDeque::new(),
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
                    // The consumer must not go on while something of ours still writes to the tree.
                    let all_ended = async { while self.tasks.join_next().await.is_some() {} };
                    if tokio::time::timeout(STOP_LIMIT, all_ended).await.is_err() {
                        self.tasks.shutdown().await;
                    }
                    if let Stage::Ending(terminal) = std::mem::replace(&mut self.stage, Stage::Ended) {
                        return Some(QueryEvent::Finished(terminal));
                    }
                }
                Stage::Ended => return None,
            }
        }
    }

    /// Waits for the next thing that concerns the core; what concerns only the watcher goes to the backlog.
    async fn wait(&mut self) -> Option<Event> {
        let deadline = self.query.deadline().unwrap_or_default();
        tokio::select! {
            biased;
            reason = aborted(&mut self.abort) => Some(Event::Cancel(reason)),
            Some(joined) = self.tasks.join_next_with_id() => self.take(joined),
            () = self.deps.clock.sleep_until(deadline) => Some(Event::Tick),
            Some(progress) = self.progress.1.recv() => {
                let doing = match progress {
                    Progress::Usage(usage) => {
                        return Some(Event::UsageTold { call: CallId(self.query.model_calls()), usage });
                    }
                    Progress::Text(_) => "the model answers".to_owned(),
                    Progress::Thinking(_) => "the model thinks".to_owned(),
                    Progress::ToolCall(tool) => format!("the model calls {tool}"),
                    Progress::Block(_) => return None,
                };
                // A delta comes every few milliseconds; only news reaches the screen.
                if self.doing != doing {
                    self.doing.clone_from(&doing);
                    self.backlog.push_back(QueryEvent::Progress(doing));
                }
                None
            }
        }
    }

    fn take(&mut self, joined: Result<(Id, Done), tokio::task::JoinError>) -> Option<Event> {
        let (id, done) = match joined {
            Ok(joined) => joined,
            Err(error) => (error.id(), self.answer_for(&error)?),
        };
        self.names.remove(&id);
        match done {
            Done::Model(call, Ok(reply)) => Some(Event::Reply { call, reply }),
            Done::Model(call, Err((failure, usage))) => Some(Event::ModelFailed { call, failure, usage }),
            Done::Tool { tool, result, duration } => {
                self.backlog.push_back(QueryEvent::ToolFinished { tool, is_error: result.is_error, duration });
                Some(Event::ToolDone(result))
            }
            Done::Hook { index, result } => {
                self.backlog.push_back(QueryEvent::GateFinished { index, result: result.clone() });
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
                Done::Model(*call, Err((failure, None)))
            }
            Pending::Tool(tool, id) => Done::Tool {
                tool: tool.clone(),
                result: ToolResult::new(Arc::clone(id), format!("{tool} failed: {problem}"), true),
                duration: Duration::ZERO,
            },
            Pending::Hook(index) => {
                let status = HookStatus::Broken(problem.into());
                Done::Hook {
                    index: *index,
                    result: HookResult { status, tail: String::new(), duration: Duration::ZERO },
                }
            }
        })
    }

    fn step(&mut self, event: Event) {
        for effect in self.query.step(self.deps.clock.now(), event) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::CallModel(call) => self.call_model(call),
            Effect::RunTool(call) => self.run_tool(call),
            Effect::RunHook { index } => self.run_hook(index),
            Effect::StopAll => self.open.cancel(),
            Effect::Record(message) => self.backlog.push_back(QueryEvent::Record(message)),
            Effect::Emit(notice) => self.backlog.push_back(QueryEvent::Notice(notice)),
            Effect::Finish(terminal) => self.stage = Stage::Ending(Box::new(terminal)),
        }
    }

    fn call_model(&mut self, call: ModelCall) {
        // A channel of its own: what a call that was given up had still to tell concerns nobody.
        self.progress = mpsc::channel(32);
        let (client, open, progress) = (Arc::clone(&self.deps.client), self.open.clone(), self.progress.0.clone());
        let id = call.id;
        let task = async move {
            tokio::select! {
                biased;
                () = open.cancelled() => Done::Stopped,
                answer = client.call(&call, &progress) => Done::Model(id, answer),
            }
        };
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), Pending::Model(id));
    }

    fn run_tool(&mut self, call: ToolUse) {
        let subject = Toolbox::subject(&call);
        self.backlog.push_back(QueryEvent::ToolStarted { tool: call.name.clone(), subject });
        let pending = Pending::Tool(call.name.clone(), Arc::clone(&call.id));
        let (toolbox, open, clock) = (Arc::clone(&self.deps.toolbox), self.open.clone(), self.deps.clock);
        let handle = self.tasks.spawn(async move {
            let began = clock.now();
            let result = toolbox.run(&call, Access::Full, &open).await;
            Done::Tool { tool: call.name, result, duration: clock.now().since(began) }
        });
        self.names.insert(handle.id(), pending);
    }

    fn run_hook(&mut self, index: usize) {
        self.backlog.push_back(QueryEvent::GateStarted { index });
        let (gates, open) = (Arc::clone(&self.deps.gates), self.open.clone());
        let handle = self.tasks.spawn(async move {
            let result = gates.run(index, GateMoment::Stop, &open).await;
            Done::Hook { index, result }
        });
        self.names.insert(handle.id(), Pending::Hook(index));
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
