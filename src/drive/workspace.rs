//! The place where a job works: its repository, its worktree, its environment, its folder of outputs.

use super::context::RunContext;
use super::gates::Gates;
use super::past::Past;
use super::place::Place;
use crate::plan::{PlannedJob, Source};
use crate::process::Environment;
use crate::worktree::{Adopted, NewWorktree, Repository, TreeId, Worktree};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The place where a job works.
pub(super) struct Workspace {
    worktree: Arc<Worktree>,
    is_new: bool,
    env: Environment,
    outputs: PathBuf,
    notes: Vec<String>,
}

impl Workspace {
    /// Makes it. What another process may have left in its place is cleared, when this run goes on with another one's job.
    ///
    /// # Errors
    /// Says in words what could not be made.
    pub(super) async fn open(
        job: &PlannedJob,
        context: &RunContext,
        place: &Place,
        past: Option<&mut Past>,
        stop: &CancellationToken,
    ) -> Result<Self, String> {
        let folder = place.folder.clone();
        let outputs = folder.join("tools");
        std::fs::create_dir_all(&outputs).map_err(|error| format!("cannot create {}: {error}", outputs.display()))?;
        let mut env = Environment::build(&context.env, &job.worktree.pass_env, &job.worktree.env, &context.key_names);
        env.set("RUNNER_JOB", job.id.as_str());
        env.set("RUNNER_RUN", context.run.0.as_str());
        for (name, value) in &job.matrix {
            env.set(format!("RUNNER_MATRIX_{}", variable(name)), value);
        }
        let repository = repository(job, &folder, past.is_some(), &env).await?;
        let talk = past.as_ref().and_then(|past| past.talk.as_ref());
        let base = match talk {
            Some(talk) => talk.base.clone(),
            None => repository.resolve(&job.worktree.base)?,
        };
        let owner = format!("runner {}/{} pid {}", context.run, job.id, std::process::id());
        let new = NewWorktree {
            path: &place.worktree,
            branch: &place.branch,
            goes_on: past.is_some(),
            base: &base,
            owner: &owner,
            env: &env,
            cancel: stop,
        };
        let notes = match &job.source {
            Source::Repo(_) => repository.notes(),
            Source::Fixture(_) => Vec::new(),
        };
        let opened = match past {
            Some(past) => {
                repository.free_references(&[&place.reference, &format!("refs/heads/{}", place.branch)]);
                reopen(&repository, new, past, &folder).await?
            }
            None => Opened { worktree: Worktree::create(&repository, new).await?, is_new: true },
        };
        Ok(Self { worktree: Arc::new(opened.worktree), is_new: opened.is_new, env, outputs, notes })
    }

    /// Whether the worktree was made just now: nothing was set up in it yet.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// The gates of its job.
    pub(super) fn gates(&self, job: &PlannedJob, place: &Place) -> Gates {
        let shown = format!("{}/tools", place.shown);
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

/// A worktree, and whether it was made just now.
struct Opened {
    worktree: Worktree,
    is_new: bool,
}

/// The repository of a job. One that was made from a fixture is there already, if another process has made it whole.
async fn repository(job: &PlannedJob, folder: &Path, goes_on: bool, env: &Environment) -> Result<Repository, String> {
    match &job.source {
        Source::Repo(start) => Repository::discover(start).await,
        Source::Fixture(files) => {
            let place = folder.join("fixture.git");
            if goes_on
                && let Ok(made) = Repository::discover(&place).await
                && made.resolve("HEAD").is_ok()
            {
                return Ok(made);
            }
            if goes_on {
                // Nothing but the files of the fixture can be in it.
                drop(std::fs::remove_dir_all(&place));
            }
            Repository::from_fixture(files, &place, env).await
        }
    }
}

/// The worktree of a job that another process has begun, as it was at the savepoint. What it has come to since then is kept as a patch.
async fn reopen(
    repository: &Repository,
    new: NewWorktree<'_>,
    past: &mut Past,
    folder: &Path,
) -> Result<Opened, String> {
    let pinned = past.talk.as_ref().map(|talk| talk.given.pinned.clone()).unwrap_or_default();
    let adopted = Worktree::adopt(repository, new, pinned.clone()).await?;
    let opened = match adopted {
        Adopted::Whole(worktree) if past.talk.is_some() => Opened { worktree, is_new: false },
        Adopted::Whole(worktree) => {
            worktree.remove().await?;
            Opened { worktree: Worktree::create(repository, new).await?, is_new: true }
        }
        Adopted::Gone { aside } => {
            past.notes.extend(aside.map(|aside| format!("what was in its place is in {} now", aside.display())));
            past.without_worktree(folder);
            let worktree = Worktree::create(repository, new).await?;
            let worktree = if past.talk.is_some() { worktree.held_to(pinned) } else { worktree };
            Opened { worktree, is_new: true }
        }
    };
    if !opened.is_new
        && let Some(talk) = &past.talk
        // What was not kept is as it is.
        && let Some(tree) = &talk.stage.stand.tree
    {
        match go_back(&opened.worktree, tree, folder).await {
            Ok(note) => past.notes.extend(note),
            Err(problem) => {
                past.give_up(&format!("the files of the last savepoint are not there any more ({problem})"));
                opened.worktree.remove().await?;
                return Ok(Opened { worktree: Worktree::create(repository, new).await?, is_new: true });
            }
        }
    }
    Ok(opened)
}

/// Makes the files of a worktree as they were at a savepoint; what they have come to since then is kept as a patch first.
async fn go_back(worktree: &Worktree, tree: &str, folder: &Path) -> Result<Option<String>, String> {
    let tree = TreeId::new(tree)?;
    let now = worktree.snapshot().await?;
    if now == tree {
        return Ok(None);
    }
    let patch = free_place(folder, "set-aside", "patch");
    worktree.write_patch_between(&tree, &now, &patch).await?;
    worktree.return_to(&tree, &now).await?;
    Ok(Some(format!("what came after the last savepoint is in {}", patch.display())))
}

/// A name that is not taken yet.
fn free_place(folder: &Path, name: &str, extension: &str) -> PathBuf {
    let mut places = (1..=u32::MAX).map(|number| folder.join(format!("{name}-{number}.{extension}")));
    places.find(|place| !place.exists()).unwrap_or_else(|| folder.join(name))
}

/// A matrix key as a part of a variable's name.
fn variable(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
