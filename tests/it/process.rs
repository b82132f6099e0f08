//! The guard as the shipped binary runs it: what unit tests, whose guard is the test harness, cannot see.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read, Write, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// Starts `runner __guard` on a script; gives back the runner's end of the socket.
fn guard(script: &str) -> (Child, UnixStream) {
    guard_with(&[], script)
}

#[expect(clippy::disallowed_methods, reason = "the guard is what is tested")]
fn guard_with(handed: &[&str], script: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .args(["__guard", "200"])
        .args(handed)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, ours)
}

fn hand_over(socket: &UnixStream, descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(socket, &[IoSlice::new(b"d")], &mut control, SendFlags::empty()).unwrap();
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
fn what_is_handed_over_reaches_the_command_and_stays_with_it() {
    let (child, mut socket) = guard_with(&["input", "errors"], "cat; echo error >&2; exec <&-; sleep 600 & exit 7");
    let (reader, mut input) = pipe().unwrap();
    let (mut errors, writer) = pipe().unwrap();
    hand_over(&socket, &[reader.as_fd(), writer.as_fd()]);
    drop((reader, writer));
    input.write_all(b"told").unwrap();
    drop(input);
    let (mut report, mut told) = (String::new(), String::new());
    socket.read_to_string(&mut report).unwrap();
    assert_eq!(report, "exit 1 7\n");
    errors.read_to_string(&mut told).unwrap();
    assert_eq!(told, "error\n");
    // What the command writes to stdout goes to the guard's stderr.
    assert_eq!(child.wait_with_output().unwrap().stderr, b"told");
}

#[test]
fn a_guard_that_is_not_handed_what_was_announced_runs_nothing() {
    for words in [&["input"][..], &["input", "errors"]] {
        let (mut child, mut socket) = guard_with(words, "echo ran");
        socket.write_all(b"d").unwrap();
        let mut report = String::new();
        socket.read_to_string(&mut report).unwrap();
        assert!(report.starts_with("none 0 ") && report.contains("did not hand over"), "{report}");
        child.wait().unwrap();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the guard is what is tested")]
fn a_guard_called_wrongly_runs_nothing() {
    for args in [
        &["__guard"][..],
        &["__guard", "x", "--", "true"],
        &["__guard", "5", "true"],
        &["__guard", "5", "--"],
        &["__guard", "5", "other", "--", "true"],
    ] {
        let status = Command::new(env!("CARGO_BIN_EXE_runner")).args(args).stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}
