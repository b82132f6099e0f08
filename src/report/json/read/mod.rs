//! The way back: from the files of a run to the values that they were written from. What was read goes through the same folds
//! as what a live run tells, so that merged and later reports say what the run itself said.
//!
//! Unknown keys are passed over, as a later version may add some; a later schema is refused in words.

mod codes;
mod message;
mod result;
mod run;
mod transcript;

pub use result::job_report;
pub use run::{RunRecord, run_record};
pub use transcript::{Stage, Taped, transcript};
