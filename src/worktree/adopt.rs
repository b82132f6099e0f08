//! Takes over the worktree of a run that has died.

use super::create::git_for;
use super::git::ALL_FILES;
use super::pinned::Pinned;
use super::registration::{Registration, lock};
use super::remove::{is_there, leads_to};
use super::repository::in_background;
use super::snapshot::KEPT_INDEX;
use super::{NewWorktree, Repository, Worktree};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

impl Repository {
    /// Removes the locks that a killed process has left on references which are this run's alone.
    pub fn free_references(&self, names: &[&str]) {
        for name in names {
            drop(fs::remove_file(self.common_dir().join(format!("{name}.lock"))));
        }
    }
}

impl Worktree {
    /// Takes over the worktree that is wanted, if it is there as a whole; nobody else may be at work in it any more.
    ///
    /// What is left of it is made room of when it is not whole: a registration without its folder is struck off, and a folder that has lost
    /// its repository is put aside under another name, which is given back. [`Worktree::create`] can make it anew then.
    ///
    /// # Errors
    /// Says in words what could not be done.
    pub async fn adopt(
        repo: &Repository,
        old: NewWorktree<'_>,
        pinned: BTreeMap<String, String>,
    ) -> Result<Adopted, String> {
        let git = git_for(repo, &old).await?;
        let common_dir = repo.common_dir().to_owned();
        let (path, owner) = (old.path.to_owned(), old.owner.to_owned());
        let found = {
            let lock = lock(repo.common_dir(), old.cancel).await?;
            in_background(move || {
                let _lock = lock;
                take_over(&common_dir, &path, &owner)
            })
            .await?
        };
        let (path, admin) = match found {
            Found::Whole { path, admin } => (path, admin),
            Found::Gone { aside } => return Ok(Adopted::Gone { aside }),
        };
        let git = git.with("GIT_DIR", &admin).with("GIT_WORK_TREE", &path);
        let kept = admin.join(KEPT_INDEX);
        if !kept.is_file() {
            let git = git.with("GIT_INDEX_FILE", &kept);
            git.run(&path, &["read-tree", old.base], ALL_FILES, old.cancel).await?;
        }
        Ok(Adopted::Whole(Self {
            path,
            admin,
            common_dir: repo.common_dir().to_owned(),
            branch: old.branch.to_owned(),
            base: old.base.to_owned(),
            git,
            pinned: Pinned::kept(pinned),
        }))
    }

    /// Holds it to settings of git that were kept: those of the time before the agent.
    #[must_use]
    pub fn held_to(self, pinned: BTreeMap<String, String>) -> Self {
        Self { pinned: Pinned::kept(pinned), ..self }
    }
}

/// What came of it.
#[derive(Debug)]
pub enum Adopted {
    /// It is ours.
    Whole(Worktree),
    /// It is not there as a whole.
    Gone {
        /// Where the folder is now that was in its place.
        aside: Option<PathBuf>,
    },
}

enum Found {
    Whole { path: PathBuf, admin: PathBuf },
    Gone { aside: Option<PathBuf> },
}

fn take_over(common_dir: &Path, path: &Path, owner: &str) -> Result<Found, String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let known = Registration::all(common_dir).into_iter().find(|one| one.folder == path);
    if let Some(known) = &known
        && is_there(&path)
        && leads_to(&path, &known.admin)
    {
        remove_locks(&known.admin);
        let file = known.admin.join("locked");
        fs::write(&file, format!("{owner}\n")).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        return Ok(Found::Whole { path, admin: known.admin.clone() });
    }
    let aside = if path.symlink_metadata().is_ok() { put_aside(&path)? } else { None };
    if let Some(known) = known {
        known.strike()?;
    }
    Ok(Found::Gone { aside })
}

/// Git programs that were killed have left their locks.
fn remove_locks(admin: &Path) {
    for entry in fs::read_dir(admin).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "lock") {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// An empty folder just goes.
fn put_aside(path: &Path) -> Result<Option<PathBuf>, String> {
    if fs::remove_dir(path).is_ok() {
        return Ok(None);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let free = (1..=u32::MAX).map(|number| path.with_file_name(format!("{name}.aside-{number}")));
    let Some(aside) = free.into_iter().find(|place| place.symlink_metadata().is_err()) else { return Ok(None) };
    fs::rename(path, &aside).map_err(|error| format!("cannot put {} aside: {error}", path.display()))?;
    Ok(Some(aside))
}
