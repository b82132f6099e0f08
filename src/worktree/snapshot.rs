//! The state of the files as a tree object, taken without touching the agent's index.

use super::Worktree;
use super::git::{ALL_FILES, Git, GitError};
use super::remove::is_there;
use super::repository::in_background;
use git2::{Delta, Index, Oid, Repository, Tree};
use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Our index of the worktree, beside its own. It is made from the fresh checkout and only ever changed by snapshots, so
/// flags that an agent sets in its own (`assume-unchanged`) hide nothing, and what did not change is not read again.
pub(super) const KEPT_INDEX: &str = "runner-index";

/// What git says of an embedded repository without a commit, which it cannot take in.
const EMPTY_REPOSITORY: &str = "does not have a commit checked out";

/// The id of a tree object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeId(pub(super) String);

impl TreeId {
    /// From a full id in hexadecimal; whether there is such a tree shows when it is used.
    ///
    /// # Errors
    /// Says that it is none.
    pub fn new(id: &str) -> Result<Self, String> {
        Oid::from_str(id).map(|id| Self(id.to_string())).map_err(|_| format!("`{id}` is not the id of a tree"))
    }

    /// The full id in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tree. Blocks for a moment.
    pub(super) fn find<'repo>(&self, repo: &'repo Repository) -> Result<Tree<'repo>, String> {
        let found = Oid::from_str(&self.0).and_then(|id| repo.find_tree(id));
        found.map_err(|error| format!("cannot read the tree {}: {}", self.0, error.message()))
    }
}

impl Worktree {
    /// Takes the state of all files, new ones included, ignored ones not.
    ///
    /// # Errors
    /// Says in words that the folder is gone or that a file cannot be read.
    pub async fn snapshot(&self) -> Result<TreeId, String> {
        let index = self.private_index().await?;
        let (index, tree) = match self.take(&index).await {
            Ok(tree) => (index, tree),
            Err(error) => {
                // The agent may have thrown away objects that our index names (`git gc --prune=now`): read all files anew.
                drop(index);
                let index = self.private_index().await?;
                let again = self.take_anew(&index).await;
                (index, again.map_err(|_| error)?)
            }
        };
        in_background(move || index.keep()).await?;
        Ok(tree)
    }

    async fn take_anew(&self, index: &PrivateIndex) -> Result<TreeId, String> {
        let git = self.git.with("GIT_INDEX_FILE", index.path());
        git.run(&self.path, &["read-tree", "--reset", &self.base], ALL_FILES, &CancellationToken::new()).await?;
        self.take(index).await
    }

    /// The git program, with the settings of the time before the agent.
    pub(super) async fn held_git(&self) -> Result<Git, String> {
        let (pinned, git, common_dir) = (self.pinned.clone(), self.git.clone(), self.common_dir.clone());
        in_background(move || Ok(pinned.hold(&git, &common_dir))).await
    }

    async fn take(&self, index: &PrivateIndex) -> Result<TreeId, String> {
        const ADD: &[&str] = &["add", "--all", "--sparse", "--ignore-errors"];
        let git = self.held_git().await?.with("GIT_INDEX_FILE", index.path());
        let cancel = CancellationToken::new();
        git.run(&self.path, ADD, ALL_FILES, &cancel).await.map(drop).or_else(only_empty_repositories)?;
        let (common_dir, index) = (self.common_dir.clone(), index.path().to_owned());
        in_background(move || {
            let repo = Self::open(&common_dir)?;
            let tree = Index::open(&index).and_then(|mut index| index.write_tree_to(&repo));
            tree.map(|id| TreeId(id.to_string())).map_err(|error| format!("cannot write a tree: {}", error.message()))
        })
        .await
    }

    /// The paths that differ between two snapshots, sorted, relative to the root; a renamed file counts as two.
    ///
    /// Names that are not UTF-8 are shown with U+FFFD.
    ///
    /// # Errors
    /// Says in words that a tree cannot be read.
    pub async fn changed_paths(&self, from: &TreeId, to: &TreeId) -> Result<Vec<String>, String> {
        self.paths(from, to, |_| true).await
    }

