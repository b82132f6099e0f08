//! What a repository knows about its worktrees: one folder for each, in `worktrees` of the common folder.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Held while a worktree is registered or struck off: git's own commands trip over each other there.
const LOCK: &str = "runner-worktrees.lock";

/// How long to wait for it. Registering one takes some 20 ms, so hundreds may queue.
const LOCK_LIMIT: Duration = Duration::from_mins(1);

/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What the lock reasons of our worktrees begin with.
const OURS: &str = "runner ";

/// A registered worktree.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    /// Its folder below the common folder.
    pub admin: PathBuf,
    /// Where it is.
    pub folder: PathBuf,
    /// Why it is locked, when it is.
    pub reason: Option<String>,
    /// The branch that it has checked out, without `refs/heads/`.
    pub branch: Option<String>,
}

impl Registration {
    /// All of a repository. One that cannot be read is left out.
    pub(super) fn all(common_dir: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(common_dir.join("worktrees")) else { return Vec::new() };
        entries.flatten().filter_map(|entry| Self::read(&entry.path())).collect()
    }

    fn read(admin: &Path) -> Option<Self> {
        let git_file = PathBuf::from(fs::read_to_string(admin.join("gitdir")).ok()?.trim_end_matches('\n'));
        let git_file = if git_file.is_absolute() { git_file } else { resolved(&admin.join(git_file)) };
        let head = fs::read_to_string(admin.join("HEAD")).unwrap_or_default();
        Some(Self {
            admin: admin.to_owned(),
            folder: git_file.parent()?.to_owned(),
            reason: fs::read_to_string(admin.join("locked")).ok().map(|text| text.trim().to_owned()),
            branch: head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned),
        })
    }

    /// Whether it is left over from a run that was killed: one of ours, its process dead, its folder gone. What has a
    /// folder may hold work and is never taken for left over.
    pub(super) fn is_left_over(&self, owner: &str) -> bool {
        let Some(reason) = self.reason.as_deref().filter(|reason| reason.starts_with(OURS)) else { return false };
        !self.folder.exists() && !is_alive(reason, owner)
    }

    /// Strikes it off.
    pub(super) fn strike(&self) -> Result<(), String> {
        delete_folder(&self.admin)?;
        if let Some(parent) = self.admin.parent() {
            // Fails when there are others, which is right.
            drop(fs::remove_dir(parent));
        }
        Ok(())
    }
}

/// Whether the process behind a lock reason (`runner RUN/JOB pid N`) lives. In doubt it does.
fn is_alive(reason: &str, owner: &str) -> bool {
    let Some((run, pid)) = split(reason) else { return true };
    if split(owner).is_some_and(|(our_run, our_pid)| our_pid == pid && our_run != run) {
        // The number is ours now: usual in containers, where numbers begin anew.
        return false;
    }
    let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) else { return true };
    test_kill_process(pid) != Err(Errno::SRCH)
}

/// The run and the process number of a lock reason.
fn split(reason: &str) -> Option<(&str, &str)> {
    let (job, pid) = reason.strip_prefix(OURS)?.rsplit_once(" pid ")?;
    Some((job.split('/').next().unwrap_or(job), pid))
}

/// Waits for the registration lock; it is free again when the file is dropped.
pub(super) async fn lock(common_dir: &Path, cancel: &CancellationToken) -> Result<File, String> {
    let path = common_dir.join(LOCK);
    let cannot = |error: &dyn std::fmt::Display| format!("cannot lock {}: {error}", path.display());
    let file = File::options().create(true).append(true).open(&path).map_err(|error| cannot(&error))?;
    let waiting = async {
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(cannot(&error)),
            }
        }
    };
    tokio::select! {
        () = cancel.cancelled() => return Err("cancelled".to_owned()),
        result = timeout(LOCK_LIMIT, waiting) => {
            result.unwrap_or_else(|_| Err(cannot(&"another process has held it for a minute")))?;
        }
    }
    Ok(file)
}

/// Deletes a folder with all that is in it, write-protected folders too; none is fine.
pub(super) fn delete_folder(path: &Path) -> Result<(), String> {
    let mut result = fs::remove_dir_all(path);
    if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        make_writable(path);
        result = fs::remove_dir_all(path);
    }
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("cannot delete {}: {error}", path.display())),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lets us into every folder below. Links are not followed.
fn make_writable(folder: &Path) {
    let Ok(about) = folder.symlink_metadata() else { return };
    if !about.is_dir() {
        return;
    }
    let mut permissions = about.permissions();
    permissions.set_mode(permissions.mode() | 0o700);
    // A failure shows when the folder is deleted.
    drop(fs::set_permissions(folder, permissions));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        make_writable(&entry.path());
    }
}

/// Without `..`, for a path whose end may be gone.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir {
            out.pop();
        } else {
            out.push(part);
        }
    }
    out
}
