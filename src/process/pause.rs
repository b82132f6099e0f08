//! A pause of everything: a person has stopped the run with SIGTSTP, and the time until it goes on counts for nothing.

use super::descendants::{all, below};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long all pauses of this process took, in milliseconds. There is one process, so there is one number.
static PAUSED: AtomicU64 = AtomicU64::new(0);

/// How long all pauses of this process took.
pub fn paused() -> Duration {
    Duration::from_millis(PAUSED.load(Ordering::Relaxed))
}

/// Stops all children and this process, and comes back when it is told to go on (SIGCONT); so do the children then.
pub fn pause() {
    let began = Instant::now();
    let us = getpid();
    let family = below(&all(), &BTreeSet::from([us.as_raw_pid()]));
    let children: Vec<Pid> = family.into_iter().filter(|entry| !entry.dead).map(|entry| entry.pid).collect();
    let tell = |signal| {
        for child in &children {
            // One that is gone needs to hear nothing.
            let _gone = kill_process(*child, signal);
        }
    };
    tell(Signal::STOP);
    // A process that cannot stop goes on, which is all that can be done about it.
    let _cannot = kill_process(us, Signal::STOP);
    tell(Signal::CONT);
    PAUSED.fetch_add(u64::try_from(began.elapsed().as_millis()).unwrap_or_default(), Ordering::Relaxed);
}

/// Waits for so long, pauses not counted.
pub async fn wait(span: Duration) {
    let (began, before) = (Instant::now(), paused());
    loop {
        let gone = began.elapsed().saturating_sub(paused().saturating_sub(before));
        let Some(left) = span.checked_sub(gone).filter(|left| !left.is_zero()) else { return };
        sleep(left).await;
    }
}
