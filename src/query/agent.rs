//! [`Agent`]: one loop of a query, the job's own or a sub-agent's.

use super::calls::Calls;
use super::effect::{AgentKind, Effect, Source};
use super::event::{AgentId, CallId, HookResult, Reply, ToolRunId};
use super::failure::Failure;
use super::repetition::Repetition;
use super::shared::Shared;
use super::state::State;
use super::transcript::{Block, History, Message, Origin, Role, ToolResult, ToolUseId};
use crate::outcome::{HookEvidence, Terminal};
use crate::units::{Elapsed, Turns, Usage};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// One conversation with a model, until one [`Terminal`].
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) id: AgentId,
    pub(super) kind: AgentKind,
    /// For whom it works; `None`: for the job.
    pub(super) parent: Option<Parent>,
    pub(super) state: State,
    pub(super) phase: Phase,
    /// What it was asked to do, word for word: kept across compactions.
    pub(super) task: Vec<Block>,
    /// The most turns that it may take.
    pub(super) max_turns: Turns,
    /// Notices of background commands that it has not taken yet, and those that it has.
    pub(super) notices: VecDeque<(String, String)>,
    pub(super) notices_taken: Vec<String>,
    pub(super) seen_ids: BTreeSet<ToolUseId>,
    pub(super) repetition: Repetition,
    pub(super) terminal: Option<Terminal>,
}

/// The call that a sub-agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) agent: AgentId,
    pub(super) run: ToolRunId,
}

/// What a loop waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    New,
    /// For an answer of the model.
    Calling {
        call: CallId,
        ask: Ask,
        tries: Tries,
        live: Live,
    },
    /// For the time of the next try.
    Waiting {
        until: Elapsed,
        ask: Ask,
        tries: Tries,
    },
    /// For another agent's call to end, whose reservation stands in the way.
    Starved {
        ask: Ask,
        tries: Tries,
    },
    Tools(Calls),
    Hooks {
        index: usize,
        reds: Vec<(usize, HookResult)>,
    },
    Finished,
}

/// What the model is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    /// To go on with its task.
    Turn,
    /// To summarise the conversation.
    Compact(Box<Compaction>),
}

/// A compaction under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compaction {
    /// The failure that it is to recover from; `None`: it comes before any.
    pub(super) after: Option<Failure>,
    /// What is summarised; smaller with each try.
    pub(super) history: History,
    /// How often it was made smaller.
    pub(super) shrinks: u32,
}

/// How often one request has failed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries {
    pub(super) retry: u32,
    /// Overloads and lost connections in a row.
    pub(super) overloads: u32,
    /// Answers that made no sense.
    pub(super) malformed: u32,
    /// The request has gone to another model already.
    pub(super) fell_back: bool,
}

/// What has arrived of an answer that is still streaming.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Live {
    pub(super) blocks: Vec<Block>,
    pub(super) calls: Calls,
}

/// What may reach a loop.
pub(super) enum News {
    Reply(CallId, Reply),
    Failed(CallId, Failure, Option<Usage>),
    Block(CallId, Block),
    Tool(ToolRunId, ToolResult, Option<HookEvidence>),
    Hook(usize, HookResult),
    Tick,
}

impl Agent {
    pub(super) fn new(id: AgentId, kind: AgentKind, parent: Option<Parent>, hooks: usize, max_turns: Turns) -> Self {
        Self {
            id,
            kind,
            parent,
            state: State::first(hooks),
            phase: Phase::New,
            task: Vec::new(),
            max_turns,
            notices: VecDeque::new(),
            notices_taken: Vec::new(),
            seen_ids: BTreeSet::new(),
            repetition: Repetition::default(),
            terminal: None,
        }
    }

    pub(super) const fn source(&self) -> Source {
        match self.kind {
            AgentKind::Job => Source::Job,
            AgentKind::General | AgentKind::Explore => Source::Subagent,
        }
    }

    /// Takes its task and begins.
    pub(super) fn open(&mut self, sh: &mut Shared, prompt: impl IntoIterator<Item = String>) {
        let blocks = prompt.into_iter().filter(|text| !text.trim().is_empty()).map(Block::Text);
        self.task = blocks.collect();
        let message = sh.message(Role::User, Origin::Prompt, self.task.clone());
        self.append(sh, &message);
        self.save(sh, None);
        self.iterate(sh, Tries::default(), false);
    }

