//! Resolves `[worktree]` and where the files come from.

use super::gates::command;
use super::job::{Source, WorktreePlan};
use super::scope::{Scope, is_variable};
use crate::spec::{Code, Diagnostic, JobSpec, Layer, Written, looks_like_key};
use std::collections::BTreeMap;

/// The repository or the fixture of a job.
pub(super) fn source(scope: &mut Scope<'_>, job: &JobSpec) -> Option<Source> {
    if let Some(fixture) = &job.worktree.fixture {
        let (path, shown) = scope.path(fixture)?;
        if !scope.world.is_folder(&path) {
            scope.not_found("fixture folder", fixture, &shown);
            return None;
        }
        return Some(Source::Fixture(path));
    }
    let repo = job.repo.as_ref()?;
    let (path, shown) = scope.path(repo)?;
    if !scope.world.is_folder(&path) {
        scope.not_found("folder", repo, &shown);
        return None;
    }
    Some(Source::Repo(path))
}

/// How the worktree of a job is made and kept. `key` is the variable that holds the key of the model, where one is used.
pub(super) fn worktree(scope: &mut Scope<'_>, job: &JobSpec, key: Option<&str>) -> Option<WorktreePlan> {
    let spec = &job.worktree;
    let base = base(scope, spec.base.as_ref()?);
    let branch = branch(scope, spec.branch.as_ref()?);
    let setup: Vec<_> = spec.setup.as_ref()?.value.iter().map(|written| command(scope, written)).collect();
    let env = env(scope, job);
    let pass_env = pass_env(scope, &spec.pass_env.as_ref()?.value, key);
    Some(WorktreePlan {
        base: base?,
        branch: branch?,
        setup: setup.into_iter().collect::<Option<_>>()?,
        env: env?,
        pass_env: pass_env?,
        keep: spec.keep.as_ref()?.value,
    })
}

fn base(scope: &mut Scope<'_>, written: &Written<String>) -> Option<String> {
    let base = scope.fill(written)?;
    if base.value.trim().is_empty() || base.value.starts_with('-') || base.value.contains(char::is_control) {
        let report = Diagnostic::error(Code::BadValue, "`base` is not a revision")
            .at(base.place, "must be something that git resolves to a commit")
            .help("for example: base = \"main\"");
        scope.report(report);
        return None;
    }
    Some(base.value)
}

fn branch(scope: &mut Scope<'_>, written: &Written<String>) -> Option<String> {
    let branch = scope.fill(written)?;
    if let Some(fault) = branch_fault(&branch.value) {
        let mut report = Diagnostic::error(Code::BadValue, format!("{:?} cannot be a branch: {fault}", branch.value))
            .at(branch.place, "");
        if written.value != branch.value {
            report = report.note(format!("it is written as {:?}", written.value));
        }
        scope.report(report);
        return None;
    }
    Some(branch.value)
}

/// The rule of git's `check-ref-format --branch` that a name breaks.
fn branch_fault(name: &str) -> Option<&'static str> {
    let bad = |c: char| c.is_ascii_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let locked = |part: &str| part.strip_suffix(".lock").is_some();
    if name.is_empty() || name == "@" || name == "HEAD" {
        Some("it means something else to git")
    } else if name.starts_with('-') {
        Some("it begins with `-`")
    } else if name.contains(bad) {
        Some("git allows no blanks, control characters or any of ~ ^ : ? * [ \\")
    } else if name.contains("..") || name.contains("@{") {
        Some("git allows neither `..` nor `@{`")
    } else if name.split('/').any(|part| part.is_empty() || part.starts_with('.') || locked(part)) {
        Some("no part between slashes may be empty, begin with `.` or end with `.lock`")
    } else if name.ends_with('.') {
        Some("it ends with `.`")
    } else if name.len() > 200 {
        Some("it is longer than 200 bytes, and it becomes the name of a file")
    } else {
        None
    }
}

fn env(scope: &mut Scope<'_>, job: &JobSpec) -> Option<BTreeMap<String, String>> {
    let mut env = BTreeMap::new();
    let mut whole = true;
    for (name, entry) in &job.worktree.env {
        if !is_variable(name) {
            let message = format!("{name:?} is not the name of a variable");
            scope.report(Diagnostic::error(Code::BadValue, message).at(entry.key.clone(), ""));
            whole = false;
        } else if entry.value.value.split_whitespace().any(looks_like_key) {
            scope.report(
                Diagnostic::error(Code::SecretInFile, format!("the variable `{name}` holds a key"))
                    .at(entry.value.place.clone(), "a key must not stand in a file")
                    .help(format!("hand it on from the environment: pass_env = [\"{name}\"]")),
            );
            whole = false;
        } else if let Some(value) = scope.fill(&entry.value) {
            env.insert(name.clone(), value.value);
        } else {
            whole = false;
        }
    }
    whole.then_some(env)
}

fn pass_env(scope: &mut Scope<'_>, written: &[Written<String>], key: Option<&str>) -> Option<Vec<String>> {
    let names = scope.fill_all(written)?;
    let mut whole = true;
    for name in &names {
        let report = if looks_like_key(&name.value) {
            Diagnostic::error(Code::SecretInFile, "`pass_env` holds a key")
                .at(name.place.clone(), "a name belongs here")
        } else if !is_variable(&name.value) {
            Diagnostic::error(Code::BadValue, format!("{:?} is not the name of a variable", name.value))
                .at(name.place.clone(), "")
        } else if key == Some(name.value.as_str()) && name.layer() != Layer::BuiltIn {
            Diagnostic::error(Code::Conflict, format!("`{}` holds the key of the model", name.value))
                .at(name.place.clone(), "is never handed on to tools and gates")
        } else {
            continue;
        };
        scope.report(report);
        whole = false;
    }
    whole.then(|| names.into_iter().map(|name| name.value).collect())
}

#[cfg(test)]
mod tests {
    use super::branch_fault;

    #[test]
    fn branches_follow_the_rules_of_git() {
        for good in ["a", "runner/20261201-1/fix", "feature/x.y", "ü", "a@b"] {
            assert_eq!(branch_fault(good), None, "{good}");
        }
        for bad in [
            "", "@", "HEAD", "-x", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "a..b", "a@{1}", "/a", "a/",
            "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "a\u{7f}", "a\nb",
        ] {
            assert!(branch_fault(bad).is_some(), "{bad}");
        }
    }
}
