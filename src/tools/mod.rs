//! What the model may do: Read, Write, Edit, Glob, Grep, Bash, TaskOutput, TaskStop, with the names and fields that models
//! know.
//!
//! Every mistake becomes an error result in words by which the model can correct itself; none ends the loop. File tools
//! never leave the worktree, whatever links lead out of it, and `.git` is not theirs; Read and Grep also open the job's whole
//! outputs. Nothing here reads the home
//! directory, the environment or settings outside of the worktree.

mod background;
mod edit;
mod glob;
mod grep;
mod limit;
mod nearest;
mod open;
mod path;
mod picture;
mod protect;
mod read;
mod schema;
mod search;
mod shell;
mod store;
mod substitute;
mod toolbox;
mod walk;
mod workspace;
mod write;

pub use background::Ended;
pub use protect::Protected;
pub use toolbox::{Access, ToolContext, Toolbox};
