//! Files that no snapshot holds, since git ignores them: what an agent may hide from it, but not from the gates.

use super::TreeId;
use super::Worktree;
use super::repository::in_background;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

impl Worktree {
    /// The files in the worktree that a snapshot of it lacks, as far as they are `wanted`; relative to the root. Links are not
    /// followed.
    ///
    /// # Errors
    /// Says in words that the tree cannot be read.
    pub async fn unseen_files(
        &self,
        tree: &TreeId,
        wanted: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<BTreeSet<PathBuf>, String> {
        let (root, common_dir, tree) = (self.path.clone(), self.common_dir.clone(), tree.clone());
        in_background(move || {
            let repo = Self::open(&common_dir)?;
            let tree = tree.find(&repo)?;
            let mut unseen = BTreeSet::new();
            let mut folders = vec![PathBuf::new()];
            while let Some(folder) = folders.pop() {
                // A folder that cannot be read hides its files from the gates as well.
                let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
                for entry in entries.flatten().filter(|entry| entry.file_name() != ".git") {
                    let path = folder.join(entry.file_name());
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        folders.push(path);
                    } else if wanted(&path) && tree.get_path(&path).is_err() {
                        unseen.insert(path);
                    }
                }
            }
            Ok(unseen)
        })
        .await
    }

    /// Deletes files of the worktree, named relative to the root.
    ///
    /// # Errors
    /// Names the first that cannot be deleted.
    pub async fn delete_files(&self, files: BTreeSet<PathBuf>) -> Result<(), String> {
        let root = self.path.clone();
        in_background(move || {
            files.iter().map(|file| root.join(file)).try_for_each(|file| {
                fs::remove_file(&file).map_err(|error| format!("cannot delete {}: {error}", file.display()))
            })
        })
        .await
    }
}
