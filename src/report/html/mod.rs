//! `report.html`: the whole run in one file that asks nobody for anything.
//!
//! What needs eyes comes first. Everything is in the page as text that is folded with `details`, so it can be read without its
//! script; the script only filters, sorts and moves. All text from outside goes through `door`, which is the one place that makes
//! HTML of it, and the page's own policy runs no script but its own.
//!
//! `tape` reads times from `events.jsonl`, `talk` the conversation from `transcript.jsonl`, `diff` the patch; `lanes`, `card`
//! and `top` draw; `page` keeps the whole within its bounds.

mod card;
mod diff;
mod door;
mod evidence;
mod lanes;
mod money;
mod page;
mod talk;
mod tape;
mod top;
mod words;

pub use page::{MAX, Page, Place};
pub use talk::Talk;
pub use tape::Tapes;

#[cfg(test)]
mod tests;
