//! The place where a job works: its repository, its worktree, its environment, its folder of outputs.

use super::context::RunContext;
use super::gates::Gates;
use crate::plan::{PlannedJob, Source};
use crate::process::Environment;
use crate::worktree::{NewWorktree, Repository, Worktree};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The place where a job works.
pub(super) struct Workspace {
    worktree: Arc<Worktree>,
    env: Environment,
    outputs: PathBuf,
    notes: Vec<String>,
}

impl Workspace {
    /// Makes it.
    ///
    /// # Errors
    /// Says in words what could not be made.
    pub(super) async fn open(job: &PlannedJob, context: &RunContext, stop: &CancellationToken) -> Result<Self, String> {
        let folder = context.job_folder(&job.id);
        let outputs = folder.join("tools");
        std::fs::create_dir_all(&outputs).map_err(|error| format!("cannot create {}: {error}", outputs.display()))?;
        let mut env = Environment::build(&context.env, &job.worktree.pass_env, &job.worktree.env, &context.key_names);
        env.set("RUNNER_JOB", job.id.as_str());
        env.set("RUNNER_RUN", context.run.0.as_str());
        for (name, value) in &job.matrix {
            env.set(format!("RUNNER_MATRIX_{}", variable(name)), value);
        }
        let repository = match &job.source {
            Source::Repo(start) => Repository::discover(start).await?,
            Source::Fixture(files) => Repository::from_fixture(files, &folder.join("fixture.git"), &env).await?,
        };
        let base = repository.resolve(&job.worktree.base)?;
        let path = context.worktree(&job.id);
        let owner = format!("runner {}/{} pid {}", context.run, job.id, std::process::id());
        let new = NewWorktree {
            path: &path,
            branch: &job.worktree.branch,
            base: &base,
            owner: &owner,
            env: &env,
            cancel: stop,
        };
        let worktree = Arc::new(Worktree::create(&repository, new).await?);
        let notes = match &job.source {
            Source::Repo(_) => repository.notes(),
            Source::Fixture(_) => Vec::new(),
        };
        Ok(Self { worktree, env, outputs, notes })
    }

    /// The gates of its job.
    pub(super) fn gates(&self, job: &PlannedJob) -> Gates {
        let shown = format!("jobs/{}/tools", job.id);
        Gates::new(job.gates.clone(), self.root().to_owned(), self.env.clone(), self.outputs.clone(), shown)
    }

    /// The worktree.
    pub(super) const fn worktree(&self) -> &Arc<Worktree> {
        &self.worktree
    }

    /// The worktree's root.
    pub(super) fn root(&self) -> &Path {
        self.worktree.path()
    }

    /// The commit that it started from.
    pub(super) fn base(&self) -> &str {
        self.worktree.base()
    }

    /// What every child gets.
    pub(super) const fn env(&self) -> &Environment {
        &self.env
    }

    /// Where whole outputs of tools and gates go.
    pub(super) fn outputs(&self) -> &Path {
        &self.outputs
    }

    /// What a reader of the report should know about the repository.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Leaves the worktree to the person.
    pub(super) async fn release(self) {
        self.worktree.unlock().await;
    }

    /// Removes the worktree.
    pub(super) async fn remove(self) -> Result<(), String> {
        self.worktree.remove().await
    }
}

/// A matrix key as a part of a variable's name.
fn variable(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
