//! Many jobs at once, and what starts a run or keeps it from starting.

use crate::case::Case;
use crate::looping::{GATE, case, job, mend};
use crate::mock::{Mock, Script, status, text, tool};
use serde_json::json;
use std::process::Stdio;

/// Mends and is done, in any number of conversations at once.
fn stateless() -> Script {
    Script::made(|request| if request.turn() == 1 { mend() } else { text("Done.") })
}

#[test]
fn sixteen_jobs_at_once_see_nothing_of_each_other() {
    let write = |request: &crate::mock::Request| {
        let name = request.messages()[0].to_string();
        let number = (0..16).find(|n| name.contains(&format!("job number {n}."))).unwrap();
        match request.turn() {
            1 => tool("Bash", json!({"command": format!("ls; echo {number} > file-{number}.txt")})),
            _ => text("Done."),
        }
    };
    let mock = Mock::start(Script::made(write));
    let mut case = Case::new(&[("a.txt", "one\n")]).args(&["-j", "16"]);
    for n in 0..16 {
        let gate = format!("\n[[stop_hooks]]\nrun = \"test $(ls file-*.txt) = file-{n}.txt\"\n");
        case = case.job(&format!("job-{n:02}"), &job(&mock, &format!("job number {n}."), &gate));
    }
    let before = case.fingerprint();
    let ran = case.run().expect(0);
    for n in 0..16 {
        let patch = ran.file(&format!("jobs/job-{n:02}/diff.patch"));
        assert_eq!(patch.matches("diff --git").count(), 1, "{patch}");
        assert!(patch.contains(&format!("file-{n}.txt")));
    }
    assert_eq!(case.fingerprint(), before);
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn fail_fast_stops_the_others() {
    let mock = Mock::start(
        Script::default()
            .about("fails", [status(401, "authentication_error", "no")])
            .about("waits", [tool("Bash", json!({"command": "sleep 1000"}))]),
    );
    let case = Case::new(&[("a", "")])
        .job("a", &job(&mock, "waits", ""))
        .job("b", &job(&mock, "fails", ""))
        .job("c", &job(&mock, "waits", ""))
        .args(&["-j", "2", "--fail-fast"]);
    let ran = case.run().expect(3);
    assert_eq!(ran.ending("b"), "error auth model_error");
    assert!(ran.ending("a").starts_with("skipped fail_fast"), "{}", ran.ending("a"));
    assert_eq!(ran.ending("c"), "skipped fail_fast -");
}

#[test]
fn job_files_with_errors_start_nothing() {
    let mock = Mock::start(Script::calls([text("x")]));
    let case = case(&mock, "").job("bad", "prompt = 1\nmax_turn = 3\n").job("worse", "prompt = \n");
    let ran = case.run().expect(2);
    assert!(ran.folder.is_none() && mock.requests().is_empty());
    for word in ["jobs/bad.toml:1", "jobs/bad.toml:2", "max_turns", "jobs/worse.toml:1"] {
        assert!(ran.stderr.contains(word), "{word}\n{}", ran.stderr);
    }
    assert_eq!(case.check().expect(2).stderr, ran.stderr);
}

#[test]
fn exit_codes_without_a_run() {
    let none = Case::new(&[("a", "")]);
    none.run().expect(4);
    Case::new(&[("a", "")]).args(&["nowhere.toml"]).run().expect(2);
    Case::new(&[("a", "")]).args(&["--nonsense"]).run().expect(2);
    let help = Case::new(&[("a", "")]).args(&["--help"]).run().expect(0);
    assert!(help.stdout.contains("--fail-fast"));
}

#[test]
fn a_prompt_needs_no_file_and_a_job_may_come_by_standard_input() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let case = Case::new(&[
        ("a.txt", "one\n"),
        ("runner.toml", &format!("[defaults.model]\nname = \"mock-1\"\nbase_url = \"{}\"\n", mock.url())),
    ])
    .args(&["-p", "mend a.txt"]);
    assert_eq!(case.run().expect(0).ending("prompt"), "passed completed completed");

    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let case = Case::new(&[("a.txt", "one\n")]);
    let mut child = case.command(&["run", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), job(&mock, "mend a.txt", "").as_bytes()).unwrap();
    assert_eq!(case.finish(child).expect(0).ending("stdin"), "passed completed completed");
}

