//! From what was found to the one [`Outcome`](crate::outcome::Outcome): the runner judges, not the model.
//!
//! Pure. What the model says about its work never gets here.

mod base;
mod work;

pub use base::{BaseGate, judge_base};
pub use work::{FinalGate, Work, judge_work};
