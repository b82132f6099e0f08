//! Reports for programs. The shapes are this folder's own, with a version: keys may be added, none is renamed or
//! changes its meaning within one [`SCHEMA`].

mod event;
pub mod read;
mod result;
mod run;
mod savepoint;
mod transcript;
mod value;

pub use event::event_line;
pub use result::result_file;
pub use run::run_file;
pub use savepoint::{
    Given, Stand, books_line, checkpoint_line, ended_line, resumed_line, savepoint_line, started_line,
};
pub use transcript::{TranscriptMeta, compaction_line, message_line, meta_line, turn_line};
pub use value::SCHEMA;
pub(in crate::report) use value::UsageValue;
