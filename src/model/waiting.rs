//! How long a call waits, and for what.

use super::anthropic::errors;
use crate::query::Failure;
use crate::units::show_duration;
use std::time::Duration;
use tokio::time::Instant;

/// How long a call waits for what. Each limit ends the call with a failure that names it and that may be retried. Time in
/// which we keep the server waiting counts towards none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request to the first byte of the answer; 5 minutes, since a long prompt is read before anything is said.
    pub first_byte: Duration,
    /// Between any two bytes, pings and comments among them; 5 minutes.
    pub idle: Duration,
    /// Between two parts of the message; 10 minutes: a server that only sends pings is stuck.
    pub content_idle: Duration,
    /// The whole call; 30 minutes.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_mins(5),
            idle: Duration::from_mins(5),
            content_idle: Duration::from_mins(10),
            total: Duration::from_mins(30),
        }
    }
}

/// Which limit comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    FirstByte,
    Idle,
    ContentIdle,
    Total,
}

/// The limits of a call, as they move with what arrives.
pub(super) struct Waiting {
    limits: Timeouts,
    start: Instant,
    answered: bool,
    last_bytes: Instant,
    last_content: Instant,
}

impl Waiting {
    pub(super) fn new(limits: Timeouts) -> Self {
        let now = Instant::now();
        Self { limits, start: now, answered: false, last_bytes: now, last_content: now }
    }

    pub(super) fn answered(&mut self) {
        self.answered = true;
        self.content();
        self.bytes();
    }

    pub(super) fn bytes(&mut self) {
        self.last_bytes = Instant::now();
    }

    pub(super) fn content(&mut self) {
        self.last_content = Instant::now();
    }

    /// We kept the server waiting so long.
    pub(super) fn held(&mut self, time: Duration) {
        self.start += time;
        self.last_bytes += time;
        self.last_content += time;
    }

    pub(super) fn next(&self) -> (Instant, Limit) {
        let total = (self.start + self.limits.total, Limit::Total);
        if !self.answered {
            return total.min((self.start + self.limits.first_byte, Limit::FirstByte));
        }
        let idle = (self.last_bytes + self.limits.idle, Limit::Idle);
        total.min(idle).min((self.last_content + self.limits.content_idle, Limit::ContentIdle))
    }

    pub(super) fn ran_out(&self, limit: Limit) -> Failure {
        let limits = &self.limits;
        errors::stream(match limit {
            Limit::FirstByte => format!("no answer within {}", show_duration(limits.first_byte)),
            Limit::Idle => format!("the stream was silent for {}", show_duration(limits.idle)),
            Limit::ContentIdle => {
                format!("the stream brought nothing of the message for {}", show_duration(limits.content_idle))
            }
            Limit::Total => format!("the call was not over within {}", show_duration(limits.total)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_server_had_to_wait_counts_for_nothing() {
        let mut waiting = Waiting::new(Timeouts::default());
        waiting.answered();
        let (before, limit) = waiting.next();
        waiting.held(Duration::from_hours(1));
        assert_eq!(waiting.next(), (before + Duration::from_hours(1), limit));
    }
}
