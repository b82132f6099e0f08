//! What a call tells while it runs: pieces for the screen, and the parts of the answer as soon as they are whole.

use crate::query::Block;
use crate::units::Usage;
use tokio::sync::mpsc::Sender;

/// What a running call tells before it ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// What the stream says that the call has used so far: what is billed should the call be given up.
    Usage(Usage),
    /// A piece of the answer's text.
    Text(String),
    /// A piece of the model's thinking; often empty, since many models keep it to themselves.
    Thinking(String),
    /// The model has begun to call a tool of this name.
    ToolCall(String),
    /// A part of the answer is whole. None is left out, and they come in their order: the blocks told so far are always the
    /// first of those that the reply will hold, and before a reply all of them were told. Thinking comes together with
    /// the block after it, since thinking at the end of an answer is no part of it; a call whose arguments the output limit
    /// may have cut comes when it is clear that it did not.
    Block(Block),
}

/// Hands progress on. Pieces for the screen are dropped when it does not keep up: a slow screen never slows a call. A block
/// waits for room.
pub(super) async fn report(sender: &Sender<Progress>, progress: Progress) {
    match progress {
        // When nobody listens any more, the reply still counts. What a stopped call is billed by may not be lost either.
        Progress::Block(_) | Progress::Usage(_) => drop(sender.send(progress).await),
        Progress::Text(_) | Progress::Thinking(_) | Progress::ToolCall(_) => {
            drop(sender.try_send(progress));
        }
    }
}
