//! Values of secret variables, replaced in everything that is said.
//!
//! Events lose them before any report is made of them, since reports cut and escape what they quote. The doors to disk
//! and console look again, for the forms that text takes inside JSON and XML.

mod event;
mod redactor;

pub use redactor::{Redactor, Secret};
