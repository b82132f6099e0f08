//! Work of a job brought into the person's checkout: all of it or nothing.

use super::Repository;
use super::git::{ALL_FILES, Git, QUICK};
use super::repository::in_background;
use crate::process::Environment;
use bytes::Bytes;
use git2::{ErrorCode, Status};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// What was brought in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The changed paths, in order.
    pub paths: Vec<String>,
}

/// Why nothing was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyFault {
    /// Files that the work changes hold changes of the person's, or are new and in the way.
    Dirty(Vec<String>),
    /// The checkout has moved on where the work changes it: these paths conflict.
    Conflict(Vec<String>),
    /// Something else, in words.
    Other(String),
}

impl From<String> for ApplyFault {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl Repository {
    /// Applies a patch to the files of the checkout, by a three-way merge with what is checked out. The index stays as
    /// it is, and so does every file where one does not fit.
    ///
    /// # Errors
    /// See [`ApplyFault`].
    pub async fn apply(&self, patch: &Path, env: &Environment) -> Result<Applied, ApplyFault> {
        let scratch = tempfile::Builder::new().prefix("runner-apply-").tempdir();
        let scratch = scratch.map_err(|error| format!("cannot make a folder for the merge: {error}"))?;
        let plain = Git::new(env);
        let git = plain.with("GIT_INDEX_FILE", &scratch.path().join("index"));
        let call =
            async |git: &Git, args: &[&str]| git.run(self.root(), args, ALL_FILES, &CancellationToken::new()).await;
        call(&git, &["read-tree", "HEAD"]).await.map_err(String::from)?;
        let file = patch.to_string_lossy();
        if let Err(error) = call(&git, &["apply", "--cached", "--3way", "--whitespace=nowarn", &file]).await {
            // Where all of it was taken before, it can be taken back.
            call(&git, &["read-tree", "HEAD"]).await.map_err(String::from)?;
            if call(&git, &["apply", "--cached", "--check", "--reverse", &file]).await.is_ok() {
                return Ok(Applied { paths: Vec::new() });
            }
            let conflicts = conflicts(&error.said);
            return Err(if conflicts.is_empty() {
                ApplyFault::Other(error.message)
            } else {
                ApplyFault::Conflict(conflicts)
            });
        }
        let tree = call(&git, &["write-tree"]).await.map_err(String::from)?.trim().to_owned();
        let merged = scratch.path().join("merged.patch");
        let output = format!("--output={}", merged.display());
        let diff =
            ["diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"];
        call(&plain, &[&diff[..], &["--no-color", "--submodule=short", &output, "HEAD", &tree]].concat())
            .await
            .map_err(String::from)?;
        let names = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "HEAD", &tree];
        let names = plain.run(self.root(), &names, QUICK, &CancellationToken::new()).await.map_err(String::from)?;
        let paths: Vec<String> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if paths.is_empty() {
            return Ok(Applied { paths });
        }
        let (root, asked) = (self.root().to_owned(), paths.clone());
        let dirty = in_background(move || dirty(&root, &asked)).await?;
        if !dirty.is_empty() {
            return Err(ApplyFault::Dirty(dirty));
        }
        let merged = merged.to_string_lossy();
        // It looks at all files before it writes the first.
        call(&plain, &["apply", "--whitespace=nowarn", &merged]).await.map_err(String::from)?;
        Ok(Applied { paths })
    }

    /// Checks a branch out. Git itself refuses where files with changes are in the way.
    ///
    /// # Errors
    /// Git's own words.
    pub async fn check_out(&self, branch: &str, env: &Environment) -> Result<(), String> {
        let args = ["checkout", "--quiet", "--no-guess", "--no-recurse-submodules", branch, "--"];
        Git::new(env).run(self.root(), &args, ALL_FILES, &CancellationToken::new()).await?;
        Ok(())
    }

    /// Whether there is a branch of this name, and where it is.
    ///
    /// # Errors
    /// Says in words that the repository cannot be read.
    pub async fn branch(&self, name: &str) -> Result<Option<String>, String> {
        let (root, name) = (self.root().to_owned(), format!("refs/heads/{name}"));
        in_background(move || {
            let repo = git2::Repository::open(&root).map_err(|error| error.message().to_owned())?;
            Ok(repo.find_reference(&name).ok().and_then(|found| found.target()).map(|id| id.to_string()))
        })
        .await
    }

    /// Takes a bundle in as a new branch. Every object is checked.
    ///
    /// # Errors
    /// Says in words what is wrong with it, or that there is a branch of this name already.
    pub async fn take_branch(
        &self,
        bundle: Bytes,
        branch: &str,
        commit: &str,
        env: &Environment,
    ) -> Result<(), String> {
        let pack = super::bundle::pack_of(&bundle, branch, commit)?;
        let pack = bundle.slice(bundle.len() - pack.len()..);
        let git = Git::new(env).with("GIT_DIR", self.common_dir()).without("GIT_WORK_TREE");
        git.feed(self.common_dir(), &["index-pack", "--stdin", "--fix-thin", "--strict"], pack, ALL_FILES).await?;
        let none = "0".repeat(commit.len());
        let args = ["update-ref", "-m", "runner: the work of a job", &format!("refs/heads/{branch}"), commit, &none];
        git.run(self.common_dir(), &args, QUICK, &CancellationToken::new()).await?;
        Ok(())
    }

    /// Where a remote is pushed to, as the settings say now.
    ///
    /// # Errors
    /// Says in words that there is no remote of this name.
    pub fn remote_url(&self, name: &str) -> Result<String, String> {
        let repo = self.open()?;
        let remote = repo.find_remote(name).map_err(|_| {
            format!("the repository {} has no remote `{name}`: add one with `git remote add`", self.root().display())
        })?;
        let url = remote.pushurl().ok().flatten().or_else(|| remote.url().ok()).map(str::to_owned);
        url.filter(|url| !url.is_empty()).ok_or_else(|| format!("the remote `{name}` has no address"))
    }

    /// The branch that is checked out, if one is.
    pub fn current_branch(&self) -> Option<String> {
        let repo = self.open().ok()?;
        let head = repo.find_reference("HEAD").ok()?;
        let target = head.symbolic_target().ok()??;
        target.strip_prefix("refs/heads/").map(str::to_owned)
    }
}

/// The paths that `git apply --3way` could not merge.
fn conflicts(said: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for line in said.lines() {
        let path = line
            .strip_prefix("U ")
            .or_else(|| line.strip_prefix("Applied patch to '").and_then(|rest| rest.strip_suffix("' with conflicts.")))
            .or_else(|| line.strip_prefix("error: ").and_then(|rest| rest.split_once(": ")).map(|(path, _)| path));
        let path = path.filter(|path| !path.contains(' ') || line.starts_with("U ")).map(str::to_owned);
        paths.extend(path.filter(|path| path != "patch failed"));
    }
    paths.sort();
    paths.dedup();
    paths
}

/// Which of the paths hold something that is not what `HEAD` has there.
fn dirty(root: &Path, paths: &[String]) -> Result<Vec<String>, String> {
    let repo = git2::Repository::open(root).map_err(|error| error.message().to_owned())?;
    let is_dirty = |path: &&String| match repo.status_file(Path::new(path.as_str())) {
        Ok(status) => status != Status::CURRENT,
        // Neither in the index nor in the folder: free, unless something that is no file lies there.
        Err(error) if error.code() == ErrorCode::NotFound => is_taken(&root.join(path)),
        Err(_) => true,
    };
    Ok(paths.iter().filter(is_dirty).cloned().collect())
}

fn is_taken(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
