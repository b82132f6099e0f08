//! Calls that start while the answer streams, answers that die half-way, and aborts in the middle of both.

use crate::case::{Case, Ran, eventually};
use crate::looping::{GATE, case, clean, mend};
use crate::mock::{Answer, Gate, Mock, Script, text, tool};
use crate::signals::{marker, send, sleepers};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The events that a run has written so far; a line that is still being written is left out.
pub(crate) fn events(case: &Case) -> Vec<Value> {
    let file = case.newest_run().and_then(|run| std::fs::read_to_string(run.join("events.jsonl")).ok());
    file.unwrap_or_default().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn has(case: &Case, event: &str, tool: &str) -> bool {
    events(case).iter().any(|line| line["event"] == event && line["tool"] == tool)
}

/// The job's own messages make a conversation: each call has its result, first thing in the next message, in order.
#[track_caller]
pub(crate) fn valid(ran: &Ran) -> Vec<Value> {
    let lines = ran.transcript("job").into_iter();
    let messages: Vec<Value> = lines.filter(|line| line["kind"] == "message" && line["agent"].is_null()).collect();
    let ids = |message: &Value, kind: &str| -> Vec<String> {
        let blocks = message["blocks"].as_array().unwrap().iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(messages[0]["role"], "user");
    let mut open = Vec::new();
    for message in &messages {
        assert!(!message["blocks"].as_array().unwrap().is_empty(), "{message}");
        assert_eq!(ids(message, "tool_result"), open, "{message}");
        open = ids(message, "tool_use");
        assert!(open.is_empty() || message["role"] == "assistant", "{message}");
    }
    assert_eq!(open, [""; 0], "calls without a result");
    messages
}

fn read() -> Answer {
    tool("Read", json!({"file_path": "a.txt"}))
}

#[test]
fn a_read_has_finished_before_its_answer_has() {
    let gate = Gate::new();
    let mock = Mock::start(Script::calls([read().pause_after_block(0, &gate), mend(), text("Done.")]));
    let case = case(&mock, GATE);
    let child = case.start();
    eventually("the Read has finished", || has(&case, "tool_finished", "Read"));
    assert!(!events(&case).iter().any(|line| line["event"] == "turn"), "the answer is not whole yet");
    gate.open();
    let ran = case.finish(child).expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(
        events(&case).iter().filter(|line| line["event"] == "tool_started" && line["tool"] == "Read").count(),
        1
    );
    assert!(mock.requests()[1].results()[0].1.contains("one"));
    assert_eq!(ran.result("job")["loop_counts"]["tombstones"], 0, "no answer was given up");
    clean(&mock);
}

#[test]
fn b027_nothing_is_left_of_an_attempt_that_died_after_whole_calls() {
    let gate = Gate::new();
    let cut = read().tool("Bash", json!({"command": "touch x"}));
    let cut = cut.pause_after_block(0, &gate).break_after_block(1);
    let mock = Mock::start(Script::calls([cut, mend(), text("Done.")]));
    let case = case(&mock, GATE);
    let child = case.start();
    eventually("the Read has finished", || has(&case, "tool_finished", "Read"));
    gate.open();
    let ran = case.finish(child).expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let result = ran.result("job");
    assert_eq!((&result["retries"], &result["loop_counts"]["tombstones"]), (&json!(1), &json!(1)));
    assert!(events(&case).iter().any(|line| line["event"] == "tombstone" && line["blocks"] == 2));
    assert!(!has(&case, "tool_started", "Bash"), "a command of the dead attempt ran");
    assert!(!ran.file("jobs/job/diff.patch").contains("b/x"));
    for request in &mock.requests() {
        assert!(!request.body["messages"].to_string().contains("toolu_0001"), "{}", request.body["messages"]);
    }
    assert!(!ran.file("jobs/job/transcript.jsonl").contains("toolu_0001"));
    valid(&ran);
    clean(&mock);
}

#[test]
fn aborted_streaming_by_a_signal_keeps_what_has_ended() {
    let never = Gate::new();
    let answer = read().tool("Bash", json!({"command": "touch x"})).pause_after_block(1, &never);
    let mock = Mock::start(Script::calls([mend(), answer]));
    let case = case(&mock, GATE);
    let child = case.start();
    eventually("the Read has finished", || has(&case, "tool_finished", "Read"));
    send(&child, Signal::INT);
    let ran = case.finish(child).expect(130);
    assert_eq!(ran.ending("job"), "cancelled interrupted aborted_streaming");
    assert_eq!(ran.result("job")["abort_reason"], "interrupt");
    let messages = valid(&ran);
    let results = &messages[messages.len() - 2]["blocks"];
    assert!(results[0]["content"].as_str().unwrap().contains("two") && results[0]["is_error"] == false, "{results}");
    let last = messages.last().unwrap().to_string();
    assert!(last.contains("The work was interrupted here"), "{last}");
    let patch = ran.file("jobs/job/diff.patch");
    assert!(patch.contains("+two") && !patch.contains("b/x"), "{patch}");
    clean(&mock);
}

#[test]
fn aborted_tools_by_a_signal_gives_every_call_a_result() {
    let marker = marker(7);
    let answer =
        mend().tool("Bash", json!({"command": format!("sleep {marker}")})).tool("Glob", json!({"pattern": "*"}));
    let mock = Mock::start(Script::calls([answer]));
    let case = case(&mock, GATE);
    let child = case.start();
    eventually("the command runs", || sleepers(&marker) == 1);
    send(&child, Signal::INT);
    let ran = case.finish(child).expect(130);
    assert_eq!(ran.ending("job"), "cancelled interrupted aborted_tools");
    assert_eq!(sleepers(&marker), 0);
    let messages = valid(&ran);
    let results = &messages[messages.len() - 2]["blocks"];
    let errors: Vec<bool> = (0..3).map(|at| results[at]["is_error"] == true).collect();
    assert_eq!(errors, [false, true, true], "{results}");
    assert!(ran.file("jobs/job/diff.patch").contains("+two"));
    clean(&mock);
}
