//! Which job next: pure, driven by events like the query core.

mod machine;

pub use machine::{Action, FailFast, Input, Scheduler, Skip};
