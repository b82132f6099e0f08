//! A batch and CI task runner for coding agents.
//!
//! # Flow
//!
//! `cli` and `load` read what the person wrote; `spec` parses it, every error with its place; `plan` makes of it what will run, with
//! nothing left to look up. `drive` runs the plan: it asks `schedule` which job starts, gives each job a `worktree`, steps its `query`
//! and performs the effects through `model`, `tools` and `hooks`. `judge` turns what was found into one [`outcome::Outcome`]. Each
//! thing that happens is an `event`; `report` folds events into text and `output` writes it; `publish` brings work that passed to
//! where it is wanted.
//!
//! # Modules
//!
//! The list below is in reading order, and a module uses only those above it. P is pure (no clock, file, process, network,
//! chance, task), R is the rim.
//!
//! # Invariants
//!
//! - The runner judges, not the model: nothing that a model says reaches `judge`.
//! - `query` decides and does no I/O; `drive` does I/O and decides nothing.
//! - Limits are exact: a call is sent only when its worst case fits under every cap.
//! - One door per hazard: `process` spawns, `worktree` touches git, `output::file` writes reports, `drive::clock` reads the clock,
//!   `load` reads the environment.
//! - No child outlives its call, and none outlives the runner.
//! - A worktree outlives its job only if the job asked for it, and never with work that is saved nowhere.
//! - `report` never changes an outcome.

pub mod units; // P
pub mod outcome; // P
pub mod exit; // P
pub mod explain; // P
pub mod error; // P
pub mod event; // P
pub mod clean; // P
pub mod cli; // P
pub mod spec; // P
pub mod plan; // P
pub mod schedule; // P
pub mod query; // P
pub mod judge; // P
pub mod report; // P
pub mod load; // R
pub mod process; // R
pub mod worktree; // R
pub mod hooks; // R
pub mod tools; // R
pub mod model; // R
pub mod output; // R
pub mod store; // R
pub mod publish; // R
pub mod drive; // R

use exit::ExitStatus;
use std::ffi::OsString;

/// Runs the command line and says how the process ends.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitStatus {
    drive::command(args)
}
