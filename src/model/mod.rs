//! Talking to models: one call is one attempt, its answer a whole message or a failure that says what to do.
//!
//! Bytes of a stream become frames (`sse`), frames a message (`anthropic`); a cassette (`replay`) goes the same way as a
//! server's answer (`http`). While it streams, each part is told as soon as it is whole (`progress`). Nothing is tried again
//! here: the query decides.

mod anthropic;
mod cassette;
mod client;
mod http;
mod ids;
mod json;
mod key;
mod live;
mod waiting;
mod progress;
mod reading;
mod replay;
mod retry_after;
pub mod sse;

pub use client::{Client, Session};
pub use http::Http;
pub use key::Key;
pub use live::Live;
pub use progress::Progress;
pub use reading::CallError;
pub use replay::Replay;
pub(crate) use retry_after::retry_after;
pub use waiting::Timeouts;

use reading::Headers;
