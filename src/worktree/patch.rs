//! The work as a patch file.

use super::git::ALL_FILES;
use super::repository::in_background;
use super::{TreeId, Worktree};
use std::path::Path;
use tokio_util::sync::CancellationToken;

impl Worktree {
    /// Writes what changed since the base, binary files included, for `git apply`; an empty file when nothing did.
    ///
    /// The file appears whole or not at all. Needs the repository but not the folder of the worktree.
    ///
    /// # Errors
    /// Says in words what could not be written.
    pub async fn write_patch(&self, tree: &TreeId, file: &Path) -> Result<(), String> {
        self.write_difference(&self.base, tree, file).await
    }

    /// The same of what lies between two snapshots.
    ///
    /// # Errors
    /// Says in words what could not be written.
    pub async fn write_patch_between(&self, from: &TreeId, to: &TreeId, file: &Path) -> Result<(), String> {
        self.write_difference(from.as_str(), to, file).await
    }

    async fn write_difference(&self, from: &str, tree: &TreeId, file: &Path) -> Result<(), String> {
        let cannot = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", file.display());
        let file = std::path::absolute(file).map_err(|error| cannot(&error))?;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let temporary = in_background(move || {
            let made = std::fs::create_dir_all(&folder)
                .and_then(|()| tempfile::Builder::new().prefix(".diff-").suffix(".patch").tempfile_in(&folder));
            made.map(tempfile::NamedTempFile::into_temp_path).map_err(|error| error.to_string())
        })
        .await
        .map_err(|error| cannot(&error))?;
        let output = format!("--output={}", temporary.display());
        // The plumbing command heeds no settings about how a diff should look.
        let args = [
            "diff-tree",
            "-r",
            "-p",
            "--binary",
            "--full-index",
            "--find-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--submodule=short",
            &output,
            from,
            tree.as_str(),
        ];
        let git = self.git.with("GIT_DIR", &self.common_dir).without("GIT_WORK_TREE");
        git.run(&self.common_dir, &args, ALL_FILES, &CancellationToken::new()).await?;
        temporary.persist(&file).map_err(|error| cannot(&error))
    }
}
