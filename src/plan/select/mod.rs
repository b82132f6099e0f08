//! Which of the planned jobs are run: by an expression, by a shard, by how they ended before.

mod apply;
mod filter;
mod parse;
mod shard;

pub use apply::{Choice, Chosen, choose};
pub use filter::{Before, Filter};
pub use parse::Fault;
pub use shard::{Shard, ShardSource, from_ci};
