//! Brings work that passed to where people review it: a pushed branch, a pull request.
//!
//! A job leaves a bundle and a `publish.json` (`record`); [`publish`] checks both (`verify`), takes the bundle into a repository of its own,
//! judges its changes by a [`DiffPolicy`], pushes it, and opens a pull request (`forge`) with a text from the outcome (`request`).
//! The same steps are taken at the end of a job that may push, and later, elsewhere, by `runner publish`.
//!
//! Invariants: the token is in no argument, address, file or log; nothing that a job left is run; work of others is never
//! overwritten; text of prompts and models goes out only as [`inert`] text.

mod inert;
mod policy;
mod request;

pub use inert::inert;
pub use policy::DiffPolicy;
pub use request::{Facts, body, title};
