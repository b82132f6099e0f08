//! Runs the commands of a job file that are not the agent's: setup, gates, and hooks as Claude Code has them. Says what
//! happened and what a hook wants, judges nothing.

mod answer;
mod call;
mod gate;
#[cfg(test)]
mod scene;
mod setup;
mod stop;
mod tool;
mod wire;

pub use gate::{GateRun, run_gate};
pub use setup::{SetupProblem, run_setup};
pub use stop::{StopDecision, StopHookRun, run_stop_hook};
pub use tool::{ToolDecision, ToolHookRun, combine, run_tool_hook};
pub use wire::{HookAgent, HookSession, StopInput, ToolHookInput, ToolHookMoment};
