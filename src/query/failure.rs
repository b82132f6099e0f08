//! What a model error means for the loop: HTTP statuses and provider texts are folded into it in `model/`.

use crate::outcome::ModelErrorKind;
use std::time::Duration;

/// What the loop does about a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Wait and send the same request again; the provider may have said how long.
    Retry {
        /// The provider's own wish (`retry-after`), never undercut.
        after: Option<Duration>,
    },
    /// The prompt is too long: send less of the conversation.
    Shrink,
    /// An image is refused: send the conversation without images.
    StripMedia,
    /// The provider does not take its own thinking back, since the conversation before it has changed: send it without.
    StripThinking,
    /// Nothing that a retry could change.
    GiveUp,
}

/// A model call that gave no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What to do.
    pub remedy: Remedy,
    /// What kind of error it is, should it be final.
    pub kind: ModelErrorKind,
    /// What happened, in words fit for a report: the provider's text, never a key.
    pub message: String,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The HTTP status, where there was an answer.
    pub status: Option<u16>,
}
