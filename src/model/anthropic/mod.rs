//! The Anthropic Messages API: what is sent, what comes back, and what its errors mean. Pure.

mod assemble;
mod blocks;
mod encode;
pub(super) mod errors;
mod events;
mod refusals;
mod request;

pub(super) use assemble::{Assembler, Step};
pub(super) use events::events;
pub(super) use request::Requests;
