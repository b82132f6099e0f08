//! The only clock. Everything else is told the time, as [`Elapsed`] since the run began.
#![expect(clippy::disallowed_methods, reason = "this is the door that the lint points to")]

use crate::process;
use crate::units::{Elapsed, RunId};
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// A clock that started with the run. It stands still while the run is paused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    wall: Timestamp,
    /// What had passed already when it was started again.
    before: Duration,
}

impl Clock {
    /// Starts it.
    #[must_use]
    pub(super) fn start() -> Self {
        Self { start: Instant::now(), wall: Timestamp::now(), before: Duration::ZERO }
    }

    /// Starts that of a run again which another process has begun, at the moment up to which it is known.
    ///
    /// # Errors
    /// Says that the time of its beginning is none.
    pub(super) fn go_on(started_at: &str, known: Elapsed) -> Result<Self, String> {
        let wall = started_at.parse().map_err(|_| format!("`{started_at}` is not a time"))?;
        Ok(Self { start: Instant::now(), wall, before: known.0 })
    }

    /// The time since the run began.
    #[must_use]
    pub(super) fn now(&self) -> Elapsed {
        Elapsed(self.before + self.start.elapsed().saturating_sub(process::paused()))
    }

    /// Ends at that moment; at once when it has passed.
    pub(super) async fn sleep_until(&self, moment: Elapsed) {
        process::wait(moment.since(self.now())).await;
    }

    /// When the run began: RFC 3339 in UTC, with seconds.
    #[must_use]
    pub(super) fn started_at(&self) -> String {
        self.wall.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// A name for the run: its time down to a quarter of a millisecond, so that names sort by time, and some chance.
    #[must_use]
    pub(super) fn run_id(&self) -> RunId {
        let nanos = self.wall.subsec_nanosecond().unsigned_abs();
        let mixed = (u64::from(nanos) << 32 | u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fraction = u64::from(nanos) * 4_096 / 1_000_000_000;
        RunId(format!("{}-{fraction:03x}{:03x}", self.wall.strftime("%Y%m%d-%H%M%S"), mixed >> 52))
    }
}
