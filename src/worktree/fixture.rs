//! A fresh repository made from a plain folder.

use super::Repository;
use super::repository::in_background;
use crate::process::Environment;
use git2::{FileMode, IndexEntry, IndexTime, Oid, RepositoryInitOptions, Signature, Time};
use ignore::WalkBuilder;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The branch with the one commit.
const BRANCH: &str = "main";

/// Who made the commit, and when: always the same, so that its id depends on the files alone.
const AUTHOR: (&str, &str) = ("runner", "runner@localhost");
const WHEN: i64 = 946_684_800; // 2000-01-01T00:00:00Z: a real date that nobody takes for one of the work.

/// Never part of a fixture: a repository's own files, and where runs leave theirs.
const LEFT_OUT: [&str; 2] = [".git", ".runner"];

impl Repository {
    /// Makes a bare repository at `at` with one commit that holds what is in `folder`.
    ///
    /// Executable bits and symbolic links are kept; what the folder's own `.gitignore` files name, and any `.git` in it,
    /// is left out. The same files give the same commit id. An existing repository at `at` is used again.
    ///
    /// # Errors
    /// Says in words what could not be read or written.
    pub async fn from_fixture(folder: &Path, at: &Path, _env: &Environment) -> Result<Self, String> {
        let (folder, at) = (folder.to_owned(), at.to_owned());
        in_background(move || {
            if !folder.is_dir() {
                return Err(format!("the fixture {} is not a folder", folder.display()));
            }
            let repo = make(&folder, &at)
                .map_err(|error| format!("cannot make a repository from the fixture {}: {error}", folder.display()))?;
            Self::around(&repo, Vec::new())
        })
        .await
    }
}

fn make(folder: &Path, at: &Path) -> Result<git2::Repository, String> {
    let said = |error: git2::Error| error.message().to_owned();
    let mut options = RepositoryInitOptions::new();
    // No template: it could bring hooks along.
    options.bare(true).mkpath(true).external_template(false).initial_head(BRANCH);
    let repo = git2::Repository::init_opts(at, &options).map_err(said)?;
    // Files come out as they went in, whatever a person's settings say.
    repo.config().and_then(|mut config| config.set_str("core.autocrlf", "false")).map_err(said)?;
    let mut index = git2::Index::new().map_err(said)?;
    let walk = WalkBuilder::new(folder)
        .standard_filters(false)
        .git_ignore(true)
        .require_git(false)
        .filter_entry(|entry| LEFT_OUT.iter().all(|name| entry.file_name() != *name))
        .build();
    for entry in walk {
        let entry = entry.map_err(|error| error.to_string())?;
        let about = entry.path().symlink_metadata().map_err(|error| cannot_read(entry.path(), &error))?;
        let Some((mode, bytes)) = content(entry.path(), &about)? else { continue };
        let id = repo.blob(&bytes).map_err(said)?;
        let name = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        index.add(&index_entry(name, mode, id)).map_err(said)?;
    }
    let commit = {
        let tree = index.write_tree_to(&repo).and_then(|id| repo.find_tree(id)).map_err(said)?;
        let author = Signature::new(AUTHOR.0, AUTHOR.1, &Time::new(WHEN, 0)).map_err(said)?;
        repo.commit(None, &author, &author, "fixture\n", &tree, &[]).map_err(said)?
    };
    repo.reference(&format!("refs/heads/{BRANCH}"), commit, true, "fixture").map_err(said)?;
    Ok(repo)
}

/// What git keeps of a file; `None` for folders and for what it does not keep.
fn content(path: &Path, about: &Metadata) -> Result<Option<(FileMode, Vec<u8>)>, String> {
    if about.is_symlink() {
        let target = std::fs::read_link(path).map_err(|error| cannot_read(path, &error))?;
        return Ok(Some((FileMode::Link, target.as_os_str().as_bytes().to_vec())));
    }
    if !about.is_file() {
        return Ok(None);
    }
    let executable = about.permissions().mode() & 0o100 != 0;
    let mode = if executable { FileMode::BlobExecutable } else { FileMode::Blob };
    let bytes = std::fs::read(path).map_err(|error| cannot_read(path, &error))?;
    Ok(Some((mode, bytes)))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn index_entry(name: &Path, mode: FileMode, id: Oid) -> IndexEntry {
    IndexEntry {
        ctime: IndexTime::new(0, 0),
        mtime: IndexTime::new(0, 0),
        dev: 0,
        ino: 0,
        mode: u32::from(mode),
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: name.as_os_str().as_bytes().to_vec(),
    }
}
