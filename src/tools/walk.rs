//! Walking the worktree: in parallel, by its own ignore rules and no others, never into `.git`, never through a link.

use super::path::{Root, is_git};
use ignore::{DirEntry, WalkBuilder, WalkState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Whether ignore rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// The `.gitignore` and `.ignore` files of the worktree hold. Hidden files are walked all the same.
    Respected,
    /// Everything is walked.
    Ignored,
}

/// What a walk met.
#[derive(Debug)]
pub(super) struct Walked<T> {
    /// What was taken, in no order.
    pub(super) taken: Vec<T>,
    /// How many files there were, taken or not.
    pub(super) seen: u64,
    /// Whether the walk ended early, at its limit.
    pub(super) cut: bool,
}

/// A walk of one folder.
pub(super) struct Walk<'a> {
    /// The worktree, whose ignore rules hold.
    pub(super) root: &'a Root,
    /// The real path of the folder in it.
    pub(super) base: &'a Path,
    /// Whether ignore rules count.
    pub(super) rules: Rules,
    /// After so many files it ends.
    pub(super) limit: u64,
    /// Ends it from outside.
    pub(super) cancel: &'a CancellationToken,
}

impl Walk<'_> {
    /// Walks: `take` is asked about every file and symbolic link.
    pub(super) fn files<T: Send>(&self, take: impl Fn(&DirEntry) -> Option<T> + Sync) -> Walked<T> {
        let (sender, receiver) = mpsc::channel();
        let seen = AtomicU64::new(0);
        self.builder().build_parallel().run(|| {
            let sender = sender.clone();
            let (take, seen) = (&take, &seen);
            Box::new(move |entry| {
                if self.cancel.is_cancelled() {
                    return WalkState::Quit;
                }
                // What cannot be read is left out, as every search program does.
                let Ok(entry) = entry else { return WalkState::Continue };
                if entry.file_type().is_none_or(|kind| kind.is_dir()) || !entry.path().starts_with(self.base) {
                    return WalkState::Continue;
                }
                if seen.fetch_add(1, Ordering::Relaxed) >= self.limit {
                    return WalkState::Quit;
                }
                match take(&entry).map(|taken| sender.send(taken)) {
                    Some(Err(_)) => WalkState::Quit,
                    Some(Ok(())) | None => WalkState::Continue,
                }
            })
        });
        drop(sender);
        let seen = seen.into_inner();
        Walked { taken: receiver.into_iter().collect(), seen: seen.min(self.limit), cut: seen > self.limit }
    }

    fn builder(&self) -> WalkBuilder {
        let base = self.base.to_owned();
        let mut builder = match self.rules {
            // From the root, so that the rules of every folder on the way hold, and those above the root do not.
            Rules::Respected => {
                let mut builder = WalkBuilder::new(self.root.path());
                builder.parents(false).hidden(false).git_global(false).git_exclude(false).require_git(false);
                builder
            }
            Rules::Ignored => {
                let mut builder = WalkBuilder::new(self.base);
                builder.standard_filters(false);
                builder
            }
        };
        builder.filter_entry(move |entry| {
            let path = entry.path();
            !is_git(entry.file_name()) && (path.starts_with(&base) || base.starts_with(path))
        });
        builder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn walk(root: &Root, base: &str, rules: Rules) -> Vec<String> {
        let base = root.path().join(base);
        let cancel = CancellationToken::new();
        let walk = Walk { root, base: &base, rules, limit: u64::MAX, cancel: &cancel };
        let mut names = walk.files(|entry| Some(root.show(entry.path()))).taken;
        names.sort();
        names
    }

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join("wt").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = Root::open(&dir.path().join("wt")).unwrap();
        (dir, root)
    }

    #[test]
    fn ignore_rules_hold_and_hidden_files_are_walked() {
        let (_dir, root) = tree(&[
            (".gitignore", "target\n*.log\n"),
            (".github/ci.yml", ""),
            ("target/x", ""),
            ("src/a.rs", ""),
            ("src/a.log", ""),
            ("src/gen/.gitignore", "*\n"),
            ("src/gen/b.rs", ""),
            (".git/config", ""),
            ("sub/.git/config", ""),
        ]);
        assert_eq!(walk(&root, "", Rules::Respected), [".github/ci.yml", ".gitignore", "src/a.rs"]);
        assert_eq!(walk(&root, "src", Rules::Respected), ["src/a.rs"]);
        assert_eq!(walk(&root, "target", Rules::Respected), [""; 0]);
        assert_eq!(walk(&root, "target", Rules::Ignored), ["target/x"]);
        assert_eq!(walk(&root, "src", Rules::Ignored), ["src/a.log", "src/a.rs", "src/gen/.gitignore", "src/gen/b.rs"]);
    }

    #[test]
    fn rules_from_above_the_worktree_do_not_hold() {
        let (dir, root) = tree(&[("a.rs", "")]);
        fs::write(dir.path().join(".gitignore"), "*.rs\n").unwrap();
        fs::write(dir.path().join(".ignore"), "*.rs\n").unwrap();
        assert_eq!(walk(&root, "", Rules::Respected), ["a.rs"]);
    }

    #[test]
    fn links_are_not_followed() {
        let (dir, root) = tree(&[("src/a.rs", "")]);
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/secret"), "").unwrap();
        symlink(dir.path().join("out"), root.path().join("src/out")).unwrap();
        symlink("..", root.path().join("src/round")).unwrap();
        for rules in [Rules::Respected, Rules::Ignored] {
            assert_eq!(walk(&root, "", rules), ["src/a.rs", "src/out", "src/round"]);
        }
    }

    #[test]
    fn a_walk_ends_at_its_limit_and_when_cancelled() {
        let (_dir, root) = tree(&[("a", ""), ("b", ""), ("c", "")]);
        let cancel = CancellationToken::new();
        let mut walk = Walk { root: &root, base: root.path(), rules: Rules::Respected, limit: 2, cancel: &cancel };
        let walked = walk.files(|_| Some(()));
        assert_eq!((walked.taken.len(), walked.seen, walked.cut), (2, 2, true));
        walk.limit = 3;
        assert!(!walk.files(|_| Some(())).cut);
        cancel.cancel();
        assert_eq!(walk.files(|_| Some(())).seen, 0);
    }
}
