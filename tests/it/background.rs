//! Background commands through the binary: started, watched, ended, announced, and never left behind.

use crate::case::eventually;
use crate::looping::{GATE, case, clean, mend};
use crate::mock::{Answer, Mock, Request, Script, message, text, tool};
use crate::signals::{marker, send, sleepers};
use rustix::process::Signal;
use serde_json::{Value, json};

fn start(command: &str) -> Value {
    json!({"command": command, "run_in_background": true})
}

#[test]
fn a_command_in_the_background_is_watched_and_ended() {
    let marker = marker(8);
    let mock = Mock::start(Script::calls([
        tool("Bash", start(&format!("echo hello; exec sleep {marker}"))),
        tool("TaskOutput", json!({"task_id": "bash_1", "block": false})),
        tool("TaskStop", json!({"task_id": "bash_1"})),
        message([]).tool("TaskOutput", json!({"task_id": "bash_1"})).tool("TaskOutput", json!({"task_id": "bash_2"})),
        mend(),
        text("Done."),
    ]));
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let results: Vec<Vec<(String, String, bool)>> = mock.requests().iter().map(Request::results).collect();
    let said = |turn: usize, call: usize| (results[turn][call].1.clone(), results[turn][call].2);
    let (started, failed) = said(1, 0);
    assert!(started.contains("in the background as `bash_1`") && !failed, "{started}");
    let (output, failed) = said(2, 0);
    assert!(output.contains("still running") && !failed, "{output}");
    let (stopped, failed) = said(3, 0);
    assert!(stopped.contains("was stopped") && !failed, "{stopped}");
    let (ended, failed) = said(4, 0);
    assert!(ended.contains("was stopped") && !failed, "{ended}");
    let (unknown, failed) = said(4, 1);
    assert!(unknown.contains("bash_1") && failed, "{unknown}");
    assert_eq!(sleepers(&marker), 0);
    clean(&mock);
}

#[test]
fn the_end_of_a_background_command_is_announced_once() {
    let notice = "The background command bash_1 has ended with exit code 3";
    let mock = Mock::start(Script::made(move |request| {
        let told = request.body["messages"].to_string().contains(notice);
        match request.turn() {
            1 => tool("Bash", start("echo hello; exit 3")),
            _ if request.last_text().contains(notice) => mend(),
            _ if told => text("Done."),
            turn => tool("Glob", json!({"pattern": format!("*{turn}")})),
        }
    }));
    let ran = case(&mock, &format!("max_turns = 2_000\ntoken_budget = 100_000_000{GATE}")).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let last = mock.requests().pop().unwrap().body["messages"].to_string();
    assert_eq!(last.matches(notice).count(), 1);
    let events = ran.file("events.jsonl");
    for event in ["input_started", "input_completed"] {
        assert!(events.contains(&format!("\"event\":\"{event}\",\"command\":\"bash_1\"")), "{event}");
    }
    clean(&mock);
}

#[test]
fn no_background_command_outlives_its_job() {
    let marker = marker(9);
    let command = format!("(trap '' TERM; sleep {marker}1) & setsid sleep {marker}2 & exec sleep {marker}3");
    let mock = Mock::start(Script::calls([tool("Bash", start(&command)), mend(), text("Done.")]));
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(sleepers(&marker), 0, "children survive");
    clean(&mock);
}

#[test]
fn a_signal_ends_background_commands_too() {
    let marker = marker(0);
    let mock =
        Mock::start(Script::calls([tool("Bash", start(&format!("trap '' INT TERM; sleep {marker}"))), Answer::hang()]));
    let case = case(&mock, GATE);
    let child = case.start();
    mock.wait_for_requests(2);
    eventually("the command runs", || sleepers(&marker) == 1);
    send(&child, Signal::INT);
    let ran = case.finish(child).expect(130);
    assert_eq!(ran.ending("job"), "cancelled interrupted aborted_streaming");
    assert_eq!(sleepers(&marker), 0, "children survive");
    clean(&mock);
}
