//! What a call tells the screen while it runs.

use crate::units::Usage;
use tokio::sync::mpsc::Sender;

/// What a running call tells before it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// What the stream says that the call has used so far: what is billed should the call be given up.
    Usage(Usage),
    /// A piece of the answer's text.
    Text(String),
    /// A piece of the model's thinking; often empty, since many models keep it to themselves.
    Thinking(String),
    /// The model has begun to call a tool of this name.
    ToolCall(String),
}

/// Hands progress on when the screen keeps up, and drops it otherwise: a slow screen never slows a call.
pub(super) fn report(sender: &Sender<Progress>, progress: Progress) {
    match sender.try_send(progress) {
        Ok(()) | Err(_) => {}
    }
}
