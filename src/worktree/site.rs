//! The place of a worktree before it is one: clearing it, registering it, taking that back.

use super::git::{Git, QUICK};
use super::pinned::Pinned;
use super::registration::{Registration, delete_folder, resolved};
use super::remove::delete_untouched_branch;
use super::repository::in_background;
use super::{NewWorktree, Repository, Worktree};
use git2::BranchType;
use std::fs;
use std::path::PathBuf;

/// Where a worktree is to be.
#[derive(Clone, Debug)]
pub(super) struct Site {
    path: PathBuf,
    common_dir: PathBuf,
    branch: String,
    base: git2::Oid,
    owner: String,
    goes_on: bool,
}

impl Site {
    /// Checks what can be checked without looking.
    pub(super) fn of(repo: &Repository, new: &NewWorktree<'_>) -> Result<Self, String> {
        let absolute = std::path::absolute(new.path);
        let path = absolute.map_err(|error| format!("cannot use {} for a worktree: {error}", new.path.display()))?;
        if path.to_str().is_none() || repo.common_dir().to_str().is_none() {
            return Err(format!("cannot use {} for a worktree: its name is not UTF-8", path.display()));
        }
        if !git2::Branch::name_is_valid(new.branch).unwrap_or_default() {
            return Err(format!("`{}` cannot be the name of a branch", new.branch));
        }
        let base = git2::Oid::from_str(new.base).map_err(|_| format!("`{}` is not the id of a commit", new.base))?;
        let (common_dir, branch, owner) = (repo.common_dir().to_owned(), new.branch.into(), new.owner.into());
        Ok(Self { path: resolved(&path), common_dir, branch, base, owner, goes_on: new.goes_on })
    }

    /// Clears what is left over, looks for what is in the way, makes the folders above.
    pub(super) fn prepare(mut self) -> Result<Self, String> {
        let repo = Worktree::open(&self.common_dir)?;
        for old in Registration::all(&self.common_dir) {
            if old.is_left_over(&self.owner) {
                old.strike()?;
                if old.branch.as_ref() == Some(&self.branch) {
                    self.delete_untouched_branch(&repo);
                }
            }
        }
        self.check_branch(&repo)?;
        let cannot = |error: std::io::Error| format!("cannot make the worktree {}: {error}", self.path.display());
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(format!("cannot make the worktree {}: it needs a name", self.path.display()));
        };
        fs::create_dir_all(parent).map_err(cannot)?;
        let path = parent.canonicalize().map_err(cannot)?.join(name);
        match fs::read_dir(&path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Ok(false) => return Err(format!("the folder {} exists already and is not empty", path.display())),
            Err(error) => return Err(cannot(error)),
        }
        self.path = path;
        Ok(self)
    }

    fn check_branch(&self, repo: &git2::Repository) -> Result<(), String> {
        let Ok(branch) = repo.find_branch(&self.branch, BranchType::Local) else { return Ok(()) };
        let main = repo.workdir().filter(|_| branch.is_head()).map(|root| root.components().collect());
        let others = Registration::all(&self.common_dir).into_iter();
        let other = others.into_iter().find(|other| other.branch.as_ref() == Some(&self.branch));
        let holder = main.or(other.map(|other| other.folder));
        if self.goes_on && holder.is_none() {
            return Ok(());
        }
        let held = holder.map_or_else(String::new, |folder| format!(" and is checked out in {}", folder.display()));
        Err(format!(
            "the branch `{}` exists already{held}: delete it, or name another with `branch` in `[worktree]`",
            self.branch
        ))
    }

    /// Makes the branch and the registration, with an empty folder.
    pub(super) async fn register(
        &self,
        git: &Git,
        repo: &Repository,
        new: &NewWorktree<'_>,
    ) -> Result<Worktree, String> {
        let path = self.path.to_string_lossy();
        let mut args = vec!["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", &self.owner];
        let is_there = self.goes_on && repo.open()?.find_branch(&self.branch, BranchType::Local).is_ok();
        if is_there {
            args.extend(["--", &path, &self.branch]);
        } else {
            args.extend(["--no-track", "-b", &self.branch, "--", &path, new.base]);
        }
        let at_repo = git.with("GIT_DIR", &self.common_dir);
        at_repo.run(repo.root(), &args, QUICK, new.cancel).await?;
        let found = Registration::all(&self.common_dir).into_iter().find(|one| one.folder == self.path);
        let Some(registration) = found else {
            return Err(format!("git made the worktree {} but does not know it", self.path.display()));
        };
        let git = git.with("GIT_DIR", &registration.admin).with("GIT_WORK_TREE", &self.path);
        Ok(Worktree {
            path: self.path.clone(),
            admin: registration.admin,
            common_dir: self.common_dir.clone(),
            branch: self.branch.clone(),
            base: new.base.to_owned(),
            git,
            pinned: Pinned::read(&self.common_dir),
        })
    }

    /// Takes back what was made; gives back the error that made it necessary, with what could not be taken back.
    pub(super) async fn undone(&self, error: String) -> String {
        let site = self.clone();
        match in_background(move || site.undo()).await {
            Ok(()) => error,
            Err(more) => format!("{error}; {more}"),
        }
    }

    fn undo(&self) -> Result<(), String> {
        let made = Registration::all(&self.common_dir).into_iter().find(|one| one.folder == self.path);
        if let Some(registration) = made {
            delete_folder(&self.path)?;
            registration.strike()?;
        } else {
            // Only an empty one is ours for certain.
            drop(fs::remove_dir(&self.path));
        }
        self.delete_untouched_branch(&Worktree::open(&self.common_dir)?);
        Ok(())
    }

    fn delete_untouched_branch(&self, repo: &git2::Repository) {
        delete_untouched_branch(repo, &self.branch, self.base);
    }
}