#[test]
fn b001_an_open_silent_standard_input_delays_nothing() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let case = case(&mock, GATE);
    let mut child = case.command(&["run"]).stdin(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    case.finish(child).expect(0);
    drop(held);
}

#[test]
fn repositories_in_odd_states_work_or_are_refused_in_words() {
    let mock = Mock::start(stateless());
    let ready = || case(&mock, GATE);

    let detached = ready();
    detached.git(&["checkout", "-q", "--detach"]);
    detached.run().expect(0);

    let dirty = ready();
    dirty.write("a.txt", "dirty\n");
    let ran = dirty.run().expect(0);
    assert!(ran.stderr.contains("uncommitted"), "{}", ran.stderr);
    assert_eq!(dirty.read("a.txt"), "dirty\n");

    let below = ready();
    below.write("sub/x", "x");
    let child = below.command(&["run", "../jobs/job.toml"]).current_dir(below.root().join("sub")).spawn().unwrap();
    below.finish(child).expect(0);

    let unborn = Case::without_repository();
    unborn.git(&["init", "-q"]);
    let unborn = unborn.job("job", &job(&mock, "mend", ""));
    let ran = unborn.run().expect(3);
    assert_eq!(ran.ending("job"), "error worktree_failed -");
    assert!(ran.result("job")["message"].as_str().unwrap().contains("commit"), "{}", ran.result("job")["message"]);
    assert_eq!(unborn.check().code, Some(2));

    let nowhere = Case::without_repository().job("job", &job(&mock, "mend", ""));
    let ran = nowhere.run().expect(3);
    assert!(ran.result("job")["message"].as_str().unwrap().contains("repository"), "{}", ran.result("job")["message"]);
}

#[test]
fn b124_two_runs_at_once_do_not_meet() {
    let mock = Mock::start(stateless());
    let case = case(&mock, GATE);
    let (one, two) = (case.start(), case.start());
    case.finish(one).expect(0);
    case.finish(two).expect(0);
    assert_eq!(std::fs::read_dir(case.root().join(".runner/runs")).unwrap().count(), 2);
    let exclude = case.read(".git/info/exclude");
    assert_eq!(exclude.matches("/.runner/").count(), 1, "{exclude}");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn json_goes_to_standard_output_and_nothing_else_does() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let ran = case(&mock, GATE).args(&["--format", "json"]).run().expect(0);
    let events: Vec<serde_json::Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.first().unwrap()["event"], "run_started");
    assert_eq!(events.last().unwrap()["event"], "run_finished");
}

#[test]
fn b173_what_github_does_not_take_changes_nothing() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let case = case(&mock, GATE)
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", "/nonexistent/summary")
        .env("GITHUB_OUTPUT", "/proc/nothing");
    let ran = case.run().expect(0);
    assert!(ran.stderr.contains("/nonexistent/summary"), "{}", ran.stderr);
}

#[test]
fn github_gets_outputs_a_summary_and_an_annotation() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let case = case(&mock, "");
    let (summary, output) = (case.outside().join("summary"), case.outside().join("output"));
    let case = case
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", summary.display().to_string())
        .env("GITHUB_OUTPUT", output.display().to_string());
    let ran = case.run().expect(1);
    assert!(std::fs::read_to_string(&summary).unwrap().contains("no_changes"));
    let output = std::fs::read_to_string(&output).unwrap();
    for name in ["passed", "failed", "run-id", "junit", "report", "cost-usd"] {
        assert!(output.contains(name), "{name}\n{output}");
    }
    assert!(ran.stdout.contains("::error"), "{}", ran.stdout);
}
