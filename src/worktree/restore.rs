//! Puts single paths back as they are in a tree.

use super::git::ALL_FILES;
use super::registration::delete_folder;
use super::repository::in_background;
use super::{TreeId, Worktree};
use git2::{ObjectType, Repository, Tree};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

impl Worktree {
    /// Makes these paths exactly as they are in the tree; those that it lacks are deleted.
    ///
    /// Nothing is written or deleted through symbolic links: one that stands in place of a folder of the tree makes room
    /// for it. Paths are relative to the root, as [`Worktree::changed_paths`] gives them.
    ///
    /// # Errors
    /// Says in words what could not be put right; some paths may be by then.
    pub async fn restore(&self, tree: &TreeId, paths: &[String]) -> Result<(), String> {
        if paths.is_empty() {
            return Ok(());
        }
        let index = self.private_index().await?;
        let (root, admin, common_dir) = (self.path.clone(), self.admin.clone(), self.common_dir.clone());
        let (id, paths) = (tree.clone(), paths.to_vec());
        let list = in_background(move || {
            let repo = Self::open(&common_dir)?;
            let clearing = Clearing { repo: &repo, root: &root, tree: &id.find(&repo)? };
            let mut wanted = BTreeSet::new();
            for path in &paths {
                for real in clearing.meant(path)? {
                    clearing.clear(&real)?;
                    if clearing.kind(&real).is_some() {
                        wanted.insert(real);
                    }
                }
            }
            write_list(&admin, &wanted)
        })
        .await?;
        let Some(list) = list else { return Ok(()) };
        let source = format!("--source={}", tree.as_str());
        let from_file = format!("--pathspec-from-file={}", list.path().display());
        let args = ["restore", &source, "--worktree", "--ignore-skip-worktree-bits", &from_file, "--pathspec-file-nul"];
        let git =
            self.held_git().await?.with("GIT_INDEX_FILE", index.path()).with("GIT_LITERAL_PATHSPECS", Path::new("1"));
        git.run(&self.path, &args, ALL_FILES, &CancellationToken::new()).await?;
        Ok(())
    }
}

/// Makes room in a worktree for what a tree holds.
struct Clearing<'a> {
    repo: &'a Repository,
    root: &'a Path,
    tree: &'a Tree<'a>,
}

impl Clearing<'_> {
    /// The paths that a name stands for: one, or none or several when bytes of it were replaced for showing it.
    fn meant(&self, shown: &str) -> Result<BTreeSet<PathBuf>, String> {
        let path = Path::new(shown);
        let mut parts = path.components();
        if shown.is_empty() || parts.any(|part| !matches!(part, Component::Normal(name) if name != ".git")) {
            return Err(format!("`{shown}` is not a path in a worktree"));
        }
        if !shown.contains(char::REPLACEMENT_CHARACTER) {
            return Ok(BTreeSet::from([path.to_owned()]));
        }
        let mut found = BTreeSet::from([PathBuf::new()]);
        for part in path.components() {
            let part = part.as_os_str().to_string_lossy();
            found = found.iter().flat_map(|folder| self.entries(folder, &part)).collect();
        }
        Ok(found)
    }

    /// The entries of a folder, in the worktree and in the tree, that are shown under a name.
    fn entries(&self, folder: &Path, shown: &str) -> Vec<PathBuf> {
        let here = self.root.join(folder);
        let is_folder = here.symlink_metadata().is_ok_and(|about| about.is_dir());
        let on_disk = if is_folder { fs::read_dir(here).ok() } else { None };
        let mut names: Vec<Vec<u8>> =
            on_disk.into_iter().flatten().flatten().map(|entry| entry.file_name().as_bytes().to_vec()).collect();
        let in_tree = if folder.as_os_str().is_empty() { Some(self.tree.clone()) } else { self.subtree(folder) };
        names.extend(in_tree.iter().flat_map(Tree::iter).map(|entry| entry.name_bytes().to_vec()));
        names.retain(|name| String::from_utf8_lossy(name) == shown);
        names.iter().map(|name| folder.join(OsStr::from_bytes(name))).collect()
    }

    fn subtree(&self, folder: &Path) -> Option<Tree<'_>> {
        self.repo.find_tree(self.tree.get_path(folder).ok()?.id()).ok()
    }

    /// What the tree holds at a path.
    fn kind(&self, path: &Path) -> Option<ObjectType> {
        self.tree.get_path(path).ok()?.kind()
    }

    /// Deletes what is at a path, unless it is a folder and is to be one; and what stands where a folder above it must be.
    fn clear(&self, path: &Path) -> Result<(), String> {
        let mut at = PathBuf::new();
        let depth = path.components().count();
        for (index, part) in path.components().enumerate() {
            at.push(part);
            let here = self.root.join(&at);
            let Ok(about) = here.symlink_metadata() else { break };
            let is_to_be_folder = self.kind(&at) == Some(ObjectType::Tree);
            let is_last = index + 1 == depth;
            if about.is_dir() {
                if is_last && !is_to_be_folder {
                    delete_folder(&here)?;
                }
            } else {
                if is_last || is_to_be_folder {
                    let deleted = fs::remove_file(&here);
                    deleted.map_err(|error| format!("cannot delete {}: {error}", here.display()))?;
                }
                break;
            }
        }
        self.clear_empty_folders(path);
        Ok(())
    }

    /// Deletes folders above a path that are empty now and that the tree lacks.
    fn clear_empty_folders(&self, path: &Path) {
        for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            let here = self.root.join(folder);
            if self.kind(folder).is_some() || !here.symlink_metadata().is_ok_and(|about| about.is_dir()) {
                continue;
            }
            if fs::remove_dir(here).is_err() {
                break;
            }
        }
    }
}

/// Writes paths for git to read; `None` when there are none.
fn write_list(folder: &Path, paths: &BTreeSet<PathBuf>) -> Result<Option<NamedTempFile>, String> {
    if paths.is_empty() {
        return Ok(None);
    }
    let text: Vec<u8> = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    let write = || {
        let mut file = tempfile::Builder::new().prefix("runner-paths-").tempfile_in(folder)?;
        file.write_all(&text)?;
        Ok(Some(file))
    };
    write().map_err(|error: std::io::Error| format!("cannot write a list of paths in {}: {error}", folder.display()))
}
