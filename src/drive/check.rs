//! `runner check`: everything that can be told without a model, and the plan.

use super::publishing::Publishing;
use super::select::select;
use super::{room, say};
use crate::cli::{CheckArgs, PlanFormat};
use crate::error::{Error, Kind, Result};
use crate::exit::ExitStatus;
use crate::load::{self, Failure, Snapshot};
use crate::plan::{JOB_BASE, Plan, Purpose, Source, findings_json};
use crate::units::RunId;
use crate::worktree::Repository;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Checks the jobs and prints the plan.
///
/// # Errors
/// Everything that is wrong, at once.
pub(super) fn check(args: &CheckArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let mut plan = match load::plan(&args.which, snapshot, &RunId("RUN".into()), Purpose::Check) {
        Ok(plan) => plan,
        Err(failure) => {
            if args.format == PlanFormat::Json
                && let Failure::Findings(found) = &failure
            {
                say::result(&format!("{:#}\n", findings_json(found)));
            }
            return Ok(say::failure(&failure, args.color, snapshot));
        }
    };
    say::findings(&plan.warnings, args.color, snapshot);
    select(&args.which, snapshot, &mut plan)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Environment, error.to_string()))?;
    let mut problems = room::problems(&plan.jobs);
    problems.extend(runtime.block_on(repositories(&plan)));
    if problems.is_empty() {
        let goals = runtime.block_on(Publishing::prepare(&plan.jobs, snapshot));
        problems.extend(goals.err().map(|error| error.to_string()));
    }
    match problems.split_first() {
        None => {
            say::result(&match args.format {
                PlanFormat::Pretty => plan.text(),
                PlanFormat::Json => format!("{:#}\n", plan.json()),
            });
            Ok(ExitStatus::Passed)
        }
        Some((first, rest)) => {
            Err(rest.iter().fold(Error::usage(first.clone()), |error, more| error.because(more.clone())))
        }
    }
}

/// Whether each repository is there and knows each base; a sentence for each that does not.
async fn repositories(plan: &Plan) -> Vec<String> {
    let mut bases: BTreeMap<&PathBuf, BTreeMap<&str, &str>> = BTreeMap::new();
    for job in &plan.jobs {
        match &job.source {
            // The work of another job is there when that one has passed.
            Source::Repo(_) if job.worktree.base.starts_with(JOB_BASE) => {}
            Source::Repo(start) => {
                bases.entry(start).or_default().entry(&job.worktree.base).or_insert(job.id.as_str());
            }
            Source::Fixture(_) => {}
        }
    }
    let mut problems = Vec::new();
    for (start, bases) in bases {
        match Repository::discover(start).await {
            Ok(repository) => {
                for note in repository.notes() {
                    say::error(&format!("warning: {note}\n"));
                }
                for (base, job) in bases {
                    problems.extend(repository.resolve(base).err().map(|problem| format!("job {job}: {problem}")));
                }
            }
            Err(problem) => {
                let jobs: Vec<&str> = bases.into_values().collect();
                problems.push(format!("job {}: {problem}", jobs.join(", ")));
            }
        }
    }
    problems
}
