//! The Anthropic Messages API: what is sent, what comes back, and what its errors mean. Pure.

mod assemble;
mod blocks;
mod encode;
mod encoded;
pub(super) mod errors;
mod events;
mod extras;
mod joined;
mod refusals;
mod request;
mod turns;

pub(super) use assemble::{Assembler, Step};
pub(super) use events::events;
pub(super) use extras::{Extras, Refused};
pub(super) use request::Requests;
