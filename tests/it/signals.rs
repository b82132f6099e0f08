//! Signals and sudden death: no child survives, and what was done is on disk.

use crate::case::{Case, eventually};
use crate::looping::job;
use crate::mock::{Mock, Script, text, tool};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::Child;

/// Three jobs that hang in a command with children of every kind, and one that is done at once.
fn case(mock: &Mock) -> Case {
    let mut case = Case::new(&[("a.txt", "one\n")]).args(&["-j", "4"]);
    case = case.job("done", &job(mock, "quick", ""));
    for n in 0..3 {
        case = case.job(&format!("hangs-{n}"), &job(mock, "hang", ""));
    }
    case
}

fn mock(case_marker: &str) -> Mock {
    let hang = format!(
        "echo two > a.txt; trap '' TERM; setsid sleep {case_marker}1 & (nohup sleep {case_marker}2 >/dev/null 2>&1 &) ; sleep {case_marker}3"
    );
    Mock::start(
        Script::default()
            .about("quick", [tool("Bash", json!({"command": "echo two > a.txt"})), text("Done.")])
            .about("hang", [tool("Bash", json!({"command": hang}))]),
    )
}

/// How many processes run a `sleep` with this marker.
pub(crate) fn sleepers(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.starts_with("sleep ") && line.contains(marker)).then_some(line)
    });
    processes.count()
}

/// A number of seconds that no other test sleeps.
pub(crate) fn marker(test: u32) -> String {
    format!("{}{test}", 100_000 + std::process::id())
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

fn all_at_work(case: &Case, marker: &str) {
    eventually("nine sleepers", || sleepers(marker) == 9);
    eventually("the quick job is reported", || {
        let junit = case.newest_run().and_then(|run| std::fs::read_to_string(run.join("junit.xml")).ok());
        junit.is_some_and(|junit| junit.matches("\"not_finished\"").count() == 3)
    });
}

#[test]
fn b018_a_signal_ends_jobs_in_order() {
    for (number, signal, code) in [(1, Signal::INT, 130), (2, Signal::TERM, 143)] {
        let marker = marker(number);
        let mock = mock(&marker);
        let case = case(&mock);
        let child = case.start();
        all_at_work(&case, &marker);
        send(&child, signal);
        let ran = case.finish(child).expect(code);
        assert_eq!(sleepers(&marker), 0, "children survive");
        assert_eq!(ran.ending("done"), "passed completed completed");
        for n in 0..3 {
            let job = format!("hangs-{n}");
            assert_eq!(ran.ending(&job), "cancelled interrupted aborted_tools");
            assert!(ran.file(&format!("jobs/{job}/diff.patch")).contains("+two"), "the work is lost");
            assert!(ran.result(&job)["commit"].is_string());
        }
        let junit = ran.file("junit.xml");
        assert_eq!(junit.matches("<error type=\"interrupted\"").count(), 3, "{junit}");
        assert_eq!(mock.breaches(), [""; 0]);
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let marker = marker(3);
    let mock = mock(&marker);
    let case = case(&mock);
    let child = case.start();
    all_at_work(&case, &marker);
    send(&child, Signal::INT);
    send(&child, Signal::INT);
    let ran = case.finish(child);
    assert_eq!(ran.code, Some(130));
    eventually("children are gone", || sleepers(&marker) == 0);
    assert!(ran.file("junit.xml").contains("interrupted"));
}

#[test]
fn b019_sigkill_leaves_no_child_and_whole_reports() {
    let marker = marker(4);
    let mock = mock(&marker);
    let case = case(&mock);
    let child = case.start();
    all_at_work(&case, &marker);
    send(&child, Signal::KILL);
    let ran = case.finish(child);
    assert_eq!(ran.code, None);
    eventually("children are gone", || sleepers(&marker) == 0);
    assert_eq!(ran.ending("done"), "passed completed completed");
    let junit = ran.file("junit.xml");
    let report = quick_junit::Report::deserialize_from_str(&junit).unwrap();
    assert_eq!((report.tests, report.errors), (4, 3), "{junit}");
    for line in ran.file("events.jsonl").lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    for n in 0..3 {
        assert!(!ran.transcript(&format!("hangs-{n}")).is_empty());
    }
}

#[test]
fn b003_nothing_of_a_job_outlives_its_call() {
    let marker = marker(5);
    let leave = format!("(trap '' TERM; sleep {marker}1) & setsid sleep {marker}2 & echo two > a.txt");
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": leave})), text("Done.")]));
    let case = Case::new(&[("a.txt", "one\n")]).job("job", &job(&mock, "x", ""));
    case.run().expect(0);
    assert_eq!(sleepers(&marker), 0);
    let told = mock.requests()[1].results()[0].1.clone();
    assert!(told.contains("background"), "{told}");
}

#[test]
fn a_model_that_kills_its_guard_gains_nothing() {
    let marker = marker(6);
    let kill = format!("setsid sleep {marker}1 & echo two > a.txt; kill -9 $PPID; sleep {marker}2");
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": kill})), text("Done.")]));
    let case = Case::new(&[("a.txt", "one\n")]).job("job", &job(&mock, "x", ""));
    let ran = case.run().expect(0);
    assert_eq!(sleepers(&marker), 0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert!(mock.requests()[1].results()[0].2);
}
