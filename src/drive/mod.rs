//! The shell around the pure cores: performs their effects and feeds them events. It owns every task of a run.
//!
//! `run`, `check`, `publish` and `apply` are the commands; `dispatch` runs jobs, `job` one of them, `query` one conversation.

mod apply;
mod changes;
mod check;
mod clients;
mod clock;
mod closing;
mod command;
mod context;
mod conversation;
mod dispatch;
mod gates;
mod job;
mod judging;
mod limits;
mod look;
mod looped;
mod matrix;
mod merged;
mod opening;
mod past;
mod place;
mod purse;
mod publish;
mod publishing;
mod query;
mod recipe;
mod resume;
mod room;
mod run;
mod savepoints;
mod say;
mod secrets;
mod select;
mod settings;
mod stop_hooks;
mod tool_hooks;
mod tooling;
mod signal;
mod workspace;

pub use command::command;
