//! Pure folds: run events in, text out.
//!
//! [`tally`] gathers what happened; [`junit`], [`json`], [`summary`], [`html`], [`github`], [`table`], [`plain`], [`compare`] and [`progress`]
//! say it, each for one reader, and never know of each other. Nothing here changes an outcome or writes anything:
//! writing is `output`'s.

pub mod compare;
pub mod cut;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod merge;
pub mod paint;
pub mod plain;
pub mod progress;
pub mod redact;
pub mod summary;
pub mod table;
pub mod tally;
pub mod totals;

#[cfg(test)]
pub(crate) mod sample;
