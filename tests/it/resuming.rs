//! Runs that were killed go on: the same verdicts, nothing done twice, at most the turn in flight paid twice.

use crate::case::{Case, Ran, eventually};
use crate::looping::job;
use crate::mock::{Mock, Script, text, tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Turns with a tool, of each job; one more ends it.
const STEPS: usize = 4;

/// A model that adds a line to a file in each turn, and ends after so many; it says in the gate's round what it was told.
fn model() -> Mock {
    Mock::start(Script::made(|request| match request.turn() {
        turn if turn <= STEPS => {
            tool("Bash", json!({"command": format!("echo {turn} >> log.txt; echo {turn} > ignored")}))
        }
        _ => text("Done."),
    }))
}

/// Twelve jobs: most pass, some fail, one is sent back by its gate, two need another one.
fn batch(mock: &Mock) -> Case {
    let mut case = Case::new(&[("log.txt", ""), (".gitignore", "ignored\n")]).args(&["-j", "4"]);
    // A turn that was done twice would leave more lines than there were steps.
    let exact =
        format!("\n[[stop_hooks]]\nname = 'exact'\nrun = 'test $(wc -l < log.txt) -eq {STEPS}'\nmax_blocks = 1\n");
    for n in 0..9 {
        case = case.job(&format!("good-{n}"), &job(mock, &format!("task {n}"), &exact));
    }
    let red = "\n[[stop_hooks]]\nname = 'never'\nrun = 'false'\nmax_blocks = 1\n";
    for n in 0..3 {
        case = case.job(&format!("red-{n}"), &job(mock, &format!("red task {n}"), red));
    }
    case
}

fn endings(ran: &Ran) -> BTreeMap<String, String> {
    let jobs = std::fs::read_dir(ran.folder.as_ref().unwrap().join("jobs")).unwrap();
    let names = jobs.map(|job| job.unwrap().file_name().into_string().unwrap());
    names.map(|job| (job.clone(), ran.ending(&job))).collect()
}

/// How often the model was asked about each task.
fn asked(mock: &Mock) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::new();
    for request in mock.requests() {
        *asked.entry(request.first_text()).or_default() += 1;
    }
    asked
}

/// Numbers from a seed.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Starts a batch, kills it at a random moment, and goes on until it is over; gives back what came of it and how often it was killed.
fn killed(seed: u64, expected: &BTreeMap<String, String>, alone: &BTreeMap<String, usize>) -> u32 {
    let mut seed = seed;
    let mock = model();
    let case = batch(&mock);
    let total: usize = alone.values().sum();
    let mut child = case.start();
    let after = random(&mut seed) as usize % total;
    eventually("the moment of its death", || mock.requests().len() >= after || child.try_wait().unwrap().is_some());
    // Somewhere between two requests.
    let spins = random(&mut seed) % 40_000;
    (0..spins).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    if child.wait().unwrap().code().is_some() {
        // It was over before.
        return 0;
    }
    let run = case.newest_run();
    let Some(run) = run.filter(|run| run.join("run.json").is_file()) else {
        // It had not even begun: there is nothing to go on with.
        assert!(mock.requests().is_empty());
        return 1;
    };
    let finished: Vec<String> = std::fs::read_dir(run.join("jobs"))
        .unwrap()
        .map(|job| job.unwrap())
        .filter(|job| job.path().join("result.json").is_file())
        .map(|job| job.file_name().into_string().unwrap())
        .collect();
    let before: BTreeMap<String, Value> = finished.iter().map(|job| (job.clone(), result(&run, job))).collect();
    let ran = case.finish(case.command(&["resume"]).spawn().unwrap()).expect(1);
    assert_eq!(ran.folder.as_deref(), Some(&*run), "it goes on in the same folder");
    assert_eq!(endings(&ran), *expected, "{}", ran.stderr);
    for (job, was) in before {
        assert_eq!(result(&run, &job), was, "a finished job was run again: {job}");
    }
    for (task, count) in asked(&mock) {
        let most = alone[&task] + 1;
        assert!(count <= most, "more than the turn in flight was paid twice: {task:?} {count}");
    }
    parses(&ran);
    assert_eq!(mock.breaches(), [""; 0]);
    assert_eq!(case.git(&["for-each-ref", "refs/runner"]), "", "checkpoints are left over");
    assert_eq!(case.git(&["worktree", "list"]).lines().filter(|line| line.contains("good-")).count(), 0);
    1
}

