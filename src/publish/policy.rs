//! What may be published without a person having looked: limits and rules on the changes of a job. Pure.

use crate::report::redact::Redactor;
use crate::worktree::{After, Change, Step};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::RegexSet;
use std::sync::LazyLock;

/// What a pipeline runs by itself, or what decides who reviews: a change there acts before anybody has read it.
const PROTECTED: &[&str] = &[
    ".github/**",
    ".gitlab-ci.yml",
    ".gitlab/**",
    ".circleci/**",
    ".buildkite/**",
    ".forgejo/**",
    ".gitea/**",
    ".woodpecker/**",
    ".woodpecker.{yml,yaml}",
    ".drone.{yml,star}",
    ".travis.yml",
    "azure-pipelines.{yml,yaml}",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    "CODEOWNERS",
    "docs/CODEOWNERS",
    ".gitmodules",
    ".runner/**",
];

/// How many problems are told one by one.
const TOLD: usize = 20;

/// The rules.
#[derive(Clone, Debug)]
pub struct DiffPolicy {
    /// The most changed paths.
    pub max_files: usize,
    /// The most lines added and taken away.
    pub max_lines: u64,
    /// The most bytes of all changed files together, as they are now.
    pub max_bytes: u64,
    /// The most commits.
    pub max_commits: usize,
    /// Paths that may not change.
    protected: GlobSet,
    /// Paths that may hold anything.
    allowed: GlobSet,
    /// Names that the branch may have.
    branches: GlobSet,
}

impl DiffPolicy {
    /// 300 files, 10,000 lines, 10 MiB, 100 commits, and the paths of `PROTECTED`. `allowed` are globs of paths for which the rules on
    /// single files do not hold, `branches` globs of branches that may be pushed to; none means `runner/**`.
    ///
    /// # Errors
    /// Names a glob that is none.
    pub fn new(allowed: &[String], branches: &[String]) -> Result<Self, String> {
        let ours = ["runner/**".to_owned()];
        Ok(Self {
            max_files: 300,
            max_lines: 10_000,
            max_bytes: 10 << 20,
            max_commits: 100,
            protected: set(PROTECTED, true)?,
            allowed: set(allowed, false)?,
            branches: set(if branches.is_empty() { &ours } else { branches }, false)?,
        })
    }

    /// Why a branch of this name may not be pushed to, if it may not.
    #[must_use]
    pub fn branch_problem(&self, branch: &str) -> Option<String> {
        let odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
        let broken = branch.is_empty() || branch.starts_with(['-', '/', '.']) || branch.ends_with(['/', '.']);
        if broken || branch.contains(odd) || [".lock", "..", "//", "@{", "/."].iter().any(|bad| branch.contains(bad)) {
            return Some(format!("{branch:?} is no name for a branch"));
        }
        (!self.branches.is_match(branch))
            .then(|| format!("the branch `{branch}` is none that may be pushed to; name it by `--branches`"))
    }

    /// Everything that speaks against publishing this, in words; empty when nothing does.
    ///
    /// The limits hold for `whole`. The rules on single files hold for each commit: what one commit adds and the next takes away is
    /// still pushed. `known` finds the secrets of the environment.
    #[must_use]
    pub fn problems(&self, steps: &[Step], whole: &Step, known: &Redactor) -> Vec<String> {
        let mut problems = self.limits(steps, whole);
        let mut found: Vec<String> = steps
            .iter()
            .flat_map(|step| step.changes.iter())
            .flat_map(|change| self.change_problems(change, known))
            .collect();
        found.sort();
        found.dedup();
        let more = found.len().saturating_sub(TOLD);
        found.truncate(TOLD);
        problems.extend(found);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        problems
    }