    /// Takes what happened. What concerns something that was given up changes nothing.
    pub(super) fn take(&mut self, sh: &mut Shared, news: News) {
        if let News::Reply(call, _) | News::Failed(call, ..) = &news
            && self.state.pending_tool_summary.is_some_and(|pending| pending.call == *call)
        {
            return self.take_summary(sh, news);
        }
        match (std::mem::replace(&mut self.phase, Phase::Finished), news) {
            (Phase::Calling { call, ask, tries, live }, News::Reply(id, reply)) if call == id => match ask {
                Ask::Turn => self.take_reply(sh, call, tries, live, reply),
                Ask::Compact(compaction) => self.take_compaction(sh, call, *compaction, reply),
            },
            (Phase::Calling { call, ask, tries, live }, News::Failed(id, failure, usage)) if call == id => {
                sh.land(call, usage);
                self.take_failure(sh, call, ask, tries, live, failure);
            }
            (Phase::Calling { call, ask: Ask::Turn, tries, live }, News::Block(id, block)) if call == id => {
                self.take_block(sh, call, tries, live, block);
            }
            (Phase::Calling { call, ask, tries, live }, News::Tool(run, result, stopped)) => {
                self.take_early_result(sh, (call, ask, tries, live), run, result, stopped);
            }
            (Phase::Waiting { until, ask, tries }, News::Tick) if sh.now >= until => self.call_model(sh, ask, tries),
            (Phase::Tools(calls), News::Tool(run, result, stopped)) => {
                self.take_result(sh, calls, run, result, stopped);
            }
            (Phase::Hooks { index, reds }, News::Hook(done, result)) if index == done => {
                self.take_hook(sh, index, reds, result);
            }
            (phase, _) => self.phase = phase,
        }
    }

    /// Another agent's call has ended: there may be room for this one's now.
    pub(super) fn resume(&mut self, sh: &mut Shared) {
        match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Starved { ask, tries } => self.call_model(sh, ask, tries),
            phase @ (Phase::New
            | Phase::Calling { .. }
            | Phase::Waiting { .. }
            | Phase::Tools(_)
            | Phase::Hooks { .. }
            | Phase::Finished) => self.phase = phase,
        }
    }

    /// When it has to hear of the time again, before the deadline of the query.
    pub(super) const fn wakes_at(&self) -> Option<Elapsed> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::New
            | Phase::Calling { .. }
            | Phase::Starved { .. }
            | Phase::Tools(_)
            | Phase::Hooks { .. }
            | Phase::Finished => None,
        }
    }

    // --- bookkeeping ---

    /// The old state, for what a new one takes over from it: a state is replaced whole and never shared between iterations, so nothing
    /// has to be copied.
    pub(super) fn taken(&mut self) -> State {
        std::mem::replace(&mut self.state, State::first(0))
    }

    /// Records a message and adds it to the conversation.
    pub(super) fn append(&mut self, sh: &mut Shared, message: &Arc<Message>) {
        sh.out.push(Effect::Record { agent: self.id, message: Arc::clone(message) });
        let (messages, view) = (self.state.messages.with(Arc::clone(message)), self.state.view.with(message));
        self.state = State { messages, view, ..self.taken() };
    }

    /// Adds a message of the runner's own to the conversation.
    pub(super) fn say(&mut self, sh: &mut Shared, origin: Origin, text: impl Into<String>) {
        let message = sh.message(Role::User, origin, vec![Block::Text(text.into())]);
        self.append(sh, &message);
    }

    /// Whether the loop may take one more response; the last one of a job is never a sub-agent's.
    pub(super) fn may_turn(&self, sh: &Shared) -> bool {
        let own = self.turns() < self.max_turns;
        let spare = u32::from(self.parent.is_some());
        own && sh.turns_left() > spare
    }

    /// Responses that it has accepted.
    pub(super) const fn turns(&self) -> Turns {
        Turns(self.state.turn_count.0.saturating_sub(1))
    }

    /// The text of its last answer.
    pub(super) fn last_words(&self) -> String {
        let last = self.state.messages.iter().rev().find(|message| message.role == Role::Assistant);
        last.map(|message| message.text()).unwrap_or_default()
    }
}
