//! Brings work that passed to where people review it: a pushed branch, a pull request.
//!
//! A job leaves a bundle and a `publish.json` (`record`). [`read_job`] holds its files against each other; a [`Publisher`] takes the
//! bundle into a repository of its own, judges its changes by a [`DiffPolicy`], pushes it, and opens a pull request (`forge`)
//! with a text from the outcome (`request`). The same steps are taken at the end of a job that may push, and later, elsewhere, by
//! `runner publish`.
//!
//! Invariants: the token is in no argument, address, file or log; nothing that a job left is run; work of others is never
//! overwritten; text of prompts and models goes out only as [`inert()`] text.

mod check;
mod forge;
mod inert;
mod leave;
mod policy;
mod publisher;
mod record;
mod remote;
mod request;

pub use check::{Checked, Seal, bundle_of, jobs_of, read_job, result_of};
pub use inert::inert;
pub use leave::{Leaving, is_published, leave, seal};
pub use policy::DiffPolicy;
pub use publisher::{Api, Fault, Publisher};
pub use record::{PublishFile, Published, PullRequest, sha256};
pub use remote::{Remote, TOKEN, TOKEN_ENV, Way, token_names};
pub use request::{Facts, body, title};
