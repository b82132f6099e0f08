//! What will run: job files resolved against defaults, complete and checked.

mod job;

pub use job::*;