    /// Those of the changed paths that the first snapshot holds: what was altered or deleted, not what was added.
    ///
    /// # Errors
    /// Says in words that a tree cannot be read.
    pub async fn altered_paths(&self, from: &TreeId, to: &TreeId) -> Result<Vec<String>, String> {
        self.paths(from, to, |kind| kind != Delta::Added).await
    }

    async fn paths(&self, from: &TreeId, to: &TreeId, wanted: fn(Delta) -> bool) -> Result<Vec<String>, String> {
        let (common_dir, from, to) = (self.common_dir.clone(), from.clone(), to.clone());
        in_background(move || {
            let repo = Self::open(&common_dir)?;
            let (from, to) = (from.find(&repo)?, to.find(&repo)?);
            let diff =
                repo.diff_tree_to_tree(Some(&from), Some(&to), None).map_err(|error| error.message().to_owned())?;
            let mut paths = BTreeSet::new();
            for delta in diff.deltas().filter(|delta| wanted(delta.status())) {
                for bytes in [delta.old_file().path_bytes(), delta.new_file().path_bytes()].into_iter().flatten() {
                    paths.insert(String::from_utf8_lossy(bytes).into_owned());
                }
            }
            Ok(paths.into_iter().collect())
        })
        .await
    }

    /// An index for one use.
    pub(super) async fn private_index(&self) -> Result<PrivateIndex, String> {
        let (path, admin) = (self.path.clone(), self.admin.clone());
        in_background(move || {
            if !is_there(&path) {
                return Err(format!("the worktree {} is gone", path.display()));
            }
            PrivateIndex::of(&admin)
        })
        .await
    }
}

/// An error is none when it tells of nothing but empty repositories.
fn only_empty_repositories(error: GitError) -> Result<(), String> {
    let empty = error.said.contains(EMPTY_REPOSITORY);
    let others = error
        .said
        .lines()
        .any(|line| line.starts_with("fatal:") || (line.starts_with("error:") && !line.contains(EMPTY_REPOSITORY)));
    if empty && !others { Ok(()) } else { Err(error.into()) }
}

/// Keeps a copy of the fresh index for us.
pub(super) fn keep_index(admin: &Path) -> Result<(), String> {
    copy(&admin.join("index"), &admin.join(KEPT_INDEX))
}

/// A copy of our index that is gone, with its lock file, when it is dropped.
#[derive(Debug)]
pub(super) struct PrivateIndex(PathBuf);

impl PrivateIndex {
    fn of(admin: &Path) -> Result<Self, String> {
        let cannot = |error: std::io::Error| format!("cannot make an index in {}: {error}", admin.display());
        // The file only reserves the name: git replaces it.
        let file = tempfile::Builder::new().prefix("runner-index-").tempfile_in(admin).map_err(cannot)?;
        let (_, path) = file.keep().map_err(|error| cannot(error.error))?;
        let index = Self(path);
        copy(&admin.join(KEPT_INDEX), &index.0)?;
        Ok(index)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it the index that later ones are copied from.
    fn keep(self) -> Result<(), String> {
        let kept = self.0.with_file_name(KEPT_INDEX);
        fs::rename(&self.0, &kept).map_err(|error| format!("cannot write {}: {error}", kept.display()))
    }
}

impl Drop for PrivateIndex {
    fn drop(&mut self) {
        let mut lock = self.0.clone().into_os_string();
        lock.push(".lock");
        drop(fs::remove_file(&self.0));
        drop(fs::remove_file(lock));
    }
}

/// Copies an index with its time: files changed in the second of that time are looked at again, so a later time would
/// hide changes.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = fs::copy(from, to).and_then(|_| {
        let times = FileTimes::new().set_modified(from.metadata()?.modified()?);
        File::options().write(true).open(to)?.set_times(times)
    });
    copied.map_err(|error| format!("cannot copy {}: {error}", from.display()))
}
