//! What the author wrote: job files and `runner.toml`, read strictly, every value with the place where it stands.
//!
//! Invariants: nothing here reads a file, and nothing is filled in or looked up; [`plan`](crate::plan) does that. A file
//! is parsed once, and all its errors come in one go. A [`Diagnostic`] carries the text that it points into, so that
//! one renderer can show errors of many files side by side.

mod budget;
mod course;
mod diagnostic;
mod duration;
mod hook;
mod job;
mod keys;
mod matrix;
mod model;
mod parse;
mod publish;
mod read;
mod render;
mod secret;
mod source;
mod worktree;

pub use diagnostic::{Code, Diagnostic, Level};
pub use duration::{MAX_DURATION, parse_duration};
pub use job::{
    Before, CommandSpec, CourseSpec, Entry, GroupSpec, JobSpec, Keep, MatrixAxis, ModelSpec, OnFail, PassWord,
    ProviderName, PublishSpec, StopHookKind, StopHookSpec, Thinking, TokenBudget, ToolHookEvent, ToolHookSpec,
    WorktreeSpec, Written,
};
pub use keys::nearest_word;
pub use parse::{parse_job, parse_settings};
pub use read::grouped;
pub use render::{Paint, render, render_all};
pub use secret::{looks_like_key, masked};
pub use source::{Layer, Place, SourceFile};
