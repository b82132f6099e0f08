//! Paths as the model writes them, resolved to where they really lead; only what lies in the worktree is given out.

use super::limit::{escaped, one_line};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links one path may cross: the kernel's own limit.
const MAX_LINKS: usize = 40;

/// The longest path, in bytes: the kernel's own limit.
pub(super) const MAX_PATH: usize = 4096;

/// The worktree: the folder that file tools never leave.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// Its real path.
    path: PathBuf,
    /// Device and inode, by which a replaced folder is recognised.
    identity: (u64, u64),
    /// Whether it had a `.git` at the start.
    repository: bool,
}

/// A place in the worktree. It may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it really is: absolute, no symbolic link in it.
    pub(super) real: PathBuf,
    /// The same, relative to the worktree, `.` for its root: what the model is shown.
    pub(super) shown: String,
}

impl Root {
    /// Takes a folder as the worktree.
    ///
    /// # Errors
    /// Says in words why the folder cannot be used.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("cannot use {} as the worktree: {error}", path.display());
        let path = path.canonicalize().map_err(fail)?;
        let meta = path.symlink_metadata().map_err(fail)?;
        if !meta.is_dir() {
            return Err(format!("cannot use {} as the worktree: it is not a folder", path.display()));
        }
        let repository = path.join(".git").symlink_metadata().is_ok();
        Ok(Self { path, identity: (meta.dev(), meta.ino()), repository })
    }

    /// Its real path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the worktree is still the folder that it was.
    ///
    /// # Errors
    /// Says that it is gone.
    pub(super) fn check(&self) -> Result<(), String> {
        let same = self.path.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity);
        let whole = !self.repository || self.path.join(".git").symlink_metadata().is_ok();
        if same && whole {
            return Ok(());
        }
        Err(format!(
            "The worktree {} is gone: it was removed, replaced, or lost its .git. Nothing was run, and no tool can \
             work any more.",
            self.path.display()
        ))
    }

    /// Resolves a path that the model gave: absolute, or relative to the worktree.
    ///
    /// Every symbolic link is followed, the last one too, also where the target does not exist yet.
    ///
    /// # Errors
    /// Says in words why the path is not for the tools: outside of the worktree, in `.git`, not a path.
    pub(super) fn resolve(&self, given: &str) -> Result<Place, String> {
        if given.trim().is_empty() {
            return Err("The path is empty.".into());
        }
        if given.contains('\0') {
            return Err("The path contains a NUL character.".into());
        }
        if given.len() > MAX_PATH {
            return Err(format!("The path is too long: {}.", one_line(given)));
        }
        if given == "~" || given.starts_with("~/") {
            return Err(format!("`~` is not the home directory here. Your files are in {}.", self.path.display()));
        }
        let real = self.real(Path::new(given))?;
        let Ok(inside) = real.strip_prefix(&self.path) else {
            return Err(self.outside(given, &real));
        };
        if inside.components().any(|part| is_git(part.as_os_str())) {
            return Err(format!(
                "`{}` belongs to git: .git is not open to the file tools. Use git commands in Bash.",
                one_line(given)
            ));
        }
        Ok(Place { shown: shown(inside), real })
    }

    /// Resolves an absolute path into a folder outside of the worktree; `None` for one that leads elsewhere, by `..` or by
    /// links.
    pub(super) fn beside(&self, given: &str, folder: &Path) -> Option<Place> {
        if !given.starts_with('/') || given.contains('\0') || given.len() > MAX_PATH {
            return None;
        }
        let real = self.real(Path::new(given)).ok()?;
        let folder = folder.canonicalize().ok()?;
        let is_beside = real.starts_with(&folder) && !real.starts_with(&self.path);
        is_beside.then(|| Place { shown: self.show(&real), real })
    }

    /// The path of a real place relative to the worktree, as the model is shown it.
    pub(super) fn show(&self, real: &Path) -> String {
        real.strip_prefix(&self.path).map_or_else(|_| one_line(&real.to_string_lossy()), shown)
    }

    /// Follows a path component by component, as the kernel would, and goes on by name where nothing exists.
    fn real(&self, given: &Path) -> Result<PathBuf, String> {
        let mut todo: VecDeque<OsString> = VecDeque::new();
        let mut at = self.path.clone();
        let mut links = 0;
        push_front(&mut todo, &mut at, given);
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if !next.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
                at = next;
                continue;
            }
            links += 1;
            let target =
                next.read_link().map_err(|error| format!("Cannot read the link {}: {error}.", self.show(&next)))?;
            if links > MAX_LINKS {
                return Err(format!(
                    "`{}` leads through a loop of symbolic links.",
                    one_line(&given.to_string_lossy())
                ));
            }
            push_front(&mut todo, &mut at, &target);
        }
        Ok(at)
    }

    /// The error for a path outside, with the place that was probably meant.
    fn outside(&self, given: &str, real: &Path) -> String {
        let root = self.path.display();
        let given_path = Path::new(given);
        let by_link = given_path.is_relative() && !given_path.components().any(|part| part == Component::ParentDir)
            || given_path.starts_with(&self.path);
        let how = if by_link { " (a symbolic link leads out)" } else { "" };
        let hint = self.same_inside(real).map(|inside| format!(" Did you mean `{inside}`?")).unwrap_or_default();
        format!(
            "`{}` is outside of the worktree{how}. Your files are in {root}: give paths in there, absolute or relative \
             to it.{hint}",
            one_line(given)
        )
    }

    /// The longest end of an outside path that names something in the worktree: a path of another checkout, mostly.
    fn same_inside(&self, outside: &Path) -> Option<String> {
        let parts: Vec<Component<'_>> = outside.components().collect();
        (1..parts.len())
            .map(|from| parts[from..].iter().collect::<PathBuf>())
            .find(|end| {
                !end.components().any(|part| is_git(part.as_os_str())) && self.path.join(end).symlink_metadata().is_ok()
            })
            .map(|end| shown(&end))
    }
}

