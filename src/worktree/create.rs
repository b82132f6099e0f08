//! Makes a worktree: all of it or nothing.

use super::Repository;
use super::git::{ALL_FILES, Git, QUICK};
use super::pinned::Pinned;
use super::registration::lock;
use super::repository::in_background;
use super::site::Site;
use super::snapshot::keep_index;
use crate::process::Environment;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct NewWorktree<'a> {
    /// Where; must not exist, or be an empty folder. Folders above it are made.
    pub path: &'a Path,
    /// The branch to make for it.
    pub branch: &'a str,
    /// The branch may be there already: it is checked out as it is. It must not be checked out elsewhere.
    pub goes_on: bool,
    /// The full id of the commit that it starts from.
    pub base: &'a str,
    /// Whose it is: `runner RUN/JOB pid N`. It becomes git's lock reason, so that nobody prunes the worktree.
    pub owner: &'a str,
    /// What git runs with, less its own variables.
    pub env: &'a Environment,
    /// Gives the making up. It does not end what is done with the worktree later.
    pub cancel: &'a CancellationToken,
}

/// A folder that one job may change as it likes.
///
/// Nothing happens when it is dropped: it must be given to [`Worktree::remove`] or [`Worktree::unlock`].
#[derive(Debug)]
pub struct Worktree {
    pub(super) path: PathBuf,
    /// The folder with what is this worktree's own in the repository.
    pub(super) admin: PathBuf,
    pub(super) common_dir: PathBuf,
    pub(super) branch: String,
    pub(super) base: String,
    /// Knows the repository and the worktree, whatever lies in the folder.
    pub(super) git: Git,
    /// What decided what git stores of a file, when the agent had not begun.
    pub(super) pinned: Pinned,
}

impl Worktree {
    /// Makes a worktree with a new branch.
    ///
    /// Left-overs of killed runs are struck off before. When it fails, folder, registration and branch are gone again.
    ///
    /// # Errors
    /// Says in words what is in the way or what git objects to.
    pub async fn create(repo: &Repository, new: NewWorktree<'_>) -> Result<Self, String> {
        if new.cancel.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        let git = git_for(repo, &new).await?;
        let site = Site::of(repo, &new)?;
        let (worktree, site) = {
            let _lock = lock(repo.common_dir(), new.cancel).await?;
            let site = in_background(move || site.prepare()).await?;
            match site.register(&git, repo, &new).await {
                Ok(worktree) => (worktree, site),
                Err(error) => return Err(site.undone(error).await),
            }
        };
        match worktree.check_out(new.cancel).await {
            Ok(()) => Ok(worktree),
            Err(error) => {
                // A lock that cannot be had is no reason to leave things behind.
                let _lock = lock(repo.common_dir(), &CancellationToken::new()).await;
                Err(site.undone(error).await)
            }
        }
    }

    /// Where it is: absolute, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The commit that it started from.
    pub fn base(&self) -> &str {
        &self.base
    }

    async fn check_out(&self, cancel: &CancellationToken) -> Result<(), String> {
        // What `worktree add` does itself, but outside the lock.
        let args = ["reset", "--hard", "--quiet", "--no-recurse-submodules"];
        self.git.run(&self.path, &args, ALL_FILES, cancel).await?;
        let admin = self.admin.clone();
        in_background(move || keep_index(&admin)).await
    }

    /// Settings of git that decide what is stored of a file, as they were before the agent.
    pub fn pinned(&self) -> &std::collections::BTreeMap<String, String> {
        self.pinned.values()
    }

    /// The repository, open. Blocks for a moment.
    pub(super) fn open(common_dir: &Path) -> Result<git2::Repository, String> {
        git2::Repository::open(common_dir).map_err(|error| format!("cannot open the repository: {}", error.message()))
    }
}

/// Git as this repository needs it.
pub(super) async fn git_for(repo: &Repository, new: &NewWorktree<'_>) -> Result<Git, String> {
    let git = Git::new(new.env);
    let wants_lfs = repo.open()?.config().is_ok_and(|config| {
        ["filter.lfs.process", "filter.lfs.smudge"].iter().any(|key| config.get_entry(key).is_ok())
    });
    if !wants_lfs {
        return Ok(git);
    }
    let in_path =
        git.env().get("PATH").unwrap_or_default().split(':').any(|dir| Path::new(dir).join("git-lfs").is_file());
    if in_path || git.run(repo.root(), &["lfs", "version"], QUICK, new.cancel).await.is_ok() {
        return Ok(git);
    }
    repo.note("the program `git-lfs` is missing, so files in Git LFS stay pointers");
    Ok(git.without_lfs())
}
