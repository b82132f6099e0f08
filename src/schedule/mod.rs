//! Which job runs when: pure, driven by events like the query core, and simulated like it.
//!
//! Invariants: every job is decided once, and [`Action::Done`] comes once, after the last decision. Never more attempts at once than there
//! are slots, or than a group allows. A job starts after all that it needs has passed. What an earlier process has decided is never
//! started again. Whatever can start does: nothing waits for nothing.

mod machine;
mod node;
mod waiting;

#[cfg(test)]
mod tests;

pub use machine::Scheduler;
pub use node::{Action, Attempt, Cause, Decision, End, Input, Known, Limits, Node, Skip};
pub use waiting::Waiting;