/// Puts the parts of a path before all others; an absolute one starts again at `/`.
fn push_front(todo: &mut VecDeque<OsString>, at: &mut PathBuf, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => todo.push_front(name.to_owned()),
            Component::ParentDir => todo.push_front("..".into()),
            Component::RootDir | Component::Prefix(_) => *at = PathBuf::from("/"),
            Component::CurDir => {}
        }
    }
}

/// Whether a name is git's own; some file systems do not tell upper from lower case.
pub(super) fn is_git(name: &std::ffi::OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

fn shown(inside: &Path) -> String {
    if inside.as_os_str().is_empty() { ".".into() } else { escaped(&inside.to_string_lossy()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder with a worktree `wt` and, beside it, the main checkout `main`.
    fn two_checkouts() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for checkout in ["wt", "main"] {
            fs::create_dir_all(dir.path().join(checkout).join("src")).unwrap();
            fs::write(dir.path().join(checkout).join("src/a.rs"), "x").unwrap();
        }
        fs::write(dir.path().join("wt/.git"), "gitdir: elsewhere").unwrap();
        let root = Root::open(&dir.path().join("wt")).unwrap();
        (dir, root)
    }

    #[test]
    fn relative_and_absolute_paths_lead_to_the_same_place() {
        let (_dir, root) = two_checkouts();
        let absolute = root.path().join("src/a.rs");
        for given in ["src/a.rs", "./src//a.rs", "src/../src/a.rs", "src/./a.rs/", absolute.to_str().unwrap()] {
            let place = root.resolve(given).unwrap();
            assert_eq!((place.real.as_path(), place.shown.as_str()), (absolute.as_path(), "src/a.rs"), "{given}");
        }
        assert_eq!(root.resolve(".").unwrap().shown, ".");
        assert_eq!(root.resolve("not/there/yet").unwrap().shown, "not/there/yet");
    }

    #[test]
    fn the_worktree_may_be_named_through_a_link() {
        let (dir, root) = two_checkouts();
        symlink(dir.path().join("wt"), dir.path().join("alias")).unwrap();
        let given = dir.path().join("alias/src/new.rs");
        assert_eq!(root.resolve(given.to_str().unwrap()).unwrap().shown, "src/new.rs");
        let by_alias = Root::open(&dir.path().join("alias")).unwrap();
        assert_eq!(by_alias.path(), root.path());
    }

    #[test]
    fn b112_paths_of_the_main_checkout_are_refused_and_the_right_one_is_named() {
        let (dir, root) = two_checkouts();
        let main = dir.path().canonicalize().unwrap().join("main/src/a.rs");
        for given in [main.to_str().unwrap(), "../main/src/a.rs", "src/../../main/src/a.rs"] {
            let error = root.resolve(given).unwrap_err();
            assert!(error.contains(root.path().to_str().unwrap()), "{error}");
            assert!(error.ends_with("Did you mean `src/a.rs`?"), "{error}");
        }
        assert!(root.resolve("/etc/passwd").unwrap_err().contains("outside of the worktree. Your files are in"));
        assert!(root.resolve("/").is_err());
        assert!(root.resolve("..").is_err());
    }

    #[test]
    fn b112_links_that_lead_out_are_refused_wherever_they_stand() {
        let (dir, root) = two_checkouts();
        let main = dir.path().join("main");
        symlink(&main, root.path().join("folder")).unwrap();
        symlink(main.join("src/a.rs"), root.path().join("file")).unwrap();
        symlink(main.join("not-yet"), root.path().join("dangling")).unwrap();
        symlink("../main", root.path().join("relative")).unwrap();
        symlink("folder", root.path().join("two-steps")).unwrap();
        for given in [
            "folder/src/a.rs",
            "folder/new/deep",
            "file",
            "dangling",
            "relative/src/a.rs",
            "two-steps/x",
            "src/../folder/x",
            "folder/../main/src/a.rs",
        ] {
            let error = root.resolve(given).unwrap_err();
            assert!(error.contains("outside of the worktree"), "{given}: {error}");
        }
        assert!(root.resolve("file").unwrap_err().contains("symbolic link leads out"));
    }

    #[test]
    fn links_inside_lead_to_their_targets() {
        let (_dir, root) = two_checkouts();
        symlink("src/a.rs", root.path().join("link")).unwrap();
        symlink("src", root.path().join("dir")).unwrap();
        symlink("src/later.rs", root.path().join("dangling")).unwrap();
        assert_eq!(root.resolve("link").unwrap().shown, "src/a.rs");
        assert_eq!(root.resolve("dir/b.rs").unwrap().shown, "src/b.rs");
        assert_eq!(root.resolve("dangling").unwrap().shown, "src/later.rs");
        // `..` after a link is the parent of its target, as for the kernel.
        assert_eq!(root.resolve("dir/../src/a.rs").unwrap().shown, "src/a.rs");
    }

    #[test]
    fn loops_nul_and_nothing_are_errors() {
        let (_dir, root) = two_checkouts();
        symlink("round", root.path().join("round")).unwrap();
        assert!(root.resolve("round/x").unwrap_err().contains("loop"));
        assert!(root.resolve("a\0b").unwrap_err().contains("NUL"));
        assert!(root.resolve(&"x/".repeat(3_000)).unwrap_err().contains("too long"));
        assert!(root.resolve("~/x").unwrap_err().contains("not the home directory"));
        assert_eq!(root.resolve("a~/~x").unwrap().shown, "a~/~x");
        assert!(root.resolve("  ").unwrap_err().contains("empty"));
    }

    #[test]
    fn git_is_not_theirs() {
        let (_dir, root) = two_checkouts();
        symlink(".git", root.path().join("innocent")).unwrap();
        for given in [".git", ".git/config", "src/../.git/hooks/x", ".GIT/config", "sub/.git/config", "innocent"] {
            assert!(root.resolve(given).unwrap_err().contains("belongs to git"), "{given}");
        }
        for given in [".gitignore", ".github/workflows/ci.yml", "src/x.git"] {
            assert!(root.resolve(given).is_ok(), "{given}");
        }
    }

    #[test]
    fn b114_a_worktree_that_is_gone_or_replaced_is_noticed() {
        let (dir, root) = two_checkouts();
        assert!(root.check().is_ok());
        fs::remove_file(root.path().join(".git")).unwrap();
        assert!(root.check().unwrap_err().contains("is gone"));
        fs::rename(dir.path().join("wt"), dir.path().join("old")).unwrap();
        assert!(root.check().is_err());
        fs::create_dir(dir.path().join("wt")).unwrap();
        fs::write(dir.path().join("wt/.git"), "").unwrap();
        assert!(root.check().is_err());
    }

    proptest! {
        /// Whatever the model writes, a resolved path is in the worktree, and so is what the kernel makes of it.
        #[test]
        fn nothing_leads_out(parts in proptest::collection::vec(
            prop_oneof![Just(".."), Just("."), Just("src"), Just("in"), Just("out"), Just("up"), Just("new"), Just("/")],
            0..8,
        )) {
            let (dir, root) = two_checkouts();
            symlink("src", root.path().join("in")).unwrap();
            symlink(dir.path().join("main"), root.path().join("out")).unwrap();
            symlink("../..", root.path().join("src/up")).unwrap();
            let given = parts.join("/");
            if let Ok(place) = root.resolve(&given) {
                prop_assert!(place.real.starts_with(root.path()));
                if let Ok(real) = place.real.canonicalize() {
                    prop_assert!(real.starts_with(root.path()), "{given} is {}", real.display());
                    prop_assert_eq!(real, place.real);
                }
            }
        }
    }
}
