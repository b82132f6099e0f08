//! Looking at runs: lists, one job in detail, two side by side, several as one.

use crate::case::{Case, Ran, eventually};
use crate::looping::job;
use crate::mock::{Answer, Mock, Script, text, tool};
use serde_json::Value;
use serde_json::json;

fn adds() -> Mock {
    Mock::start(Script::made(|request| match request.turn() {
        1 => tool("Bash", json!({"command": "echo more >> log.txt"})),
        _ => text("Done."),
    }))
}

const RED: &str = "\n[[stop_hooks]]\nname = 'never'\nrun = 'echo it is red; false'\nmax_blocks = 1\n";

fn eight(mock: &Mock) -> Case {
    let mut case = Case::new(&[("log.txt", "")]);
    for n in 0..6 {
        case = case.job(&format!("job-{n}"), &job(mock, &format!("job {n}"), ""));
    }
    case.job("red", &job(mock, "red", RED)).job("after", &job(mock, "after", "needs = ['job-0']\n"))
}

fn runner(case: &Case, args: &[&str]) -> Ran {
    case.finish(case.command(args).spawn().unwrap())
}

/// A report without what differs from run to run: times, names of runs, commits.
fn timeless(text: &str) -> String {
    let mut out = text.to_owned();
    for (from, to) in [("time=\"", "\""), ("timestamp=\"", "\""), ("name=\"commit\" value=\"", "\"")] {
        let mut at = 0;
        while let Some(start) = out[at..].find(from).map(|found| at + found + from.len()) {
            let end = start + out[start..].find(to).unwrap();
            out.replace_range(start..end, "_");
            at = start;
        }
    }
    // Names of runs: a date, a time, a fraction.
    let words: Vec<String> = out
        .split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            if bare.starts_with("2026") && bare.len() >= 22 { word.replace(bare, "RUN") } else { word.to_owned() }
        })
        .collect();
    words.concat()
}

#[test]
fn the_parts_of_a_batch_are_reported_as_one_run_would_have() {
    let mock = adds();
    let case = eight(&mock);
    let whole = runner(&case, &["run"]).expect(1);
    let mut parts = Vec::new();
    for index in 1..=4 {
        let ran = runner(&case, &["run", "--shard", &format!("{index}/4")]);
        parts.push(ran.folder.unwrap().file_name().unwrap().to_str().unwrap().to_owned());
    }
    let mut args = vec!["report"];
    args.extend(parts.iter().rev().map(String::as_str));
    let merged = runner(&case, &args).expect(1);
    assert!(!merged.stderr.contains("warning"), "{}", merged.stderr);
    let read = |path: &str| case.read(&format!(".runner/runs/{}-merged/{path}", parts[0]));
    let (one, other) = (timeless(&read("junit.xml")), timeless(&whole.file("junit.xml")));
    let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    assert_eq!((differs, one.lines().count()), (None, other.lines().count()));
    let results = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        for key in ["run", "duration_s", "started_at_s", "branch", "commit", "worktree"] {
            value.as_object_mut().unwrap().remove(key);
        }
        for list in ["gates", "attempts"] {
            for entry in value[list].as_array_mut().unwrap() {
                for key in ["duration_s", "started_at_s", "branch", "worktree"] {
                    entry.as_object_mut().unwrap().remove(key);
                }
            }
        }
        value
    };
    for job in ["job-0", "job-3", "red", "after"] {
        let path = format!("jobs/{job}/result.json");
        assert_eq!(results(&read(&path)), results(&whole.file(&path)), "{job}");
        assert_eq!(read(&format!("jobs/{job}/diff.patch")), whole.file(&format!("jobs/{job}/diff.patch")));
    }
    let drawn = |page: &str| ["<h3>Time</h3>", "<h3>Transcript</h3>", "<ins>"].map(|part| page.matches(part).count());
    assert_eq!(drawn(&read("report.html")), drawn(&whole.file("report.html")));
    // A part that is missing is said, and nothing is green by it.
    let few = runner(&case, &["report", &parts[0], "--out", "few"]).expect(3);
    assert!(few.stderr.contains("shard 2/4 is missing"), "{}", few.stderr);
    let twice = runner(&case, &["report", &parts[0], "--out", "few"]).expect(2);
    assert!(twice.stderr.contains("is not empty"), "{}", twice.stderr);
}

#[test]
fn runs_are_listed_shown_and_compared() {
    let mock = adds();
    let case = eight(&mock);
    let first = runner(&case, &["run", "--filter", "job-* or red"]).expect(1);
    case.write("jobs/job-1.toml", job(&mock, "job 1", RED));
    runner(&case, &["run", "--filter", "job-*"]).expect(1);
    let list = runner(&case, &["runs"]).expect(0);
    assert_eq!(list.stdout.lines().count(), 3, "{}", list.stdout);
    let json: Value = serde_json::from_str(&runner(&case, &["runs", "--format", "json"]).expect(0).stdout).unwrap();
    assert_eq!((&json["runs"][0]["passed"], &json["runs"][0]["state"]), (&6.into(), &"over".into()));
    let shown = runner(&case, &["show", "last/job-1", "--diff", "--transcript"]).expect(0).stdout;
    for words in [
        "failed (stop_hook_prevented)",
        "gate         never: before -, after fail",
        "+more",
        "> Bash",
        "runner explain stop_hook_prevented",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let name = first.folder.unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let compared = runner(&case, &["compare", &name]).expect(1).stdout;
    assert!(compared.contains("newly failing: job-1 (completed -> stop_hook_prevented)"), "{compared}");
    assert!(compared.contains("gone: red"), "{compared}");
    let mistyped = runner(&case, &["show", "last/jobb-1"]).expect(2);
    assert!(mistyped.stderr.contains("you may have meant `job-1`"), "{}", mistyped.stderr);
    let none = runner(&case, &["show", "1999"]).expect(2);
    assert!(none.stderr.contains("no run `1999`"), "{}", none.stderr);
}

#[test]
fn a_killed_run_is_shown_as_one_and_reported_without_a_false_green() {
    let mock = Mock::start(Script::made(|request| match (request.first_text().contains("slow"), request.turn()) {
        (true, _) => Answer::hang(),
        (false, 1) => tool("Bash", json!({"command": "echo more >> log.txt"})),
        (false, _) => text("Done."),
    }));
    let case = Case::new(&[("log.txt", "")]).job("fast", &job(&mock, "fast", "")).job("slow", &job(&mock, "slow", ""));
    let mut child = case.start();
    eventually("one is done", || case.newest_run().is_some_and(|run| run.join("jobs/fast/result.json").is_file()));
    let working = runner(&case, &["runs"]).expect(0);
    assert!(working.stdout.contains("at work"), "{}", working.stdout);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(runner(&case, &["runs"]).expect(0).stdout.contains("killed"));
    assert!(runner(&case, &["show"]).expect(0).stdout.contains("runner resume"));
    let merged = runner(&case, &["report", "last", "--junit", "out.xml"]).expect(3);
    assert!(merged.stderr.contains("job `slow` did not end"), "{}", merged.stderr);
    assert!(case.read("out.xml").contains("<error type=\"interrupted\""));
}

#[test]
fn codes_are_explained() {
    let case = Case::new(&[]);
    let text = runner(&case, &["explain", "gate_tampered"]).expect(0).stdout;
    assert!(text.contains("verdict: failed") && text.contains("What to do"), "{text}");
    assert!(runner(&case, &["explain"]).expect(0).stdout.contains("completed_at_limit"));
    assert!(runner(&case, &["explain", "gate_tamperd"]).expect(2).stderr.contains("`gate_tampered`"));
}
