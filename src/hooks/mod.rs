//! Runs the commands of a job file that are not the agent's: gates and setup. Says what happened, judges nothing.

mod call;
mod gate;
#[cfg(test)]
mod scene;
mod setup;

pub use gate::{GateRun, run_gate};
pub use setup::{SetupProblem, run_setup};
