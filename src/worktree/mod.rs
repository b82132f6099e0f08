//! Where a job works: a git worktree of its own, on a branch of its own.
//!
//! [`Repository`] is where the files come from, [`Worktree`] the copy that one job may change. The library answers what
//! concerns references and objects; the git program does what touches files, since filters, sparse checkouts and
//! attributes are right only there. It runs without hooks, signing, background work and prompts, and with every location
//! named, so that nothing found in the worktree can lead it elsewhere.
//!
//! Invariants: the person's checkout, its index and its branches are never touched; making a worktree is all or nothing;
//! what the agent did to *its* index decides nothing, since snapshots are made with an index of our own; work is
//! never lost by [`Worktree::remove`] once it was committed.
//!
//! What it can't do: files that ignore rules leave out are in no snapshot; an embedded repository is kept as a
//! reference to its commit, without its files.

mod adopt;
mod checkpoint;
mod apply;
mod bundle;
mod changes;
mod commit;
mod create;
mod fixture;
mod git;
mod patch;
mod pinned;
mod push;
mod quarantine;
mod registration;
mod remove;
mod repository;
mod restore;
mod site;
mod snapshot;
mod unseen;

pub use adopt::Adopted;
pub use apply::{Applied, ApplyFault};
pub use changes::{After, Change, Step};
pub use checkpoint::checkpoint_ref;
pub use commit::Commit;
pub use create::{NewWorktree, Worktree};
pub use push::{Credentials, PushFault, Pushed};
pub use quarantine::{Quarantine, WAYS};
pub use repository::Repository;
pub use snapshot::TreeId;

#[cfg(test)]
mod tests;
