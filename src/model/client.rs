//! The client of a conversation: one variant for each way to reach a model.

use super::cassette::Cassette;
use super::http::Http;
use super::key::Key;
use super::live::{Address, Live};
use super::progress::Progress;
use super::reading::CallError;
use super::replay::Replay;
use super::waiting::Timeouts;
use crate::plan::{ModelPlan, Provider};
use crate::query::{ModelCall, Reply, ToolDefinition};
use tokio::sync::mpsc::Sender;

/// What is fixed for a whole conversation.
#[derive(Clone, Debug)]
pub struct Session {
    /// The system prompt; may be empty.
    pub system: String,
    /// What the model may call.
    pub tools: Vec<ToolDefinition>,
    /// The key; not needed by a server on this machine.
    pub key: Option<Key>,
    /// How long a call waits for what.
    pub timeouts: Timeouts,
}

/// A client for one conversation. A call is one attempt: nothing is tried again here.
#[derive(Debug)]
pub enum Client {
    /// A server that speaks the Messages API.
    Anthropic(Box<Live>),
    /// A recorded conversation.
    Replay(Replay),
}

impl Client {
    /// A client for the model of a plan.
    ///
    /// # Errors
    /// In words: a missing key, an address or header that cannot be used, a cassette that cannot be read (with its line).
    pub fn new(plan: &ModelPlan, session: &Session, http: &Http) -> Result<Self, String> {
        match &plan.provider {
            Provider::Anthropic { base_url, api_key_env, headers } => {
                let address = Address { base_url, key_name: api_key_env, headers };
                Ok(Self::Anthropic(Box::new(Live::new(plan, &address, session, http)?)))
            }
            Provider::Replay { cassette } => Cassette::read(cassette).map(Replay::new).map(Self::Replay),
        }
    }

    /// Makes one call. Dropping the future ends it and closes its connection.
    ///
    /// # Errors
    /// What went wrong and whether another try can help, with the usage that the stream had told before.
    pub async fn call(&self, call: &ModelCall, progress: &Sender<Progress>) -> Result<Reply, CallError> {
        match self {
            Self::Anthropic(live) => live.call(call, progress).await,
            Self::Replay(replay) => replay.call(call, progress).await,
        }
    }
}
