//! What will run: job files resolved against defaults, complete and checked.
//!
//! Everything that can be wrong with a run before it begins is found here, in one go and with its place. Nothing here
//! touches the machine: what has to be asked of it goes through [`World`], which [`load`](crate::load) answers.

mod course;
mod endpoint;
mod expand;
mod gates;
mod job;
mod layers;
mod matcher;
mod matrix;
mod model;
mod models;
mod names;
mod publish;
mod resolve;
mod scope;
pub mod select;
mod show;
mod task;
mod template;
mod tool_hooks;
mod worktree;
mod world;

pub use crate::spec::{Before, Keep, OnFail, Thinking, ToolHookEvent};
pub use course::JOB_BASE;
pub use job::*;
pub use layers::{DEFAULTS, Setting};
pub use matcher::ToolMatcher;
pub use models::{ASSUMED_WINDOW, ModelFacts};
pub use resolve::{JobFile, Plan, Request, resolve};
pub use show::findings_json;
pub use world::{Purpose, World};
