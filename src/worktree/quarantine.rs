//! A repository of its own for work that nobody has looked at yet: it sees the objects of the real one, and nothing
//! that comes into it reaches the real one.
//!
//! It has no settings, no hooks and no checkout, so what an agent may have written into the real repository's
//! configuration has no say in what is pushed and where.

use super::Repository;
use super::bundle::pack_of;
use super::changes::{Step, steps};
use super::git::{ALL_FILES, Git};
use super::repository::in_background;
use crate::process::Environment;
use bytes::Bytes;
use git2::{Oid, RepositoryInitOptions};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The name under which the work is held. Not a branch.
const HELD: &str = "refs/runner/publish";

/// Variables of git's own that say how servers are reached.
pub const WAYS: [&str; 5] = ["GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO"];

/// Such a repository. It is gone when it is dropped.
#[derive(Debug)]
pub struct Quarantine {
    folder: TempDir,
    pub(super) git: Git,
}

impl Quarantine {
    /// Makes one beside a repository.
    ///
    /// # Errors
    /// Says in words what could not be made.
    pub async fn beside(repository: &Repository, env: &Environment) -> Result<Self, String> {
        let common_dir = repository.common_dir().to_owned();
        let folder = in_background(move || make(&common_dir)).await?;
        let git = Git::new(env).with("GIT_DIR", folder.path()).without("GIT_WORK_TREE");
        // The person's ways to servers are not of the repository.
        let ways = WAYS.iter().filter_map(|name| Some((*name, env.get(name)?)));
        let git = ways.fold(git, |git, (name, value)| git.given(name, value));
        Ok(Self { folder, git })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes in a bundle whose one branch is at `commit`. Every object is checked; nothing is checked out.
    ///
    /// # Errors
    /// Says in words what is wrong with the bundle, or that the repository lacks what it stands on.
    pub async fn take(&self, bundle: Bytes, base: &str, commit: &str, branch: &str) -> Result<(), String> {
        let pack = pack_of(&bundle, branch, commit)?;
        let pack = bundle.slice(bundle.len() - pack.len()..);
        let at = |id: &str| {
            let id = Oid::from_str(id).map_err(|error| format!("`{id}`: {}", error.message()))?;
            Ok::<_, String>((id, self.open()?))
        };
        let (base_id, repo) = at(base)?;
        if repo.find_commit(base_id).is_err() {
            return Err(format!(
                "the base {base} is not in this repository: fetch it first (`git fetch origin {base}`)"
            ));
        }
        drop(repo);
        let args = ["index-pack", "--stdin", "--fix-thin", "--strict"];
        self.git.feed(self.path(), &args, pack, ALL_FILES).await?;
        let (id, repo) = at(commit)?;
        let held = repo.find_commit(id).and_then(|_| repo.reference(HELD, id, true, "to be published"));
        held.map(drop).map_err(|error| format!("the commit {commit} is not in it: {}", error.message()))
    }

    /// What its commits change, each for itself, and all of it from `base` to `commit`.
    ///
    /// # Errors
    /// Says in words that `commit` is not on top of `base` in a straight line.
    pub async fn changes(&self, base: &str, commit: &str) -> Result<(Vec<Step>, Step), String> {
        let (path, base, commit) = (self.path().to_owned(), base.to_owned(), commit.to_owned());
        in_background(move || steps(&open(&path)?, &base, &commit)).await
    }

    fn open(&self) -> Result<git2::Repository, String> {
        open(self.path())
    }
}

fn open(path: &Path) -> Result<git2::Repository, String> {
    git2::Repository::open(path).map_err(|error| format!("cannot open {}: {}", path.display(), error.message()))
}

fn make(common_dir: &Path) -> Result<TempDir, String> {
    let cannot = |error: std::io::Error| format!("cannot make a repository for what is published: {error}");
    let folder = tempfile::Builder::new().prefix("runner-publish-").tempdir().map_err(cannot)?;
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false).initial_head("none");
    git2::Repository::init_opts(folder.path(), &options).map_err(|error| error.message().to_owned())?;
    let objects = common_dir.join("objects");
    let shown = objects.to_str().filter(|path| !path.contains('\n'));
    let shown = shown.ok_or_else(|| format!("the path {} cannot be written down", objects.display()))?;
    let info = folder.path().join("objects/info");
    fs::create_dir_all(&info)
        .and_then(|()| fs::write(info.join("alternates"), format!("{shown}\n")))
        .map_err(cannot)?;
    let shallow = common_dir.join("shallow");
    if shallow.exists() {
        fs::copy(shallow, folder.path().join("shallow")).map_err(cannot)?;
    }
    Ok(folder)
}
