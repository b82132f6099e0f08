//! A model server of our own on loopback. It speaks the Messages API byte by byte from a script, refuses every request
//! that breaks a documented rule with the API's own 400, and keeps a log.
//!
//! ```text
//! let mock = Mock::start(Script::calls([tool("Bash", json!({"command": "ls"})), text("Done.")]));
//! … run something against mock.url() …
//! assert_eq!(mock.breaches(), [""; 0]);
//! ```
//!
//! The server has a thread and a runtime of its own, so tests without a runtime can use it, and ends when it is dropped.

mod answer;
mod betas;
mod conversation;
mod http;
mod images;
mod log;
mod rules;
mod script;
mod server;
mod stream;

pub(crate) use answer::{Answer, Gate, html, json, message, raw, status, stream, text, tool};
pub(crate) use http::Request;
pub(crate) use script::Script;
pub(crate) use server::Mock;
pub(crate) use stream::LineEnd;
