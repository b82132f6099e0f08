//! Runs that were left on the disk: finding them, reading them, holding the one that is worked on.
//!
//! Nothing here trusts a file: a run may have been killed at any byte, and a folder may hold anything.

mod load;
mod lock;
mod place;
mod runs;

pub use load::{StoredRun, load};
pub use lock::{Held, Holder, RunLock};
pub use place::{Place, find};
pub use runs::Runs;
