//! The model clients of one job: one for each model and set of tools, made when it is first needed.

use super::opening::{EXPLORE_PROMPT, GENERAL_PROMPT, SYSTEM_PROMPT};
use crate::model::{Client, Http, Key, Session, Timeouts};
use crate::outcome::ModelErrorKind;
use crate::plan::{ModelPlan, Provider};
use crate::query::{AGENT, AgentKind, Failure, ModelSlot, Remedy, Source, ToolDefinition};
use crate::tools::{Access, Toolbox};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What clients are made from.
pub(super) struct Clients {
    plan: ModelPlan,
    key: Option<Key>,
    timeouts: Timeouts,
    http: Arc<Http>,
    tools: Toolsets,
    made: Mutex<BTreeMap<(ModelSlot, Toolset), Arc<Client>>>,
}

/// The tools of each kind of agent.
pub(super) struct Toolsets {
    pub(super) job: Vec<ToolDefinition>,
    pub(super) general: Vec<ToolDefinition>,
    pub(super) explore: Vec<ToolDefinition>,
}

impl Toolsets {
    /// The tools of every job.
    pub(super) fn all() -> Self {
        let general = Toolbox::definitions();
        let job = general.iter().cloned().chain([AGENT.clone()]).collect();
        Self { job, general, explore: Toolbox::definitions_for(Access::ReadOnly) }
    }

    /// About how many bytes precede the messages of a job's own requests: the system prompt and the tools.
    pub(super) fn job_bytes(&self) -> usize {
        const FRAME: usize = 200; // Field names around each tool.
        let tool = |tool: &ToolDefinition| FRAME + tool.description.len() + tool.input_schema.to_string().len();
        SYSTEM_PROMPT.len() + self.job.iter().map(tool).sum::<usize>()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Toolset {
    Agent(AgentKind),
    None,
}

impl Clients {
    /// The job's own client is made at once, so that what is wrong with it is known before anything is sent.
    ///
    /// # Errors
    /// In words: a missing key, an address that cannot be used, a cassette that cannot be read.
    pub(super) fn new(
        plan: &ModelPlan,
        key: Option<Key>,
        timeouts: Timeouts,
        http: &Arc<Http>,
        tools: Toolsets,
    ) -> Result<Self, String> {
        let made = Mutex::default();
        let clients = Self { plan: plan.clone(), key, timeouts, http: Arc::clone(http), tools, made };
        clients.client(ModelSlot::Main, Toolset::Agent(AgentKind::Job))?;
        Ok(clients)
    }

    /// The client for a call.
    ///
    /// # Errors
    /// A failure that no retry can change.
    pub(super) fn get(&self, slot: ModelSlot, source: Source, kind: AgentKind) -> Result<Arc<Client>, Failure> {
        let toolset = if source == Source::Summary { Toolset::None } else { Toolset::Agent(kind) };
        self.client(slot, toolset).map_err(|message| Failure {
            remedy: Remedy::GiveUp,
            kind: ModelErrorKind::InvalidRequest,
            message,
            request_id: None,
            status: None,
        })
    }

    fn client(&self, slot: ModelSlot, toolset: Toolset) -> Result<Arc<Client>, String> {
        // A recorded conversation is one list of answers, whoever asks.
        let recorded = matches!(self.plan.provider, Provider::Replay { .. });
        let name = if recorded { (ModelSlot::Main, Toolset::Agent(AgentKind::Job)) } else { (slot, toolset) };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&name) {
            return Ok(Arc::clone(client));
        }
        let plan = match slot {
            ModelSlot::Main => &self.plan,
            ModelSlot::Fallback => self.plan.fallback.as_deref().unwrap_or(&self.plan),
            ModelSlot::Small => self.plan.small.as_deref().unwrap_or(&self.plan),
        };
        let (system, tools) = match toolset {
            Toolset::Agent(AgentKind::Job) => (SYSTEM_PROMPT, self.tools.job.clone()),
            Toolset::Agent(AgentKind::General) => (GENERAL_PROMPT, self.tools.general.clone()),
            Toolset::Agent(AgentKind::Explore) => (EXPLORE_PROMPT, self.tools.explore.clone()),
            Toolset::None => ("", Vec::new()),
        };
        let session = Session { system: system.to_owned(), tools, key: self.key.clone(), timeouts: self.timeouts };
        let client = Arc::new(Client::new(plan, &session, &self.http)?);
        made.insert(name, Arc::clone(&client));
        Ok(client)
    }
}
