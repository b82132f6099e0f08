//! What the agents of a query share: parameters, money, numbers, and what is under way.

use super::budget::{Ledger, Reservation};
use super::effect::{AgentKind, Effect, ModelSlot, Notice, Source};
use super::event::{AgentId, CallId, ToolRunId};
use super::params::{ModelLimits, Params};
use super::subagent::Spawn;
use super::transcript::{Block, Message, Origin, Role};
use crate::units::{Elapsed, Tokens, Turns, Usage, Usd};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The common part of a query.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) params: Params,
    pub(super) ledger: Ledger,
    pub(super) now: Elapsed,
    /// The effects of this step.
    pub(super) out: Vec<Effect>,
    /// Everything is stopped already: nothing needs to be stopped one by one.
    pub(super) all_stopped: bool,
    /// Sub-agents that are to begin.
    pub(super) spawns: VecDeque<Spawn>,
    /// Responses that were accepted, of all agents.
    pub(super) turns: Turns,
    /// What conversations held that were replaced by summaries: the provider cannot count it any more.
    pub(super) task_spent: Tokens,
    /// Model calls under way.
    pub(super) flights: BTreeMap<CallId, Flight>,
    /// Tool runs under way, and whose they are.
    pub(super) runs: BTreeMap<ToolRunId, AgentId>,
    /// Those of them that are sub-agents and no tools: they end with the query, or by themselves.
    pub(super) spawned: BTreeSet<ToolRunId>,
    /// Those of them that are sub-agents which hooks have not cleared yet.
    pub(super) clearing: BTreeMap<ToolRunId, AgentKind>,
    /// How many sub-agents there were.
    pub(super) agents: u32,
    pub(super) last_call: u32,
    pub(super) last_message: u64,
    last_run: u64,
    pub(super) last_agent: u32,
    pub(super) last_file: u64,
}

/// A model call under way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) agent: AgentId,
    pub(super) model: ModelSlot,
    pub(super) source: Source,
    pub(super) reserved: Reservation,
    /// What its stream has said about usage.
    pub(super) told: Option<Usage>,
}

impl Shared {
    pub(super) fn new(params: Params) -> Self {
        let ledger = Ledger::new(params.caps.clone());
        Self {
            params,
            ledger,
            now: Elapsed::default(),
            out: Vec::new(),
            all_stopped: false,
            spawns: VecDeque::new(),
            turns: Turns(0),
            task_spent: Tokens(0),
            flights: BTreeMap::new(),
            runs: BTreeMap::new(),
            spawned: BTreeSet::new(),
            clearing: BTreeMap::new(),
            agents: 0,
            last_call: 0,
            last_message: 0,
            last_run: 0,
            last_agent: 0,
            last_file: 0,
        }
    }

    pub(super) fn emit(&mut self, notice: Notice) {
        self.out.push(Effect::Emit(notice));
    }

    pub(super) fn message(&mut self, role: Role, origin: Origin, blocks: Vec<Block>) -> Arc<Message> {
        Arc::new(Message { id: self.next_message(), role, origin, blocks })
    }

    pub(super) const fn next_message(&mut self) -> u64 {
        self.last_message += 1;
        self.last_message
    }

    pub(super) const fn next_agent(&mut self) -> AgentId {
        self.last_agent += 1;
        AgentId(self.last_agent)
    }

    pub(super) const fn next_file(&mut self) -> u64 {
        self.last_file += 1;
        self.last_file
    }

    pub(super) fn next_run(&mut self, agent: AgentId) -> ToolRunId {
        self.last_run += 1;
        let run = ToolRunId(self.last_run);
        self.runs.insert(run, agent);
        run
    }

    pub(super) fn limits(&self, model: ModelSlot) -> &ModelLimits {
        self.params.models.get(model)
    }

    /// Turns that may still be taken, those that calls under way will be left out.
    pub(super) fn turns_left(&self) -> u32 {
        let flying = |flight: &&Flight| matches!(flight.source, Source::Job | Source::Subagent);
        let flying = self.flights.values().filter(flying).count() as u32;
        self.params.max_turns.0.saturating_sub(self.turns.0).saturating_sub(flying)
    }

    /// Takes a call that has ended out of the books: what it used, and what that cost.
    pub(super) fn land(&mut self, call: CallId, usage: Option<Usage>) -> (Usage, Usd) {
        let Some(flight) = self.flights.remove(&call) else { return (Usage::default(), Usd::ZERO) };
        self.ledger.release(&flight.reserved);
        let Some(usage) = usage.or(flight.told) else { return (Usage::default(), Usd::ZERO) };
        let used = usage.prompt() + usage.output;
        let reserved = flight.reserved.total();
        if used > reserved {
            self.emit(Notice::ReserveExceeded { call, reserved, used });
        }
        let prices = &self.params.models.get(flight.model).prices;
        (usage, self.ledger.settle(&usage, prices))
    }

    /// Stops a call: the provider bills what its stream has said by now.
    pub(super) fn stop_call(&mut self, call: CallId) {
        if self.flights.contains_key(&call) {
            if !self.all_stopped {
                self.out.push(Effect::StopCall(call));
            }
            self.land(call, None);
        }
    }

    /// Stops a tool.
    pub(super) fn stop_run(&mut self, run: ToolRunId) {
        if self.runs.remove(&run).is_some() && !self.all_stopped && !self.spawned.contains(&run) {
            self.out.push(Effect::StopTool(run));
        }
    }
}
