//! What is left when a guard itself was killed: its command's processes become children of the runner, and are ended.

use super::descendants::{Entry, all, below, kill_all};
use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Children of this process belong to all of it, so what is known of them does too.
static GUARDS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
static ADOPTING: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of orphans below it, so that [`sweep`] finds them. For `main`, once, at the start; from
/// then on each child that is not a running guard is taken for a stray. Does nothing on systems other than Linux.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if rustix::process::set_child_subreaper(Some(getpid())).is_ok() {
        ADOPTING.store(true, Ordering::Relaxed);
    }
}

/// Kills all processes below this one that belong to no running call, and reaps them; gives back how many there were.
///
/// For the end of a job or of the run. Blocks for some milliseconds, for at most a second when something cannot be
/// killed. Does nothing before [`adopt_orphans`].
pub fn sweep() -> u32 {
    const ROUNDS: u32 = 200;
    const PAUSE: Duration = Duration::from_millis(5);
    let mut killed = BTreeSet::new();
    if !ADOPTING.load(Ordering::Relaxed) {
        return 0;
    }
    for _ in 0..ROUNDS {
        let children = {
            // Under the lock no guard is a child without being registered.
            let guards = lock();
            let children = strays(&all(), &guards);
            killed.extend(kill_all(|entries| with_descendants(entries, strays(entries, &guards))));
            children
        };
        if children.is_empty() {
            break;
        }
        for child in children {
            // An error means that somebody else has reaped it.
            let _ = waitpid(Some(child.pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(PAUSE);
    }
    killed.len() as u32
}

/// Ends what a killed guard leaves behind; gives back how many processes that were.
pub(super) fn end_session(guard: i32) -> u32 {
    let in_session = |entries: &[Entry]| entries.iter().filter(|entry| entry.session == guard).copied().collect();
    kill_all(|entries| with_descendants(entries, in_session(entries))).len() as u32 + sweep()
}

fn strays(entries: &[Entry], guards: &BTreeSet<i32>) -> Vec<Entry> {
    let me = getpid().as_raw_pid();
    let is_stray = |entry: &&Entry| entry.parent == me && !guards.contains(&entry.pid.as_raw_pid());
    entries.iter().filter(is_stray).copied().collect()
}

fn with_descendants(entries: &[Entry], mut chosen: Vec<Entry>) -> Vec<Entry> {
    let roots = chosen.iter().map(|entry| entry.pid.as_raw_pid()).collect();
    chosen.extend(below(entries, &roots));
    chosen
}

fn lock() -> MutexGuard<'static, BTreeSet<i32>> {
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that is known to belong to a call, until this is dropped.
pub(super) struct Registered(i32);

impl Registered {
    /// Starts a guard and registers it in one step.
    pub(super) fn start<T>(spawn: impl FnOnce() -> std::io::Result<(T, Option<u32>)>) -> std::io::Result<(T, Self)> {
        let mut guards = lock();
        let (child, pid) = spawn()?;
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        guards.insert(pid);
        Ok((child, Self(pid)))
    }

    /// The guard's process id.
    pub(super) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.0)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock().remove(&self.0);
    }
}
