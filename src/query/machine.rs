//! [`Query`]: the loop of the job and those of its sub-agents, driven by events, until one [`Terminal`].

use super::agent::{Agent, News, Parent, Phase};
use super::budget::Ledger;
use super::effect::{AgentKind, Effect, Notice};
use super::event::{AgentId, CallId, Event, ToolRunId};
use super::params::Params;
use super::saved::Past;
use super::shared::Shared;
use super::state::State;
use super::subagent::{self, Spawn};
use super::summary::is_summary;
use super::transcript::ToolResult;
use crate::outcome::{AbortReason, HookEvidence, Terminal, TerminalReason};
use crate::units::{Elapsed, Turns};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One query: a conversation with a model that calls tools, driven by events, until one [`Terminal`].
///
/// Call order: [`step`](Self::step) with [`Event::Start`] once, then with whatever the performed effects bring; with
/// [`Event::Tick`] at [`deadline`](Self::deadline) at the latest. `now` never goes back. Each effect is performed in order.
/// Nothing follows [`Effect::Finish`]: later events give no effects.
#[derive(Clone, Debug)]
pub struct Query {
    shared: Shared,
    /// The job's own agent.
    job: Agent,
    /// Sub-agents at work.
    agents: BTreeMap<AgentId, Agent>,
    ended: bool,
}

impl Query {
    /// A query that has not begun.
    #[must_use]
    pub fn new(params: Params) -> Self {
        let job = Agent::new(AgentId::JOB, AgentKind::Job, None, params.hooks.len(), params.max_turns);
        Self { shared: Shared::new(params), job, agents: BTreeMap::new(), ended: false }
    }

    /// A query that goes on where another one was at a savepoint; [`Event::Start`] starts it. What it has used by then counts.
    #[must_use]
    pub fn resumed(params: Params, past: Past) -> Self {
        let mut query = Self::new(params);
        query.shared.take_up(&past.saved);
        query.job.take_up(&mut query.shared, past);
        query
    }

    /// Takes one event and says what is to be done.
    pub fn step(&mut self, now: Elapsed, event: Event) -> Vec<Effect> {
        if self.ended {
            return Vec::new();
        }
        self.shared.now = now;
        match event {
            Event::Start if self.job.phase == Phase::New && self.job.has_past() => {
                self.job.go_on_again(&mut self.shared);
            }
            Event::Start if self.job.phase == Phase::New => {
                let prompt = std::mem::take(&mut self.shared.params.prompt);
                self.job.open(&mut self.shared, prompt);
            }
            Event::Cancel(reason) => self.abort(reason),
            Event::Tick if now >= self.shared.params.deadline => self.abort(AbortReason::Timeout),
            Event::Tick => self.tick(now),
            Event::Reply { call, reply } => self.tell(call, News::Reply(call, reply)),
            Event::ModelFailed { call, failure, usage } => self.tell(call, News::Failed(call, failure, usage)),
            Event::BlockDone { call, block } if !is_summary(&self.shared, call) => {
                self.tell(call, News::Block(call, block));
            }
            // A query begins once; of a summary nothing is shown.
            Event::Start | Event::BlockDone { .. } => {}
            Event::UsageTold { call, usage } => {
                if let Some(flight) = self.shared.flights.get_mut(&call) {
                    flight.told = Some(usage);
                }
            }
            Event::ToolDone { run, result, stopped } => self.tool_done(run, result, stopped),
            Event::ToolCleared { run, input } => self.cleared(run, &input),
            Event::HookDone { index, result } => self.job.take(&mut self.shared, News::Hook(index, result)),
            Event::CommandEnded { id, text } => self.job.notices.push_back((id, text)),
        }
        self.follow();
        std::mem::take(&mut self.shared.out)
    }

