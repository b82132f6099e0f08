//! Which processes descend from which, and how they are ended for good.
//!
//! Linux tells it in `/proc`. Elsewhere the lists are empty and only process groups are ended.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;

/// A process as `/proc/PID/stat` tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// It has ended and waits to be reaped.
    pub(super) dead: bool,
}

/// All processes, as far as they can be seen.
pub(super) fn all() -> Vec<Entry> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    folder
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        .filter_map(|entry| std::fs::read(entry.path().join("stat")).ok())
        .filter_map(|stat| parse(&String::from_utf8_lossy(&stat)))
        .collect()
}

/// `pid (name) state parent group session …`, where the name may hold anything, parentheses too.
fn parse(stat: &str) -> Option<Entry> {
    let (pid, rest) = stat.split_once(' ')?;
    let mut fields = rest[rest.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    Some(Entry { pid, parent, session, dead: matches!(state, "Z" | "X") })
}

/// Those of `entries` that descend from one of `roots`; the roots themselves are not among them.
pub(super) fn below(entries: &[Entry], roots: &BTreeSet<i32>) -> Vec<Entry> {
    let mut family = roots.clone();
    let mut found = Vec::new();
    loop {
        let next: Vec<Entry> = entries
            .iter()
            .filter(|entry| family.contains(&entry.parent) && !family.contains(&entry.pid.as_raw_pid()))
            .copied()
            .collect();
        if next.is_empty() {
            return found;
        }
        family.extend(next.iter().map(|entry| entry.pid.as_raw_pid()));
        found.extend(next);
    }
}

/// Kills the living among what `choose` picks; gives back which they were.
///
/// They are stopped first, until no new one appears: a stopped process cannot fork away from its end.
pub(super) fn kill_all(choose: impl Fn(&[Entry]) -> Vec<Entry>) -> BTreeSet<i32> {
    const ROUNDS: u32 = 50; // A chain of forks is cut after a few; the bound is for processes that cannot be signalled.
    let mut stopped = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut grew = false;
        for entry in choose(&all()).into_iter().filter(|entry| !entry.dead) {
            if stopped.insert(entry.pid.as_raw_pid()) {
                grew |= kill_process(entry.pid, Signal::STOP).is_ok();
            }
        }
        if !grew {
            break;
        }
    }
    let killed = |pid: &i32| Pid::from_raw(*pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
    stopped.into_iter().filter(killed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32) -> Entry {
        Entry { pid: Pid::from_raw(pid).unwrap(), parent, session: 1, dead: false }
    }

    #[test]
    fn a_stat_line_is_read_whatever_the_name_of_the_program() {
        let expected = Entry { pid: Pid::from_raw(12).unwrap(), parent: 7, session: 9, dead: false };
        assert_eq!(parse("12 (sh) S 7 8 9 0 -1"), Some(expected));
        assert_eq!(parse("12 (a) Z 1 (b\n) R 7 8 9 0"), Some(expected));
        assert_eq!(parse("12 (sh) Z 7 8 9 0"), Some(Entry { dead: true, ..expected }));
        assert_eq!(parse("12 (sh"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_in_any_order() {
        let entries = [entry(5, 4), entry(2, 1), entry(4, 2), entry(9, 8), entry(3, 2)];
        let mut pids: Vec<_> =
            below(&entries, &BTreeSet::from([2])).iter().map(|entry| entry.pid.as_raw_pid()).collect();
        pids.sort_unstable();
        assert_eq!(pids, [3, 4, 5]);
        assert_eq!(below(&entries, &BTreeSet::from([7])), []);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_among_all() {
        let me = rustix::process::getpid();
        let found = all().into_iter().find(|entry| entry.pid == me).unwrap();
        assert_eq!(found.parent, rustix::process::getppid().map_or(0, Pid::as_raw_pid));
        assert!(!found.dead);
    }
}
