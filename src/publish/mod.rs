//! Brings work that passed to where people review it: a pushed branch, a pull request.
//!
//! Text of prompts and models goes out only as [`inert`] text.

mod inert;

pub use inert::inert;