fn result(run: &std::path::Path, job: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(run.join("jobs").join(job).join("result.json")).unwrap()).unwrap()
}

/// Every line of every log.
fn parses(ran: &Ran) {
    for line in ran.file("events.jsonl").lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    for job in endings(ran).keys() {
        ran.transcript(job);
    }
    let junit = ran.file("junit.xml");
    assert!(!junit.contains("not_finished"), "{junit}");
    assert_eq!(junit.matches("<testsuite ").count(), 12);
}

#[test]
fn a_batch_that_is_killed_at_any_moment_comes_to_the_same_verdicts() {
    let mock = model();
    let ran = batch(&mock).run().expect(1);
    let (expected, alone) = (endings(&ran), asked(&mock));
    assert_eq!(expected.len(), 12);
    assert_eq!(expected["good-0"], "passed completed completed");
    assert_eq!(expected["red-0"], "failed stop_hook_prevented stop_hook_prevented");
    #[expect(clippy::disallowed_methods, reason = "how many moments a developer wants is the environment's to say")]
    let moments: u64 = std::env::var("RUNNER_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let kills: u32 = (0..moments).map(|moment| killed(moment * 7_919 + 1, &expected, &alone)).sum();
    eprintln!("{kills} of {moments} runs were killed before they ended");
}

#[test]
fn what_has_changed_is_named_and_refused_unless_it_is_allowed() {
    let mock = model();
    let case =
        Case::new(&[("log.txt", "")]).job("one", &job(&mock, "task", "")).job("two", &job(&mock, "task two", ""));
    let mut child = case.start();
    eventually("it has begun", || mock.requests().len() >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    case.write("jobs/one.toml", job(&mock, "another task", ""));
    case.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let resume = |args: &[&str]| case.finish(case.command(&[&["resume"][..], args].concat()).spawn().unwrap());
    let refused = resume(&[]).expect(2);
    assert!(refused.stderr.contains("job `one`: its job file or settings say something else"), "{}", refused.stderr);
    assert!(refused.stderr.contains("job `two`: its base was"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow-changes"), "{}", refused.stderr);
    let ran = resume(&["--allow-changes"]).expect(0);
    assert_eq!(ran.ending("two"), "passed completed completed");
    assert!(ran.file("events.jsonl").contains("changed since it began: job `one`"));
    let over = resume(&["last"]).expect(0);
    assert!(over.stderr.contains("is over"), "{}", over.stderr);
    let none = resume(&[]).expect(2);
    assert!(none.stderr.contains("no run"), "{}", none.stderr);
}

#[test]
fn a_run_that_is_at_work_is_left_alone() {
    let mock = Mock::start(Script::calls([crate::mock::Answer::hang()]));
    let case = Case::new(&[("log.txt", "")]).job("one", &job(&mock, "task", ""));
    let mut child = case.start();
    eventually("it has begun", || !mock.requests().is_empty());
    let refused = case.finish(case.command(&["resume"]).spawn().unwrap()).expect(2);
    assert!(refused.stderr.contains("still at work") && refused.stderr.contains("pid"), "{}", refused.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn torn_files_and_lost_worktrees_do_not_stop_it() {
    let mock = model();
    let case = Case::new(&[("log.txt", "")]).job("one", &job(&mock, "task", ""));
    let mut child = case.start();
    eventually("it is at work", || mock.requests().len() >= STEPS);
    child.kill().unwrap();
    child.wait().unwrap();
    let run = case.newest_run().unwrap();
    for file in ["events.jsonl", "jobs/one/transcript.jsonl"] {
        let path = run.join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 3);
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::remove_dir_all(case.outside().join("worktrees")).unwrap();
    let ran = case.finish(case.command(&["resume"]).spawn().unwrap()).expect(0);
    assert_eq!(ran.ending("one"), "passed completed completed");
    let patch = ran.file("jobs/one/diff.patch");
    for step in 1..=STEPS {
        assert!(patch.contains(&format!("+{step}")), "{patch}");
    }
    assert!(run.join("jobs/one/transcript.torn").is_file());
}
