//! The guard as the shipped binary runs it: what unit tests, whose guard is the test harness, cannot see.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// Starts `runner __guard` on a script; gives back the runner's end of the socket.
#[expect(clippy::disallowed_methods, reason = "the guard is what is tested")]
fn guard(script: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .args(["__guard", "200", "--", "sh", "-c", script])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, ours)
}

#[test]
fn a_guard_reports_the_end_and_goes_by_another_name() {
    let (child, mut socket) = guard("cat /proc/$PPID/comm; sleep 600 & exit 7");
    let mut report = String::new();
    socket.read_to_string(&mut report).unwrap();
    assert_eq!(report, "exit 1 7\n");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "rnr-guard\n");
}

#[test]
fn a_guard_without_a_runner_ends_what_it_guards() {
    let (child, socket) = guard("trap '' TERM; setsid sleep 600 & echo ready; while :; do sleep 600; done");
    drop(socket);
    // Its end of the pipe closes when the last process is gone.
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the guard is what is tested")]
fn a_guard_called_wrongly_runs_nothing() {
    for args in [&["__guard"][..], &["__guard", "x", "--", "true"], &["__guard", "5", "true"], &["__guard", "5", "--"]]
    {
        let status = Command::new(env!("CARGO_BIN_EXE_runner")).args(args).stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}
