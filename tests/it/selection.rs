//! Which jobs are run: filters, shards, what failed before.

use crate::case::{Case, Ran};
use crate::looping::job;
use crate::mock::{Mock, Script, text, tool};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn adds() -> Mock {
    Mock::start(Script::made(|request| match request.turn() {
        1 => tool("Bash", json!({"command": "echo more >> log.txt"})),
        _ => text("Done."),
    }))
}

fn ran_jobs(ran: &Ran) -> BTreeSet<String> {
    let run: Value = serde_json::from_str(&ran.file("run.json")).unwrap();
    run["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn six(mock: &Mock) -> Case {
    let red = "\n[[stop_hooks]]\nname = 'never'\nrun = 'false'\nmax_blocks = 1\n";
    let mut case = Case::new(&[("log.txt", "")]);
    for n in 0..3 {
        case = case.job(&format!("fix-{n}"), &job(mock, &format!("fix {n}"), &format!("tags = ['t{n}', 'fast']\n")));
    }
    case.job("build", &job(mock, "build", ""))
        .job("red", &job(mock, "red", red))
        .job("after", &job(mock, "after", "needs = ['build']\n[worktree]\nbase = 'job:build'\n"))
}

#[test]
fn a_filter_takes_names_tags_and_what_was_found_before() {
    let mock = adds();
    let case = six(&mock);
    let run = |args: &[&str]| case.finish(case.command(&[&["run"][..], args].concat()).spawn().unwrap());
    assert_eq!(ran_jobs(&run(&["--filter", "fix-* and not tag:t1"]).expect(0)), names(&["fix-0", "fix-2"]));
    let with_need = run(&["--filter", "after"]).expect(0);
    assert_eq!(ran_jobs(&with_need), names(&["after", "build"]));
    assert!(with_need.stderr.contains("`build` is run too, because `after` needs it"), "{}", with_need.stderr);
    assert_eq!(ran_jobs(&run(&[]).expect(1)).len(), 6);
    assert_eq!(ran_jobs(&run(&["--filter", "verdict:failed"]).expect(1)), names(&["red"]));
    let none = run(&["--filter", "nothing-like-it"]).expect(4);
    assert!(none.stderr.contains("of 6 jobs none is chosen"), "{}", none.stderr);
    let wrong = run(&["--filter", "fix-* && (tag:fast"]).expect(2);
    assert!(wrong.stderr.contains("`)` is missing here"), "{}", wrong.stderr);
    let checked = case.finish(case.command(&["check", "--filter", "red"]).spawn().unwrap()).expect(0);
    assert!(checked.stdout.contains("1 job") && !checked.stdout.contains("fix-0"), "{}", checked.stdout);
}

#[test]
fn shards_are_a_partition_whoever_names_them() {
    let mock = adds();
    let case = six(&mock);
    let mut seen = Vec::new();
    for index in 1..=3 {
        let ran = case.finish(case.command(&["run", "--shard", &format!("{index}/3")]).spawn().unwrap());
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        let jobs = ran_jobs(&ran);
        assert_eq!(jobs.contains("after"), jobs.contains("build"), "jobs that need each other stay together");
        seen.extend(jobs);
    }
    seen.sort();
    assert_eq!(seen, ["after", "build", "fix-0", "fix-1", "fix-2", "red"]);
    let gitlab = case.command(&["run"]).env("CI_NODE_INDEX", "2").env("CI_NODE_TOTAL", "3").spawn().unwrap();
    let gitlab = case.finish(gitlab);
    let same = case.finish(case.command(&["run", "--shard", "2/3"]).spawn().unwrap());
    assert_eq!(ran_jobs(&gitlab), ran_jobs(&same));
    assert!(gitlab.stderr.contains("shard 2/3, as GitLab says"), "{}", gitlab.stderr);
    let matrix = case.finish(case.command(&["matrix", "--shards", "3"]).spawn().unwrap()).expect(0);
    let matrix: Value = serde_json::from_str(&matrix.stdout).unwrap();
    let jobs: u64 = matrix["include"].as_array().unwrap().iter().map(|part| part["jobs"].as_u64().unwrap()).sum();
    assert_eq!(jobs, 6);
    // A part without a job is no failure.
    let empty = case.finish(case.command(&["run", "--filter", "red", "--shard", "1/100"]).spawn().unwrap());
    let full = case.finish(case.command(&["run", "--filter", "red", "--shard", "1/1"]).spawn().unwrap());
    assert_eq!((empty.code, full.code), (Some(0), Some(1)), "{}", empty.stderr);
}

#[test]
fn what_failed_is_run_again_on_top_of_what_had_passed() {
    let mut tries = 0;
    let mock = Mock::start(Script::made(move |request| {
        let last = request.first_text().contains("after");
        tries += usize::from(last && request.turn() == 1);
        match request.turn() {
            1 if last && tries == 1 => text("I do nothing."),
            1 => tool("Bash", json!({"command": "echo more >> log.txt"})),
            _ => text("Done."),
        }
    }));
    let case = Case::new(&[("log.txt", "")])
        .job("build", &job(&mock, "build", ""))
        .job("other", &job(&mock, "other", ""))
        .job("after", &job(&mock, "after", "needs = ['build']\n[worktree]\nbase = 'job:build'\n"));
    let first = case.run().expect(1);
    assert_eq!(first.ending("after"), "failed no_changes completed");
    let again = case.finish(case.command(&["run", "--rerun-failed", "last"]).spawn().unwrap()).expect(0);
    assert_eq!(ran_jobs(&again), names(&["after", "build"]));
    assert_eq!(again.ending("build"), "skipped already_done -");
    let branch = again.result("after")["branch"].as_str().unwrap().to_owned();
    assert_eq!(case.git(&["show", &format!("{branch}:log.txt")]), "more\nmore");
    let nothing = case.finish(case.command(&["run", "--rerun-failed", "last"]).spawn().unwrap()).expect(4);
    assert!(nothing.stderr.contains("nothing that did not pass"), "{}", nothing.stderr);
    let wrong = ["run", "--rerun-failed", "last", "--reason", "no_change"];
    let wrong = case.finish(case.command(&wrong).spawn().unwrap()).expect(2);
    assert!(wrong.stderr.contains("`no_changes`"), "{}", wrong.stderr);
}
