//! The repository that jobs take their files from.

use git2::{ErrorCode, Status, StatusOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A repository on this machine. It is opened anew for each question: nothing is held between them.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
    common_dir: PathBuf,
    notes: Mutex<Vec<String>>,
}

impl Repository {
    /// Finds the repository around a folder.
    ///
    /// # Errors
    /// Says in words that there is none, that it belongs to somebody else, or that it cannot be read.
    pub async fn discover(start: &Path) -> Result<Self, String> {
        let start = start.to_owned();
        in_background(move || {
            let none: [&str; 0] = [];
            let repo = git2::Repository::open_ext(&start, git2::RepositoryOpenFlags::empty(), none)
                .map_err(|error| cannot_open(&start, &error))?;
            Self::around(&repo, notes(&repo))
        })
        .await
    }

    /// The repository that is open.
    pub(super) fn around(repo: &git2::Repository, notes: Vec<String>) -> Result<Self, String> {
        let real =
            |path: &Path| path.canonicalize().map_err(|error| format!("cannot read {}: {error}", path.display()));
        let root = real(repo.workdir().unwrap_or_else(|| repo.path()))?;
        Ok(Self { root, common_dir: real(repo.commondir())?, notes: Mutex::new(notes) })
    }

    /// The root of its checkout, for a bare one its own folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder with what all its worktrees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The full id of the commit that a name stands for.
    ///
    /// # Errors
    /// Says in words that the repository has no commit yet, or none of this name.
    pub fn resolve(&self, base: &str) -> Result<String, String> {
        let repo = self.open()?;
        let shown = self.root.display();
        let found = repo.revparse_single(base).and_then(|object| object.peel_to_commit());
        let error = match found {
            Ok(commit) => return Ok(commit.id().to_string()),
            Err(error) => error,
        };
        if repo.head().is_err_and(|error| error.code() == ErrorCode::UnbornBranch) {
            return Err(format!("the repository {shown} has no commit yet, so there is nothing to start from"));
        }
        let hint = if error.code() == ErrorCode::Ambiguous {
            "; it is ambiguous: write more of it".to_owned()
        } else if repo.revparse_single(&format!("origin/{base}")).is_ok() {
            format!("; there is `origin/{base}`")
        } else if repo.is_shallow() {
            "; the clone is shallow and may lack it: fetch it, or a deeper history".to_owned()
        } else {
            String::new()
        };
        Err(format!("`{base}` names no commit in the repository {shown}{hint}"))
    }

    /// What a reader of the report should know about it; empty when there is nothing of note.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a note, once.
    pub(super) fn note(&self, text: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.iter().any(|note| note == text) {
            notes.push(text.to_owned());
        }
    }

    /// Opens it. Blocks for a moment.
    pub(super) fn open(&self) -> Result<git2::Repository, String> {
        git2::Repository::open(&self.root).map_err(|error| cannot_open(&self.root, &error))
    }
}

/// Runs what blocks where it holds nobody up.
pub(super) async fn in_background<T, F>(work: F) -> Result<T, String>
where
    F: FnOnce() -> Result<T, String> + Send + 'static,
    T: Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(format!("the work on the repository broke off: {error}")),
    }
}

fn cannot_open(path: &Path, error: &git2::Error) -> String {
    let shown = path.display();
    if !path.exists() {
        return format!("the folder {shown} does not exist");
    }
    if error.code() == ErrorCode::NotFound {
        return format!(
            "there is no git repository at {shown} or above it: make one with `git init`, or name one with `repo`"
        );
    }
    if error.code() == ErrorCode::Owner {
        let root = refused_root(path).unwrap_or_else(|| path.to_owned());
        let root = root.display();
        return format!(
            "the repository {root} belongs to another user, so git refuses it: if you trust it, run \
             `git config --global --add safe.directory {root}`"
        );
    }
    format!("the repository around {shown} cannot be opened: {}", error.message())
}

/// The folder that git wants to have named before it trusts the repository around `path`.
fn refused_root(path: &Path) -> Option<PathBuf> {
    let none: [&str; 0] = [];
    let found = git2::Repository::discover_path(path, none).ok()?;
    let root = if found.file_name()? == ".git" { found.parent()? } else { &found };
    Some(root.components().collect())
}

fn notes(repo: &git2::Repository) -> Vec<String> {
    let mut notes = Vec::new();
    match changes(repo) {
        0 => {}
        1 => notes.push("the checkout has 1 uncommitted change, which is not part of the base".to_owned()),
        count => notes.push(format!("the checkout has {count} uncommitted changes, which are not part of the base")),
    }
    if repo.is_shallow() {
        notes.push("the clone is shallow: older history is not there".to_owned());
    }
    if repo.workdir().is_some_and(|root| root.join(".gitmodules").exists()) {
        notes.push("submodules stay empty in worktrees unless `setup` fills them".to_owned());
    }
    notes
}

/// Changed and new files of the checkout. An error counts as none: it is only for a note.
fn changes(repo: &git2::Repository) -> usize {
    if repo.is_bare() {
        return 0;
    }
    let mut options = StatusOptions::new();
    options.include_untracked(true).exclude_submodules(true).no_refresh(true);
    let counts = |entry: &git2::StatusEntry<'_>| {
        // Where runs leave their files is no work of the person.
        !entry.status().contains(Status::IGNORED) && !entry.path_bytes().starts_with(b".runner/")
    };
    repo.statuses(Some(&mut options)).map_or(0, |list| list.iter().filter(counts).count())
}
