//! The agent loop as a state machine: pure, without clock, chance, file, socket or task.
//!
//! The driver performs [`Effect`]s and feeds their results back as [`Event`]s; only [`Query`] decides. The same core runs under
//! the real driver and under tests that play hostile histories.
//!
//! Invariants: one [`Effect::Finish`], and nothing after it. Every request keeps [`History::check`]. A call is sent only within
//! the turn limit and the caps. Stop hooks never run on an error. Every continue has its transition.

mod budget;
mod calls;
mod effect;
mod ending;
mod event;
mod failure;
mod machine;
mod params;
mod repetition;
mod retry;
mod state;
mod tool;
mod transcript;
mod words;

#[cfg(test)]
mod tests;

pub use budget::{Caps, Ledger, MIN_OUTPUT, estimate};
pub use effect::{Clearing, Effect, ModelCall, ModelSlot, Notice, Source, TaskBudget};
pub use event::{CallId, Cleared, Event, HookResult, HookStatus, Reply, Stop};
pub use failure::{Failure, Remedy};
pub use machine::Query;
pub use params::{Concurrency, HookRule, OnRed, Params};
pub use retry::Patience;
pub use state::{Measured, State};
pub use tool::ToolDefinition;
pub use transcript::{Block, History, Media, Message, Origin, Role, ToolInput, ToolResult, ToolUse, ToolUseId};
pub use words::describe;