    fn limits(&self, steps: &[Step], whole: &Step) -> Vec<String> {
        let sum = |of: fn(&Change) -> u64| whole.changes.iter().map(of).fold(0, u64::saturating_add);
        let (lines, bytes) = (sum(|change| change.added + change.removed), sum(|change| change.size));
        let over = |what: &str, is: u64, most: u64| (is > most).then(|| format!("{is} {what}, more than {most}"));
        [
            over("changed files", whole.changes.len() as u64, self.max_files as u64),
            over("changed lines", lines, self.max_lines),
            over("bytes in changed files", bytes, self.max_bytes),
            over("commits", steps.len() as u64, self.max_commits as u64),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn change_problems(&self, change: &Change, known: &Redactor) -> Vec<String> {
        let mut problems = Vec::new();
        for path in std::iter::once(&change.path).chain(&change.from) {
            if self.protected.is_match(path) && !self.allowed.is_match(path) {
                problems.push(format!("{path}: protected: it acts before anybody has reviewed it"));
            }
        }
        if self.allowed.is_match(&change.path) {
            return problems;
        }
        let path = &change.path;
        match &change.after {
            After::Binary => problems.push(format!("{path}: a binary file")),
            After::Submodule => problems.push(format!("{path}: a submodule")),
            After::Link(target) if leads_out(path, target) => {
                problems.push(format!("{path}: a link that leads out of the repository ({target})"));
            }
            After::Nothing | After::Text | After::Link(_) => {}
        }
        for line in &change.text {
            if let Some(what) = secret_in(line, known) {
                problems.push(format!("{path}: holds what looks like {what}"));
            }
        }
        problems
    }
}

fn set<S: AsRef<str>>(globs: &[S], any_case: bool) -> Result<GlobSet, String> {
    let mut builder = GlobSetBuilder::new();
    for glob in globs.iter().map(AsRef::as_ref) {
        let parsed = GlobBuilder::new(glob).literal_separator(true).case_insensitive(any_case).build();
        builder.add(parsed.map_err(|error| format!("`{glob}` is no glob: {error}"))?);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Whether a link at `path` leads out of the repository, or into its `.git`.
fn leads_out(path: &str, target: &str) -> bool {
    let mut depth: Vec<&str> = path.split('/').collect();
    depth.pop();
    if target.starts_with('/') || target.is_empty() {
        return true;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if depth.pop().is_none() {
                    return true;
                }
            }
            part => depth.push(part),
        }
    }
    depth.first().is_some_and(|first| first.eq_ignore_ascii_case(".git"))
}

/// What each pattern finds.
const SECRETS: &[(&str, &str)] = &[
    ("a private key", "-----BEGIN ([A-Z]+ )*PRIVATE KEY"),
    ("a key of AWS", r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("a token of GitHub", r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})"),
    ("a token of GitLab", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("a token of Slack", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("a key of a model provider", r"\bsk-(ant-|proj-)?[A-Za-z0-9_-]{32,}"),
    ("a key of Google", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("a token of npm or PyPI", r"\b(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,})"),
    ("a password in an address", r"\b[a-z]+://[^/\s:@{}$<>]+:[^/\s:@{}$<>]{8,}@[A-Za-z0-9]"),
];

/// `None` only should a pattern not compile, which a test rules out.
static PATTERNS: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(SECRETS.iter().map(|(_, pattern)| *pattern)).ok());

fn secret_in(line: &str, known: &Redactor) -> Option<&'static str> {
    if matches!(known.apply(line), std::borrow::Cow::Owned(_)) {
        return Some("a secret of this environment");
    }
    let first = PATTERNS.as_ref()?.matches(line).iter().next()?;
    SECRETS.get(first).map(|(what, _)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::redact::Secret;

    fn change(path: &str, after: After) -> Change {
        Change { path: path.into(), from: None, after, added: 1, removed: 0, size: 10, text: Vec::new() }
    }

    fn judged(changes: Vec<Change>) -> Vec<String> {
        judged_by(&DiffPolicy::new(&[], &[]).unwrap(), changes)
    }

    fn judged_by(policy: &DiffPolicy, changes: Vec<Change>) -> Vec<String> {
        let step = Step { commit: "c".into(), changes };
        let known = Redactor::new(&[Secret { name: "DB".into(), value: "correct-horse".into() }]);
        policy.problems(std::slice::from_ref(&step), &step, &known)
    }

    fn text(line: &str) -> Change {
        Change { text: vec![line.into()], ..change("src/a.rs", After::Text) }
    }

    #[test]
    fn ordinary_work_passes() {
        let moved = Change { from: Some("src/old.rs".into()), ..change("src/new.rs", After::Text) };
        let changes = vec![
            text("let key = env(\"API_KEY\"); // https://user:pw@host"),
            moved,
            change("gone", After::Nothing),
            change("docs/latest", After::Link("v2/../v3".into())),
            change("a/b", After::Link("../c".into())),
            change("github/workflows.md", After::Text),
        ];
        assert_eq!(judged(changes), [""; 0]);
    }

    #[test]
    fn what_acts_unread_is_protected_under_any_name_that_leads_there() {
        let from = Change { from: Some(".github/CODEOWNERS".into()), ..change("x", After::Text) };
        for one in [
            change(".github/workflows/ci.yml", After::Text),
            change(".GitHub/workflows/ci.yml", After::Nothing),
            change(".gitlab-ci.yml", After::Text),
            change("CODEOWNERS", After::Text),
            change("docs/CODEOWNERS", After::Text),
            change(".woodpecker.yaml", After::Text),
            change(".gitmodules", After::Text),
            from,
        ] {
            let problems = judged(vec![one.clone()]);
            assert!(problems.len() == 1 && problems[0].contains("protected"), "{one:?} {problems:?}");
        }
    }

    #[test]
    fn files_that_hide_something_are_refused_unless_allowed() {
        let all = vec![
            change("logo.png", After::Binary),
            change("sub", After::Submodule),
            change("a/up", After::Link("../../etc".into())),
            change("abs", After::Link("/etc/passwd".into())),
            change("hook", After::Link(".git/hooks/x".into())),
            change(".github/x.yml", After::Text),
        ];
        insta::assert_snapshot!(judged(all.clone()).join("\n"), @r"
        .github/x.yml: protected: it acts before anybody has reviewed it
        a/up: a link that leads out of the repository (../../etc)
        abs: a link that leads out of the repository (/etc/passwd)
        hook: a link that leads out of the repository (.git/hooks/x)
        logo.png: a binary file
        sub: a submodule
        ");
        let allow = ["**".to_owned()];
        assert_eq!(judged_by(&DiffPolicy::new(&allow, &[]).unwrap(), all), [""; 0]);
    }

    #[test]
    fn secrets_are_found_by_their_looks_and_by_their_values() {
        let long = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0";
        for (line, what) in [
            ("-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(), "private key"),
            ("aws = AKIAIOSFODNN7EXAMPLE".to_owned(), "AWS"),
            (format!("token: ghp_{long}"), "GitHub"),
            (format!("glpat-{long}"), "GitLab"),
            (format!("sk-ant-{long}"), "model provider"),
            ("postgres://app:hunter2hunter2@db/x".to_owned(), "password in an address"),
            ("it is correct-horse".to_owned(), "secret of this environment"),
        ] {
            let problems = judged(vec![text(&line)]);
            assert!(problems.len() == 1 && problems[0].contains(what), "{line}: {problems:?}");
            assert!(!problems[0].contains(long), "the secret itself is not told");
        }
        assert!(PATTERNS.is_some());
    }

    #[test]
    fn what_one_commit_adds_and_the_next_takes_away_is_still_seen() {
        let policy = DiffPolicy::new(&[], &[]).unwrap();
        let step = |changes| Step { commit: "c".into(), changes };
        let steps = [step(vec![change(".github/x", After::Text)]), step(vec![change(".github/x", After::Nothing)])];
        assert_eq!(policy.problems(&steps, &step(Vec::new()), &Redactor::default()).len(), 1);
    }

    #[test]
    fn limits_name_their_numbers() {
        let many: Vec<Change> =
            (0..301).map(|n| Change { added: 40, size: 50_000, ..change(&format!("f{n}"), After::Text) }).collect();
        insta::assert_snapshot!(judged(many).join("\n"), @r"
        301 changed files, more than 300
        12040 changed lines, more than 10000
        15050000 bytes in changed files, more than 10485760
        ");
        let binaries = (0..30).map(|n| change(&format!("b{n:02}"), After::Binary)).collect();
        assert_eq!(judged(binaries).last().map(String::as_str), Some("and 10 more"));
    }

    #[test]
    fn only_branches_of_our_own_unless_named() {
        let policy = DiffPolicy::new(&[], &[]).unwrap();
        assert_eq!(policy.branch_problem("runner/20261201-1/fix"), None);
        for bad in [
            "main",
            "runner",
            "runner/a b",
            "runner/../main",
            "-x",
            "",
            "runner/x.lock",
            "runner/\u{7}",
            "refs/heads/main",
        ] {
            assert!(policy.branch_problem(bad).is_some(), "{bad}");
        }
        let named = DiffPolicy::new(&[], &["fix/*".to_owned()]).unwrap();
        assert_eq!(named.branch_problem("fix/a"), None);
        assert!(named.branch_problem("runner/x").is_some());
        assert!(DiffPolicy::new(&["a[".to_owned()], &[]).is_err());
    }
}
