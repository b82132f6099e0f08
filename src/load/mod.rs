//! The rim around `spec` and `plan`: one look at the environment, the job files that were named, `runner.toml`, and the
//! files that jobs refer to.

mod find;
mod machine;
mod planning;
mod read;
mod snapshot;

pub use machine::Machine;
pub use planning::{Failure, plan, with_input};
pub use snapshot::{Snapshot, snapshot};
