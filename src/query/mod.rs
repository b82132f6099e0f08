//! The agent loop as a state machine: pure, without clock, chance, file, socket or task.
//!
//! The driver performs [`Effect`]s and feeds their results back as [`Event`]s; only [`Query`] decides. The same core runs under
//! the real driver and under tests that play hostile histories.
//!
//! Invariants: one [`Effect::Finish`], and nothing after it. Every request keeps [`History::check`]. A call is sent only within
//! the turn limit and the caps. Stop hooks never run on an error. Every continue has its transition.

mod agent;
mod answer;
mod budget;
mod bound;
mod calls;
mod compaction;
mod context;
mod effect;
mod ending;
mod event;
mod failing;
mod failure;
mod iteration;
mod machine;
mod params;
mod repetition;
mod retry;
mod saved;
mod shared;
mod state;
mod stopping;
mod subagent;
mod summary;
mod tool;
mod toolturn;
mod transcript;
mod words;

#[cfg(test)]
mod tests;

pub use bound::most_calls;
pub use budget::{Caps, Ledger, MIN_OUTPUT, estimate};
pub use context::{Shown, auto_compact_at};
pub use effect::{
    AgentKind, Clearing, Effect, Layer, ModelCall, ModelSlot, Notice, QueuedInput, Source, TaskBudget, ToolRun,
};
pub use event::{AgentId, CallId, Cleared, Event, HookResult, HookStatus, Reply, Stop, ToolRunId};
pub use failure::{Failure, Remedy};
pub use machine::Query;
pub use params::{Concurrency, Features, HookRule, HookRuleKind, ModelLimits, Models, OnRed, Params};
pub use retry::Patience;
pub use saved::{Past, Saved};
pub use state::{AutoCompact, BudgetProgress, PendingSummary, State};
pub use subagent::{AGENT, agent_kind};
pub use tool::{ToolDefinition, Traits, Usable};
pub use transcript::{Block, History, Media, Message, Origin, Role, ToolInput, ToolResult, ToolUse, ToolUseId};
pub use words::describe;
