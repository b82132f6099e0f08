//! The end of a worktree.

use super::Worktree;
use super::git::QUICK;
use super::registration::{Registration, delete_folder, lock};
use super::repository::in_background;
use super::snapshot::KEPT_INDEX;
use git2::Oid;
use std::fs;
use std::path::Path;
use tokio_util::sync::CancellationToken;

impl Worktree {
    /// Whether the folder is there and still this worktree.
    pub async fn intact(&self) -> bool {
        let (path, admin) = (self.path.clone(), self.admin.clone());
        in_background(move || Ok(is_there(&path) && leads_to(&path, &admin))).await.unwrap_or_default()
    }

    /// Leaves it to the person: our lock comes off, and its index agrees with what was committed.
    pub async fn unlock(&self) {
        if self.intact().await && self.has_own_branch_out() {
            // Only for the looks of `git status`.
            drop(self.git.run(&self.path, &["reset", "--quiet"], QUICK, &CancellationToken::new()).await);
        }
        for name in ["locked", KEPT_INDEX] {
            drop(fs::remove_file(self.admin.join(name)));
        }
    }

    /// Removes the folder and the registration, and the branch when nothing was committed on it.
    ///
    /// # Errors
    /// Says in words what could not be removed.
    pub async fn remove(&self) -> Result<(), String> {
        let lock = lock(&self.common_dir, &CancellationToken::new()).await?;
        let (path, admin, common_dir) = (self.path.clone(), self.admin.clone(), self.common_dir.clone());
        let (branch, base) = (self.branch.clone(), self.base.clone());
        in_background(move || {
            let _lock = lock;
            delete_folder(&path)?;
            let registrations = Registration::all(&common_dir);
            if let Some(ours) = registrations.into_iter().find(|one| one.admin == admin) {
                ours.strike()?;
            }
            let base = Oid::from_str(&base).map_err(|error| error.message().to_owned())?;
            delete_untouched_branch(&Self::open(&common_dir)?, &branch, base);
            Ok(())
        })
        .await
    }

    fn has_own_branch_out(&self) -> bool {
        let head = fs::read_to_string(self.admin.join("HEAD")).unwrap_or_default();
        head.trim().strip_prefix("ref: refs/heads/") == Some(self.branch.as_str())
    }
}

/// Deletes a branch that points where it began, and that nobody has checked out. Failing leaves a name too many, no more.
pub(super) fn delete_untouched_branch(repo: &git2::Repository, branch: &str, base: Oid) {
    let Ok(mut reference) = repo.find_reference(&format!("refs/heads/{branch}")) else { return };
    let held = Registration::all(repo.commondir()).iter().any(|one| one.branch.as_deref() == Some(branch));
    let is_head = repo.head().is_ok_and(|head| head.name_bytes() == reference.name_bytes());
    if reference.target() == Some(base) && !held && !is_head {
        drop(reference.delete());
    }
}

/// Whether the folder is a real one, where it should be.
pub(super) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.is_dir()) && path.canonicalize().is_ok_and(|real| real == path)
}

/// Whether its `.git` leads to the folder that the repository keeps for it, and that one exists.
pub(super) fn leads_to(path: &Path, admin: &Path) -> bool {
    let text = fs::read_to_string(path.join(".git")).unwrap_or_default();
    let target = text.trim_end().strip_prefix("gitdir: ").map(|target| path.join(target));
    target.and_then(|target| target.canonicalize().ok()).is_some_and(|target| target == admin)
}
