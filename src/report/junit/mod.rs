//! `junit.xml`: one suite a job file, one case a job and one a gate, for every reader that CI systems have.
//!
//! `junit-report` writes the document from cleaned, bounded strings; one pass over it adds what that crate has no place
//! for: properties, flaky elements, and counts.

mod body;
mod cases;
mod document;
mod fold;

pub use fold::Junit;

#[cfg(test)]
mod tests;
