//! What happened on the server, for tests to ask and to wait for.

use super::http::Request;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// The log of a server.
#[derive(Debug, Default)]
pub(super) struct Log {
    state: Mutex<State>,
    changed: Condvar,
    changed_async: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) requests: Vec<Request>,
    pub(super) breaches: Vec<String>,
    pub(super) connections: usize,
    /// Calls that are being answered now, and the most that ever were at once.
    pub(super) active: usize,
    pub(super) peak: usize,
    /// Calls whose client went away before their answer was whole.
    pub(super) abandoned: usize,
}

/// When a test has waited too long: a safety net, never a measure.
const GIVE_UP: Duration = Duration::from_mins(1);

impl Log {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        self.changed_async.notify_waiters();
        result
    }

    /// Blocks until the condition holds.
    pub(super) fn wait(&self, condition: impl Fn(&State) -> bool) {
        let (_state, timeout) =
            self.changed.wait_timeout_while(self.state(), GIVE_UP, |state| !condition(state)).unwrap();
        assert!(!timeout.timed_out(), "the mock server waited in vain: {:?}", self.state());
    }

    /// Waits until the condition holds.
    pub(super) async fn wait_async(&self, condition: impl Fn(&State) -> bool) {
        let waited = tokio::time::timeout(GIVE_UP, async {
            loop {
                let changed = self.changed_async.notified();
                if condition(&self.state()) {
                    return;
                }
                changed.await;
            }
        });
        assert!(waited.await.is_ok(), "the mock server waited in vain: {:?}", self.state());
    }
}