    /// The latest moment for the next [`Event::Tick`]; `None` when the query has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Elapsed> {
        if self.ended {
            return None;
        }
        let wakes = std::iter::once(&self.job).chain(self.agents.values()).filter_map(Agent::wakes_at);
        Some(wakes.fold(self.shared.params.deadline, Elapsed::min))
    }

    /// The state of the job's own loop between iterations.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.job.state
    }

    /// What it has used and spent.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Responses that the loop has accepted, those of sub-agents included.
    #[must_use]
    pub const fn turns(&self) -> Turns {
        self.shared.turns
    }

    /// Model calls that were sent: retries, compactions, summaries and sub-agents included.
    #[must_use]
    pub const fn model_calls(&self) -> u32 {
        self.shared.last_call
    }

    // --- who is told ---

    fn tell(&mut self, call: CallId, news: News) {
        let Some(id) = self.shared.flights.get(&call).map(|flight| flight.agent) else { return };
        let Self { shared, job, agents, .. } = self;
        let agent = if id == AgentId::JOB { Some(job) } else { agents.get_mut(&id) };
        if let Some(agent) = agent {
            agent.take(shared, news);
        }
    }

    fn tool_done(&mut self, run: ToolRunId, result: ToolResult, stopped: Option<HookEvidence>) {
        let Some(id) = self.shared.runs.remove(&run) else { return };
        let Self { shared, job, agents, .. } = self;
        let agent = if id == AgentId::JOB { Some(job) } else { agents.get_mut(&id) };
        if let Some(agent) = agent {
            agent.take(shared, News::Tool(run, result, stopped));
        }
    }

    /// Hooks let a sub-agent start.
    fn cleared(&mut self, run: ToolRunId, input: &Map<String, Value>) {
        let Some(parent) = self.shared.runs.get(&run).copied() else { return };
        // Its place among the other calls was given to it as the kind that it was: a hook can change its task, not that.
        if let Some(kind) = self.shared.clearing.remove(&run) {
            self.shared.spawned.insert(run);
            self.shared.spawns.push_back(Spawn::new(parent, run, kind, input));
        }
    }

    fn tick(&mut self, now: Elapsed) {
        let due = |agent: &Agent| agent.wakes_at().is_some_and(|at| at <= now);
        let ids: Vec<AgentId> = self.agents.values().filter(|agent| due(agent)).map(|agent| agent.id).collect();
        if due(&self.job) {
            self.job.take(&mut self.shared, News::Tick);
        }
        for id in ids {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.take(&mut self.shared, News::Tick);
            }
        }
    }

    // --- what follows from a step ---

    /// Starts sub-agents, gives back what ended ones said, wakes those that waited for room, and ends the query.
    fn follow(&mut self) {
        loop {
            if let Some(terminal) = self.job.terminal.take() {
                return self.end(terminal);
            }
            if let Some(spawn) = self.shared.spawns.pop_front() {
                self.spawn(spawn);
                continue;
            }
            if let Some(id) = self.agents.values().find(|agent| agent.terminal.is_some()).map(|agent| agent.id) {
                self.give_back(id);
                continue;
            }
            if !self.resume_starved() {
                return;
            }
        }
    }

    fn spawn(&mut self, spawn: Spawn) {
        let Spawn { parent, run, kind, description, prompt } = spawn;
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(problem) => return self.answer(run, problem, true),
        };
        // Each has to take a turn to be of use, so more than there are turns would be none.
        if self.shared.agents >= self.shared.params.max_turns.0 {
            return self.answer(run, "Nothing was started: this job has had as many sub-agents as turns.".into(), true);
        }
        self.shared.agents += 1;
        let id = self.shared.next_agent();
        self.shared.emit(Notice::AgentStarted { agent: id, kind, description });
        let parent = Some(Parent { agent: parent, run });
        let mut agent = Agent::new(id, kind, parent, 0, Turns(subagent::MAX_TURNS));
        agent.open(&mut self.shared, [prompt]);
        self.agents.insert(id, agent);
    }

    /// A sub-agent has ended: its last words are the result of the call that started it.
    fn give_back(&mut self, id: AgentId) {
        let Some(agent) = self.agents.remove(&id) else { return };
        let (Some(terminal), Some(parent)) = (&agent.terminal, agent.parent) else { return };
        let code = terminal.reason.code();
        self.shared.emit(Notice::AgentFinished { agent: id, terminal: code, turns: agent.turns() });
        if terminal.reason == TerminalReason::HookStopped {
            let (hook, text) = (terminal.hook.clone(), "A hook stopped the sub-agent.".to_owned());
            return self.hand_over(parent.run, text, true, hook);
        }
        let words = agent.last_words();
        let words = if words.trim().is_empty() { "(it said nothing)".to_owned() } else { words };
        let is_error = terminal.reason != TerminalReason::Completed || terminal.budget_exhausted;
        let text = if is_error {
            format!("The sub-agent did not finish: {}. Its last words:\n{words}", terminal.message)
        } else {
            words
        };
        self.answer(parent.run, text, is_error);
    }

    fn answer(&mut self, run: ToolRunId, text: String, is_error: bool) {
        self.hand_over(run, text, is_error, None);
    }

    fn hand_over(&mut self, run: ToolRunId, text: String, is_error: bool, stopped: Option<HookEvidence>) {
        // The calls give the result their own id.
        let result = ToolResult::new("".into(), text, is_error);
        self.tool_done(run, result, stopped);
    }

    /// Lets agents try again that found no room in the budget while others held it. Says whether one could go on.
    fn resume_starved(&mut self) -> bool {
        let starved = |agent: &Agent| matches!(agent.phase, Phase::Starved { .. });
        let ids = std::iter::once(&self.job).chain(self.agents.values()).filter(|agent| starved(agent));
        let ids: Vec<AgentId> = ids.map(|agent| agent.id).collect();
        for id in ids {
            let Self { shared, job, agents, .. } = self;
            let agent = if id == AgentId::JOB { Some(job) } else { agents.get_mut(&id) };
            if let Some(agent) = agent {
                agent.resume(shared);
                if !starved(agent) {
                    return true;
                }
            }
        }
        false
    }

    fn abort(&mut self, reason: AbortReason) {
        // Sub-agents end with the job: what their calls have told is booked, their results are made up.
        let flights = self.shared.flights.iter().filter(|(_, flight)| flight.agent != AgentId::JOB);
        let calls: Vec<CallId> = flights.map(|(call, _)| *call).collect();
        self.shared.out.push(Effect::StopAll);
        self.shared.all_stopped = true;
        for call in calls {
            self.shared.land(call, None);
        }
        self.agents.clear();
        self.job.abort(&mut self.shared, reason);
    }

    fn end(&mut self, terminal: Terminal) {
        let open: Vec<CallId> = self.shared.flights.keys().copied().collect();
        if !self.shared.all_stopped && (!open.is_empty() || !self.shared.runs.is_empty()) {
            self.shared.out.push(Effect::StopAll);
        }
        for call in open {
            self.shared.land(call, None);
        }
        self.agents.clear();
        self.ended = true;
        self.shared.out.push(Effect::Finish(terminal));
    }
}
