//! Golden folders: each job file of `tests/data/spec` beside what comes of it. `ok` files have their plan (`.stdout`),
//! `bad` ones their exact errors (`.stderr`). `RUNNER_BLESS=1 cargo test --test it spec` rewrites what is expected.

use proptest::prelude::*;
use runner::cli::JobArgs;
use runner::load::{Failure, Snapshot, plan};
use runner::plan::{Plan, Purpose};
use runner::spec::{Layer, Paint, SourceFile, parse_job, parse_settings, render_all};
use runner::units::RunId;
use std::fs;
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spec")
}

/// The cases of one folder: job files, and folders of several files.
fn cases(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(data().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> =
        entries.filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "toml")).collect();
    cases.sort();
    cases
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

/// Plans one case in a folder of its own, which looks like the root of a repository and holds `tests/data/spec/files`.
fn planned(case: &Path) -> (Result<Plan, Failure>, String) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join(".git")).unwrap();
    copy(&data().join("files"), root.path());
    if case.is_dir() {
        copy(case, root.path());
    } else {
        fs::copy(case, root.path().join(case.file_name().unwrap())).unwrap();
    }
    let env = [("ANTHROPIC_API_KEY", "set"), ("PATH", "/usr/bin:/bin")];
    let snapshot = Snapshot {
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        cwd: root.path().to_owned(),
        stdout_is_terminal: false,
        stderr_is_terminal: false,
    };
    let args = JobArgs { jobs: vec!["*.toml".into()], ..JobArgs::default() };
    let result = plan(&args, &snapshot, &RunId("RUN".into()), Purpose::Check);
    (result, root.path().display().to_string())
}

/// Compares a text with the golden file, or rewrites the file; says what differs.
fn differs(golden: &Path, text: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a switch of the tests, not of the product")]
    let bless = std::env::var_os("RUNNER_BLESS").is_some();
    if bless {
        fs::write(golden, text).unwrap();
        return None;
    }
    let expected = fs::read_to_string(golden).unwrap_or_default();
    (expected != text).then(|| format!("{}\n--- expected\n{expected}\n--- found\n{text}", golden.display()))
}

#[test]
fn bad_files_give_exactly_these_errors() {
    let mut faults = Vec::new();
    let cases = cases("bad");
    assert!(cases.len() >= 25, "only {} cases", cases.len());
    for case in cases {
        let (result, root) = planned(&case);
        match result {
            Ok(_) => faults.push(format!("{} has no error", case.display())),
            Err(failure) => {
                assert_eq!(failure.exit().code(), 2);
                let text = failure.report(Paint::Plain).replace(&root, "[root]");
                faults.extend(differs(&case.with_extension("stderr"), &text));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn good_files_give_exactly_these_plans() {
    let mut faults = Vec::new();
    for case in cases("ok") {
        let (result, root) = planned(&case);
        match result {
            Ok(plan) => {
                let warnings = render_all(&plan.warnings, Paint::Plain);
                let text = format!("{}{warnings}", plan.text()).replace(&root, "[root]");
                faults.extend(differs(&case.with_extension("stdout"), &text));
            }
            Err(failure) => faults.push(format!("{}\n{}", case.display(), failure.report(Paint::Plain))),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_golden_file_is_forgotten() {
    for (folder, end) in [("ok", "stdout"), ("bad", "stderr")] {
        let cases = cases(folder);
        for entry in fs::read_dir(data().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|found| found == end) {
                let known = cases.iter().any(|case| case.with_extension(end) == path);
                assert!(known, "{} has no job file", path.display());
            }
        }
    }
}

#[test]
fn the_json_of_a_plan_has_every_job_and_no_secret() {
    let (result, _) = planned(&data().join("ok/everything.toml"));
    let json = result.unwrap().json();
    assert_eq!(json["schema"], 1);
    let job = &json["jobs"][0];
    assert_eq!(job["worktree"]["branch"], "work/RUN/everything");
    assert_eq!(job["worktree"]["env"], serde_json::json!(["RUST_BACKTRACE"]), "names of variables, not their values");
    assert_eq!(job["model"]["headers"], serde_json::json!(["x-team"]));
    assert_eq!((&job["token_budget"], &job["keep_working"]), (&65_536.into(), &true.into()));
    assert_eq!((&job["task_budget"], &job["loop_limit"]), (&20_000.into(), &4.into()));
    assert_eq!(
        (&job["model"]["fallback"]["thinking"]["budget_tokens"], &job["model"]["small"]["thinking"]),
        (&4_096.into(), &"off".into())
    );
    assert_eq!((&job["gates"][1]["place"], &job["hooks"][0]["place"]), (&1.into(), &2.into()));
    assert_eq!((&job["tool_hooks"][0]["event"], &job["tool_hooks"][0]["match"]), (&"pre".into(), &"Bash|Edit".into()));
}

/// Parses a text in both ways and renders all that is found.
fn survives(text: &str) {
    for parse in [parse_job, parse_settings] {
        let file = SourceFile::new(Layer::Job, "soup.toml", "", text);
        let (_, found) = parse(&file);
        let shown = render_all(&found, Paint::Plain);
        assert_eq!(shown.is_empty(), found.is_empty());
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    survives(&format!("a = {}", "[".repeat(100_000)));
    survives(&format!("a = {}", "{a=".repeat(100_000)));
    survives(&format!("[{}]", "a.".repeat(100_000)));
}

/// A good file, to be broken at random.
const GOOD: &str = include_str!("../data/spec/ok/everything.toml");

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn toml_like_text_survives(text in "([a-z_]{1,9}|[\\[\\]{}=\"'#,.\\n\\r\u{feff}é0-9 -]|\\[\\[stop_hooks\\]\\]|\\[model\\]|prompt = ){0,60}") {
        survives(&text);
    }

    #[test]
    fn a_good_file_survives_any_break(at in 0..GOOD.len(), len in 0..40_usize, put in "[\\[\\]{}=\"'a1é\\n ]{0,4}") {
        let mut bytes = GOOD.as_bytes().to_vec();
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        survives(&String::from_utf8_lossy(&bytes));
    }
}
