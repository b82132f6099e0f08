//! What people run or copy must work: every file in `jobs/` and `examples/` is planned, and the recorded ones are run.

use crate::case::Case;
use std::fs;
use std::path::{Path, PathBuf};
use toml::Table;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A repository that holds `jobs` and `examples`, so that runs leave nothing here.
fn case() -> Case {
    let case = Case::new(&[]);
    for folder in ["jobs", "examples"] {
        copy(&Path::new(ROOT).join(folder), &case.root().join(folder));
    }
    case.git(&["add", "--all"]);
    case.git(&["commit", "--quiet", "--message=jobs"]);
    // `check` wants the variable to be there; nothing here sends it.
    case.env("ANTHROPIC_API_KEY", "no-key")
}

/// Copies a folder; what a build left in it is not part of it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for path in children(from) {
        let name = path.file_name().unwrap();
        if path.is_dir() && name != "target" {
            copy(&path, &to.join(name));
        } else if path.is_file() {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn job_files(folder: &str) -> Vec<String> {
    let files = children(&Path::new(ROOT).join(folder)).into_iter();
    let names: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap()))
        .collect();
    assert!(names.len() >= 3, "{names:?}");
    names
}

#[test]
fn every_job_file_can_be_planned() {
    for file in job_files("jobs").into_iter().chain(job_files("examples")) {
        let ran = case().args(&[&file]).check().expect(0);
        let stem = Path::new(&file).file_stem().unwrap().to_str().unwrap();
        assert!(ran.stdout.contains(stem), "{file}\n{}", ran.stdout);
    }
}

#[test]
fn the_demo_passes() {
    let case = case();
    let before = case.fingerprint();
    // As in the README; the runner expands the glob itself.
    let case = case.args(&["jobs/*.toml"]);
    let ran = case.run().expect(0);
    let jobs: Vec<_> = children(&ran.folder.as_ref().unwrap().join("jobs"))
        .iter()
        .map(|job| job.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(jobs, ["backticks-hosts", "backticks-newest", "backticks-project", "empty-last-page", "wrong-release"]);
    for job in &jobs {
        assert_eq!(ran.ending(job), "passed completed completed", "{job}");
    }
    let result = ran.result("empty-last-page");
    let blocked = result["transitions"].as_array().unwrap().iter().filter(|name| *name == "stop_hook_blocking");
    assert_eq!(blocked.count(), 1);
    assert_eq!(
        (result["gates"][0]["before"].as_str(), result["gates"][0]["after"].as_str()),
        (Some("fail"), Some("pass"))
    );
    assert_eq!(case.fingerprint(), before);
}

#[test]
fn the_examples_end_as_they_say() {
    for (job, ending) in [
        ("gate-never-passes", "failed stop_hook_prevented stop_hook_prevented"),
        ("turn-limit", "failed max_turns max_turns"),
    ] {
        let case = case().args(&[&format!("examples/{job}.toml")]);
        let ran = case.run().expect(1);
        assert_eq!(ran.ending(job), ending);
    }
}

fn defaults() -> String {
    fs::read_to_string(Path::new(ROOT).join("src/plan/defaults.toml")).unwrap()
}

#[test]
fn the_readme_shows_the_defaults() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let block = format!("```toml\n{}```\n", defaults());
    assert!(readme.contains(&block), "README.md lacks this block:\n{block}");
}

#[test]
fn the_reference_holds_the_defaults() {
    let reference = fs::read_to_string(Path::new(ROOT).join("examples/reference.toml")).unwrap().parse().unwrap();
    // A command has no default, and a path in a file would be relative to that file.
    assert_eq!(differing(&defaults().parse().unwrap(), &reference), ["repo", "stop_hooks.run", "tool_hooks.run"]);
    let other = differing(&"a = 1\n[[b]]\nc = 2".parse().unwrap(), &"[[b]]\nc = 3".parse().unwrap());
    assert_eq!(other, ["a", "b.c"]);
}

/// The keys of `defaults` that are other, or absent, in `reference`. Of tables in a row the first is compared.
fn differing(defaults: &Table, reference: &Table) -> Vec<String> {
    fn table(value: &toml::Value) -> Option<&Table> {
        value.as_table().or_else(|| value.as_array()?.first()?.as_table())
    }
    let differs = |(key, value): (&String, &toml::Value)| match (value, reference.get(key)) {
        (value, Some(other)) if value == other => Vec::new(),
        (value, Some(other)) => match (table(value), table(other)) {
            (Some(value), Some(other)) => {
                differing(value, other).into_iter().map(|inner| format!("{key}.{inner}")).collect()
            }
            _ => vec![key.clone()],
        },
        (_, None) => vec![key.clone()],
    };
    defaults.iter().flat_map(differs).collect()
}
