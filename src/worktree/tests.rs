//! Worktrees of real repositories, made by the real git.

mod commit;
mod create;
mod fixture;
mod patch;
mod quarantine;
mod remove;
mod repository;
mod restore;
mod snapshot;

use super::{NewWorktree, Repository, TreeId, Worktree};
use crate::process::{Command, Environment, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A folder with a home, a repository with one commit, and room for worktrees.
struct Scene {
    folder: TempDir,
    env: Environment,
}

impl Scene {
    /// With the files `a`, `src/b` and `tests/t` committed on `main`.
    async fn new() -> Self {
        let scene = Self::empty().await;
        scene.write("a", "a\n");
        scene.write("src/b", "b\n");
        scene.write("tests/t", "t\n");
        scene.commit_all("first").await;
        scene
    }

    /// With a repository without a commit.
    async fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "repo"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let home = folder.path().join("home").display().to_string();
        let parent = BTreeMap::from([("PATH".to_owned(), path()), ("HOME".to_owned(), home)]);
        let scene = Self { env: Environment::build(&parent, &[], &BTreeMap::new(), &[]), folder };
        scene.git(&["init", "--quiet", "--initial-branch=main"]).await;
        scene
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.repo().join(name), text);
    }

    async fn commit_all(&self, message: &str) {
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]).await;
    }

    /// What git prints in the repository; it must succeed.
    async fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.repo(), args).await
    }

    /// As a person or an agent would run it.
    async fn git_in(&self, cwd: &Path, args: &[&str]) -> String {
        let (done, said) = self.try_git_in(cwd, args).await;
        assert!(done, "git {args:?}: {said}");
        said
    }

    async fn try_git_in(&self, cwd: &Path, args: &[&str]) -> (bool, String) {
        let mut env = self.env.clone();
        for who in ["AUTHOR", "COMMITTER"] {
            env.set(format!("GIT_{who}_NAME"), "Agent");
            env.set(format!("GIT_{who}_EMAIL"), "agent@example.org");
        }
        let words = ["git", "-c", "protocol.file.allow=always"].iter().chain(args).map(|word| (*word).to_owned());
        let limit = Duration::from_mins(1);
        let command = Command::new(words.collect(), cwd, env, limit, CancellationToken::new());
        let finished = run(command).await;
        (finished.end.is_success(), finished.output.text().trim_end().to_owned())
    }

    async fn discover(&self) -> Repository {
        Repository::discover(&self.repo()).await.unwrap()
    }

    /// A worktree `NAME` on the branch `job/NAME`, from `HEAD`.
    async fn worktree(&self, name: &str) -> Worktree {
        self.try_worktree(name, &format!("job/{name}")).await.unwrap()
    }

    async fn try_worktree(&self, name: &str, branch: &str) -> Result<Worktree, String> {
        let owner = format!("runner r1/{name} pid {}", std::process::id());
        self.owned_worktree(name, branch, &owner).await
    }

    async fn owned_worktree(&self, name: &str, branch: &str, owner: &str) -> Result<Worktree, String> {
        let repository = self.discover().await;
        let base = repository.resolve("HEAD")?;
        let path = self.at("worktrees").join(name);
        let cancel = CancellationToken::new();
        let new =
            NewWorktree { path: &path, branch, goes_on: false, base: &base, owner, env: &self.env, cancel: &cancel };
        Worktree::create(&repository, new).await
    }

    async fn branches(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]).await
    }

    /// How many worktrees git knows, the main one included.
    async fn count(&self) -> usize {
        self.git(&["worktree", "list", "--porcelain"]).await.matches("worktree ").count()
    }
}

#[expect(clippy::disallowed_methods, reason = "tests start programs from where the person has them")]
fn path() -> String {
    std::env::var("PATH").unwrap()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// All files below a folder with their bytes, links as what they say, modes aside.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        if about.is_dir() {
            found.extend(contents(&path));
        } else if about.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.insert(path, target.into_os_string().into_encoded_bytes());
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// The tree that the worktree started from.
async fn base_tree(scene: &Scene, worktree: &Worktree) -> TreeId {
    let fresh = scene.git(&["rev-parse", &format!("{}^{{tree}}", worktree.base())]).await;
    TreeId(fresh)
}
