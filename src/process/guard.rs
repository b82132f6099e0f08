//! The guard's side: starts the command, ends all that descends from it, reports how it ended.
//!
//! On descriptor 0 is the socket to the runner, on 2 the pipe for the command's output. What else the command gets comes
//! first through the socket ([`handover`](super::handover)). The report is one line: [`Report`]'s text. Any further byte
//! from the runner, or the end of the stream, means: end it now.

use super::descendants::{below, kill_all};
use super::handover::{ERRORS, INPUT, receive};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, setsid, wait};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The hidden first argument that makes this program a guard: `main` hands the rest to [`guard_main`].
pub const SUBCOMMAND: &str = "__guard";

/// The name that a guard goes by, so that a command which kills processes named like the runner spares both.
pub(super) const NAME: &str = "rnr-guard";

/// Between two looks at whether killed processes are gone.
const PAUSE: Duration = Duration::from_millis(2);

/// A guard's life: `GRACE_MS [input] [errors] -- PROGRAM ARGUMENTS…`.
///
/// Its own exit code means nothing: the report does. Must be called before anything else is set up, since a guard is
/// started for each command.
pub fn guard_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args;
    let grace = args.next().and_then(|text| text.to_str()?.parse().ok()).map(Duration::from_millis);
    let handed: Vec<OsString> = args.by_ref().take_while(|text| text != "--").collect();
    let (Some(grace), Some(program)) = (grace, args.next()) else { return ExitCode::from(2) };
    if handed.iter().any(|word| word != INPUT && word != ERRORS) {
        return ExitCode::from(2);
    }
    let report = match start(&program, args, &handed) {
        Ok(main) => watch(main, grace),
        Err(error) => Report::not_started(&program, &error),
    };
    // When the runner is gone there is nobody to tell.
    let _ = rustix::io::write(rustix::stdio::stdin(), format!("{}\n", report.line()).as_bytes());
    ExitCode::SUCCESS
}

#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn start(program: &OsString, args: impl Iterator<Item = OsString>, handed: &[OsString]) -> io::Result<Pid> {
    // A session of its own has no terminal. It fails only for a group leader, which a fresh child never is.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::thread::set_name(c"rnr-guard");
        rustix::process::set_child_subreaper(Some(getpid()))?;
    }
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
    let (mut stdin, mut stderr) = (Stdio::null(), Stdio::from(output.try_clone()?));
    if !handed.is_empty() {
        let descriptors = receive(rustix::stdio::stdin())?;
        if descriptors.len() != handed.len() {
            return Err(io::Error::other("the runner did not hand over what it announced"));
        }
        for (word, descriptor) in handed.iter().zip(descriptors) {
            *(if word == INPUT { &mut stdin } else { &mut stderr }) = Stdio::from(descriptor);
        }
    }
    // Nothing of this stays open here: the runner would not see that the command has closed its end.
    let child = std::process::Command::new(program)
        .args(args)
        .stdin(stdin)
        .stdout(output)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the system gave no process id"))
}

/// Waits for the command, and for word from the runner beside it.
fn watch(main: Pid, grace: Duration) -> Report {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    // Never joined: it ends with the process.
    let listener = std::thread::Builder::new().spawn(move || obey(main, grace, &seen));
    if listener.is_err() {
        // Without it nobody could end the command.
        let _ = kill_process_group(main, Signal::KILL);
    }
    let status = reap_until(main);
    ended.store(true, Ordering::SeqCst);
    let leftovers = clear(main);
    match status.map(|status| (status.exit_status(), status.terminating_signal())) {
        Some((Some(code), _)) => Report::Exited { code, leftovers },
        Some((None, Some(signal))) => Report::Signaled { signal, leftovers },
        Some((None, None)) | None => Report::NotStarted { missing: false, message: "its end was not seen".into() },
    }
}

/// Blocks until the runner wants an end, then ends everything; does not come back as long as the command lives.
fn obey(main: Pid, grace: Duration, ended: &AtomicBool) {
    let _ = retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut [0_u8]));
    if !ended.load(Ordering::SeqCst) {
        let _ = kill_process_group(main, Signal::TERM);
        let _ = kill_process_group(main, Signal::CONT);
    }
    std::thread::sleep(grace);
    while !ended.load(Ordering::SeqCst) {
        let _ = kill_process_group(main, Signal::KILL);
        kill_all(descendants);
        std::thread::sleep(PAUSE);
    }
}

fn descendants(entries: &[super::descendants::Entry]) -> Vec<super::descendants::Entry> {
    below(entries, &BTreeSet::from([getpid().as_raw_pid()]))
}

/// Reaps children until `main` is among them.
fn reap_until(main: Pid) -> Option<WaitStatus> {
    loop {
        match retry_on_intr(|| wait(WaitOptions::empty())) {
            Ok(Some((pid, status))) if pid == main => return Some(status),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// Kills and reaps all that is left; gives back how many were alive.
fn clear(main: Pid) -> u32 {
    const ROUNDS: u32 = 1000; // With `PAUSE` two seconds: only a process that cannot be killed lasts so long.
    // A process that is dying is seen again: it counts once.
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS {
        loop {
            match retry_on_intr(|| wait(WaitOptions::NOHANG)) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // The usual case: no child, so no descendant either, and no need to look.
                Err(Errno::CHILD) => {
                    if cfg!(not(target_os = "linux")) {
                        let _ = kill_process_group(main, Signal::KILL);
                    }
                    return killed.len() as u32;
                }
                Err(_) => return killed.len() as u32,
            }
        }
        killed.extend(kill_all(descendants));
        std::thread::sleep(PAUSE);
    }
    killed.len() as u32
}

/// How the command ended, as the guard tells the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Exited { code: i32, leftovers: u32 },
    Signaled { signal: i32, leftovers: u32 },
    NotStarted { missing: bool, message: String },
}

impl Report {
    fn not_started(program: &OsString, error: &io::Error) -> Self {
        let missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
        Self::NotStarted { missing, message: format!("cannot run `{}`: {error}", program.to_string_lossy()) }
    }

    /// One line, without its end.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Exited { code, leftovers } => format!("exit {leftovers} {code}"),
            Self::Signaled { signal, leftovers } => format!("signal {leftovers} {signal}"),
            Self::NotStarted { missing, message } => {
                format!("none {} {}", u32::from(*missing), message.replace(['\n', '\r'], " "))
            }
        }
    }

    /// What [`line`](Self::line) gives, read.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (kind, count, rest) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        match kind {
            "exit" => Some(Self::Exited { code: rest.parse().ok()?, leftovers: count }),
            "signal" => Some(Self::Signaled { signal: rest.parse().ok()?, leftovers: count }),
            "none" => Some(Self::NotStarted { missing: count == 1, message: rest.to_owned() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_wire() {
        for report in [
            Report::Exited { code: 3, leftovers: 0 },
            Report::Signaled { signal: 9, leftovers: 2 },
            Report::NotStarted { missing: true, message: "cannot run `a b`: no such file".into() },
            Report::NotStarted { missing: false, message: String::new() },
        ] {
            assert_eq!(Report::parse(&report.line()), Some(report));
        }
        assert_eq!(Report::parse("exit 0"), None);
        assert_eq!(Report::parse("exit x 0"), None);
        assert_eq!(Report::parse(""), None);
    }
}
