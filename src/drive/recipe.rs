//! What a run is planned from, kept in its `run.json`, so that another process can plan it again and see what has changed since.

use super::select::Selected;
use crate::cli::RunArgs;
use crate::load::Snapshot;
use crate::plan::{PlannedJob, Source};
use crate::units::fnv1a;
use crate::worktree::Repository;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a run is planned from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipe {
    /// The command line, after the program's name.
    pub(super) args: Vec<String>,
    /// The working directory, below the root of the repository.
    pub(super) cwd: PathBuf,
    /// What standard input held, where a job came from it.
    pub(super) input: Option<String>,
    /// All jobs of the plan, in their order, also those that were not chosen.
    #[serde(default)]
    pub(super) all: Vec<String>,
    /// The part of the batch, `I/N`; `None`: the whole.
    #[serde(default)]
    pub(super) shard: Option<String>,
    /// For each chosen job, what it was.
    pub(super) jobs: BTreeMap<String, Print>,
}

/// A job, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Print {
    /// A hash of all that its files and settings say.
    pub(super) plan: String,
    /// The model.
    pub(super) model: String,
    /// The commit that it starts from; `None` where another job says it, or it was not to be found.
    pub(super) base: Option<String>,
}

impl Recipe {
    /// Of a run that begins.
    pub(super) async fn of(
        args: &RunArgs,
        line: Vec<String>,
        snapshot: &Snapshot,
        root: &Path,
        jobs: &[PlannedJob],
        selected: &Selected,
    ) -> Self {
        let cwd = snapshot.cwd.strip_prefix(root).unwrap_or(&snapshot.cwd).to_owned();
        let input = args.which.input.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let (all, shard) = (selected.chosen.all.clone(), selected.shard.map(|shard| shard.to_string()));
        Self { args: line, cwd, input, all, shard, jobs: prints(jobs, root).await }
    }

    /// For `run.json`.
    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// From `run.json`.
    pub(super) fn read(value: &Value) -> Option<Self> {
        serde_json::from_value(value.clone()).ok()
    }
}

/// Jobs in short. `root` is left out of what is compared: a run may be carried to another place.
pub(super) async fn prints(jobs: &[PlannedJob], root: &Path) -> BTreeMap<String, Print> {
    let mut repositories: BTreeMap<&Path, Option<Repository>> = BTreeMap::new();
    let mut prints = BTreeMap::new();
    for job in jobs {
        let base = match &job.source {
            Source::Repo(start) => {
                if !repositories.contains_key(start.as_path()) {
                    repositories.insert(start, Repository::discover(start).await.ok());
                }
                let repository = repositories.get(start.as_path()).and_then(Option::as_ref);
                repository.and_then(|repository| repository.resolve(&job.worktree.base).ok())
            }
            Source::Fixture(_) => None,
        };
        let plan = format!("{job:?}").replace(&*root.to_string_lossy(), "");
        let print = Print { plan: format!("{:016x}", fnv1a(&plan)), model: job.model.name.clone(), base };
        prints.insert(job.id.to_string(), print);
    }
    prints
}
