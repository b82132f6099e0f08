//! Context management: what of the conversation the model is shown, cheap means first.
//!
//! The stored conversation only grows (until a compaction replaces it); a [`View`] holds what is shown of it, as a projection that is
//! extended with each message and made anew only when a layer acts. The layers, in their order before each call:
//!
//! 0. `result_budget`: a large result goes to a file, its head and tail into the message. Nothing earlier changes.
//! 1. `snip`: the oldest turns that say nothing any more (all their calls only looked, all their results are cleared) are left out.
//! 2. `micro`: results older than the last three turns become one-line stubs.
//! 3. `collapse`: spans of old turns are shown as digests, staged before they are applied, and can be lifted again.
//! 4. `compact`: a forked conversation summarises everything; a tail stays as it is. The loop does that; here is how.
//!
//! Layers 1 to 3 act only when the conversation has passed the marks of [`Window`] and when it frees enough, as each change of an
//! earlier message makes the provider read everything after it anew.
//!
//! # Models whose thinking is bound to the conversation before it
//!
//! There a changed message makes all later thinking invalid. Layer 0 changes nothing earlier. Layer 2 is left to the provider, whose own
//! clearing keeps thinking valid ([`Clearing`](crate::query::Clearing)), and without stubs layer 1 finds nothing. Layers 3 and 4 show
//! everything that follows without its thinking, which the provider allows. On other models no layer touches thinking, but for the
//! compaction request itself, which never holds any.

mod collapse;
mod compact;
mod micro;
mod restored;
mod result_budget;
mod snip;
mod turns;
mod view;
mod window;

pub(super) use compact::{instruction, replacement, sanitised, shrunk, tail_start};
pub use restored::Shown;
pub(super) use result_budget::cap;
pub(super) use view::View;
pub(super) use window::Window;
pub use window::auto_compact_at;
