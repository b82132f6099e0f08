//! Needs, groups, priorities, tries and the limits of a run, with the real binary.

use crate::case::{Case, Ran, eventually};
use crate::looping::job;
use crate::mock::{Answer, Mock, Script, text, tool};
use crate::signals::send;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A model that adds a line to a file, and is done.
fn adds() -> Mock {
    Mock::start(Script::each([tool("Bash", json!({"command": "echo more >> log.txt"})), text("Done.")]))
}

const RED: &str = "\n[[stop_hooks]]\nname = 'never'\nrun = 'false'\nmax_blocks = 1\n";

/// The jobs in the order in which they started.
fn started(ran: &Ran) -> Vec<String> {
    let events = ran.file("events.jsonl");
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let started = events.filter(|event| event["event"] == "job_started");
    started.map(|event| event["job"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_job_builds_on_the_work_of_the_one_that_it_needs() {
    let mock = adds();
    let case = Case::new(&[("log.txt", "")])
        .job("a-last", &job(&mock, "last", "needs = ['middle']\n[worktree]\nbase = 'job:middle'\n"))
        .job("first", &job(&mock, "first", ""))
        .job("middle", &job(&mock, "middle", "needs = ['first']\n[worktree]\nbase = 'job:first'\n"))
        .job("red", &job(&mock, "red", RED))
        .job("skipped", &job(&mock, "skipped", "needs = ['red']\n"))
        .job("skipped-too", &job(&mock, "skipped too", "needs = ['skipped']\n"));
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("a-last"), "passed completed completed");
    let branch = ran.result("a-last")["branch"].as_str().unwrap().to_owned();
    assert_eq!(case.git(&["show", &format!("{branch}:log.txt")]), "more\nmore\nmore");
    assert_eq!(ran.result("a-last")["base"], ran.result("middle")["commit"]);
    assert_eq!(ran.ending("skipped"), "skipped dependency -");
    assert!(ran.result("skipped-too")["message"].as_str().unwrap().contains("`skipped`"));
    assert!(ran.file("junit.xml").contains("<skipped"));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn higher_priorities_start_first_and_groups_are_kept_small() {
    let mock = adds();
    let case = Case::new(&[("log.txt", "")])
        .args(&["-j", "1"])
        .job("a", &job(&mock, "a", "priority = -5\n"))
        .job("b", &job(&mock, "b", ""))
        .job("c", &job(&mock, "c", "priority = 7\n"));
    assert_eq!(started(&case.run().expect(0)), ["c", "b", "a"]);
    let group = "group = { name = 'db', max = 1 }\n";
    let mut case = Case::new(&[("log.txt", "")]).args(&["-j", "8"]);
    for n in 0..4 {
        case = case.job(&format!("g{n}"), &job(&mock, &format!("g{n}"), group));
    }
    let ran = case.run().expect(0);
    let events = ran.file("events.jsonl");
    let mut running: i32 = 0;
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        running += i32::from(event["event"] == "job_started") - i32::from(event["event"] == "job_finished");
        assert!(running <= 1, "two of the group at once");
    }
}

#[test]
fn a_job_that_passes_on_a_later_try_is_reported_as_flaky_and_all_tries_are_paid() {
    let mut calls = 0;
    let mock = Mock::start(Script::made(move |request| {
        calls += usize::from(request.turn() == 1);
        match (calls, request.turn()) {
            (1, _) => text("Nothing to do."),
            (_, 1) => tool("Bash", json!({"command": "echo more >> log.txt"})),
            _ => text("Done."),
        }
    }));
    let gate = "retries = 2\n\n[[stop_hooks]]\nname = 'more'\nrun = 'grep -q more log.txt'\nmax_blocks = 1\non_fail = 'stop'\n";
    let case = Case::new(&[("log.txt", "")]).job("flaky", &job(&mock, "flaky", gate));
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("flaky"), "passed completed_flaky completed");
    let result = ran.result("flaky");
    assert_eq!((&result["attempt"], result["attempts"].as_array().unwrap().len()), (&2.into(), 2));
    assert_eq!(result["attempts"][0]["reason"], "stop_hook_prevented");
    assert_eq!(result["model_calls"], 3);
    assert!(result["branch"].as_str().unwrap().ends_with("flaky-attempt-2"));
    assert!(ran.file("jobs/flaky/diff.patch").contains("+more"));
    assert!(ran.file("jobs/flaky/attempts/1/transcript.jsonl").contains("Nothing to do."));
    let mock = adds();
    let text = job(&mock, "no", &format!("retries = 1\nretry_on = ['stream']\n{RED}"));
    let none = Case::new(&[("log.txt", "")]).job("no", &text);
    assert_eq!(none.run().expect(1).result("no")["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn the_first_green_of_several_attempts_stops_the_others() {
    let mut asked = 0;
    let mock = Mock::start(Script::made(move |request| match request.turn() {
        1 => {
            asked += 1;
            // Two of them never get an answer.
            if asked == 2 { tool("Bash", json!({"command": "echo more >> log.txt"})) } else { Answer::hang() }
        }
        _ => text("Done."),
    }));
    let case = Case::new(&[("log.txt", "")]).job("raced", &job(&mock, "raced", "attempts = 3\n"));
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("raced"), "passed completed completed");
    let attempts = ran.result("raced")["attempts"].as_array().unwrap().clone();
    assert_eq!(attempts.len(), 3);
    let stopped = attempts.iter().filter(|one| one["message"] == "stopped, because another attempt passed").count();
    assert_eq!(stopped, 2, "{attempts:?}");
    assert_eq!(case.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_run_ends_after_so_many_failures() {
    let mock = adds();
    let mut case = Case::new(&[("log.txt", "")]).args(&["-j", "1", "--max-failures", "2"]);
    for n in 0..5 {
        case = case.job(&format!("j{n}"), &job(&mock, &format!("j{n}"), RED));
    }
    let ran = case.run().expect(1);
    let reasons: Vec<String> =
        (0..5).map(|n| ran.result(&format!("j{n}"))["reason"].as_str().unwrap().to_owned()).collect();
    assert_eq!(reasons, ["stop_hook_prevented", "stop_hook_prevented", "fail_fast", "fail_fast", "fail_fast"]);
}

#[test]
fn a_run_that_is_out_of_time_judges_what_was_done() {
    let mock = Mock::start(Script::made(|request| match request.turn() {
        1 => tool("Bash", json!({"command": "echo more >> log.txt"})),
        _ => Answer::hang(),
    }));
    let case = Case::new(&[("log.txt", "")])
        .args(&["-j", "1", "--timeout", "1500ms"])
        .job("first", &job(&mock, "first", ""))
        .job("second", &job(&mock, "second", ""));
    let ran = case.run().expect(1);
    assert_eq!(ran.result("first")["reason"], "timeout");
    assert!(ran.file("jobs/first/diff.patch").contains("+more"), "the work is lost");
    assert_eq!(ran.ending("second"), "failed timeout -");
    assert!(ran.result("second")["message"].as_str().unwrap().contains("the run's time of"));
}

#[test]
fn a_fix_that_is_proven_when_the_run_is_out_of_time_has_passed() {
    let mock = Mock::start(Script::made(|request| match request.turn() {
        1 => tool("Bash", json!({"command": "echo more >> log.txt"})),
        _ => Answer::hang(),
    }));
    let gate = "\n[[stop_hooks]]\nname = 'more'\nrun = 'grep -q more log.txt'\nbefore = 'fail'\n";
    let slow = "\n[worktree]\nsetup = ['sleep 100']\n";
    let case = Case::new(&[("log.txt", "")])
        .args(&["--timeout", "2500ms"])
        .job("first", &job(&mock, "first", gate))
        .job("slow", &job(&mock, "slow", slow));
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("first"), "passed completed_at_limit aborted_streaming");
    assert_eq!(ran.result("first")["gates"][0]["after"], "pass");
    // One that had not even begun its work is out of time, and nobody sent a signal.
    assert_eq!(ran.ending("slow"), "failed timeout -");
}

#[test]
fn jobs_that_share_a_cap_never_pass_it() {
    // Each answer costs $0.03: 5,000 tokens of input at $3 and 1,000 of output at $15 for a million.
    let answer = tool("Bash", json!({"command": "echo more >> log.txt"})).usage(5_000, 1_000);
    let mock = Mock::start(Script::each([answer]));
    let mut case = Case::new(&[("log.txt", "")]).args(&["-j", "8", "--max-cost-usd", "0.50"]);
    for n in 0..8 {
        let text = job(&mock, &format!("j{n}"), "max_turns = 200\nmax_cost_usd = 100\n");
        let text = text.replace("mock-1", "claude-sonnet-4-5").replace("[model]", "[model]\nmax_output_tokens = 1100");
        case = case.job(&format!("j{n}"), &text);
    }
    let case = case.env("ANTHROPIC_API_KEY", "test");
    let ran = case.run();
    let costs: Vec<f64> = (0..8).map(|n| ran.result(&format!("j{n}"))["cost_usd"].as_f64().unwrap()).collect();
    let spent: f64 = costs.iter().sum();
    assert!(spent <= 0.50 && spent > 0.40, "{spent}: {costs:?}\n{}", ran.stderr);
    let reasons: Vec<Value> = (0..8).map(|n| ran.result(&format!("j{n}"))["reason"].clone()).collect();
    assert!(reasons.iter().all(|reason| reason == "cost_limit"), "{reasons:?}");
}

#[test]
fn a_signal_asks_what_is_waited_for_and_another_pauses_the_clocks() {
    let mock = Mock::start(Script::calls([Answer::hang()]));
    let case = Case::new(&[("log.txt", "")])
        .args(&["-j", "1"])
        .job("a", &job(&mock, "a", "timeout = '5s'\n"))
        .job("b", &job(&mock, "b", ""))
        .job("c", &job(&mock, "c", "needs = ['a']\n"));
    let child = case.start();
    eventually("it is at work", || !mock.requests().is_empty());
    send(&child, Signal::USR1);
    send(&child, Signal::TSTP);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        stat.rsplit(')').next().unwrap_or_default().trim().chars().next()
    };
    eventually("it has stopped", || state() == Some('T'));
    send(&child, Signal::CONT);
    eventually("it goes on", || state() != Some('T'));
    send(&child, Signal::INT);
    let ran = case.finish(child).expect(130);
    assert!(ran.stderr.contains("  b: waits for a slot"), "{}", ran.stderr);
    assert!(ran.stderr.contains("  c: waits for `a` to pass"), "{}", ran.stderr);
    assert_eq!(ran.result("a")["reason"], "interrupted");
}

#[test]
fn what_jobs_say_about_each_other_is_checked() {
    let mock = adds();
    let case = Case::new(&[])
        .job("a", &job(&mock, "a", "needs = ['b']\n"))
        .job("b", &job(&mock, "b", "needs = ['c']\n"))
        .job("c", &job(&mock, "c", "needs = ['a']\ngroup = { name = 'g', max = 2 }\n"))
        .job("d", &job(&mock, "d", "needs = ['aa']\ngroup = { name = 'g', max = 1 }\nretry_on = ['ratelimited']\n"))
        .job("e", &job(&mock, "e", "[worktree]\nbase = 'job:a'\n"));
    let bad = case.check().expect(2);
    assert!(
        bad.stderr.contains("`ratelimited` is not a reason") && bad.stderr.contains("rate_limited"),
        "{}",
        bad.stderr
    );
    case.write("jobs/d.toml", job(&mock, "d", "needs = ['aa']\ngroup = { name = 'g', max = 1 }\n"));
    let bad = case.check().expect(2);
    for words in [
        "`a` needs `b` needs `c` needs `a`",
        "`d` needs `aa`, which is no job of this run",
        "you may have meant `a`",
        "the group `g` has two sizes, 2 and 1",
        "`e` builds on `a` but does not need it",
    ] {
        assert!(bad.stderr.contains(words), "{words}\n{}", bad.stderr);
    }
}
