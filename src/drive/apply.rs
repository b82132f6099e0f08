//! `runner apply`: a job's work in the person's checkout, all of it or nothing.

use super::publishing::git_env;
use super::{say, secrets};
use crate::cli::ApplyArgs;
use crate::error::{Error, Kind, Result};
use crate::exit::ExitStatus;
use crate::load::Snapshot;
use crate::process::Environment;
use crate::publish::{bundle_of, result_of, token_names};
use crate::store::find;
use crate::worktree::{ApplyFault, Repository};
use std::path::Path;

/// Applies a job's patch, or checks its branch out.
///
/// # Errors
/// There is no such job, or it left no work. What stands in the way is told with what can be done.
pub(super) fn apply(args: &ApplyArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    crate::process::adopt_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Environment, "cannot start").because(error.to_string()))?;
    let result = runtime.block_on(apply_job(args, snapshot));
    runtime.shutdown_background();
    result
}

async fn apply_job(args: &ApplyArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let repository = Repository::discover(&snapshot.cwd).await.map_err(Error::usage)?;
    let place = find(repository.root(), &snapshot.cwd, &args.what)?;
    let Some(job) = place.job else {
        return Err(Error::usage("name one job: `runner apply RUN/JOB`").hint("`runner show RUN` lists the jobs"));
    };
    let folder = place.run.join("jobs").join(job.as_str());
    let mut names = secrets::key_names(&[]);
    names.extend(token_names(&snapshot.env));
    let env = git_env(&snapshot.env, &names);
    if args.branch {
        return check_out(&repository, &folder, &env).await;
    }
    let patch = folder.join("diff.patch");
    let size = std::fs::metadata(&patch).map_err(|error| Error::io("read", &patch, &error))?.len();
    if size == 0 {
        return Err(Error::usage(format!("the job `{job}` changed nothing, so there is nothing to apply")));
    }
    match repository.apply(&patch, &env).await {
        Ok(applied) if applied.paths.is_empty() => {
            say::error("everything in it is here already\n");
            Ok(ExitStatus::Passed)
        }
        Ok(applied) => {
            say::result(&(applied.paths.join("\n") + "\n"));
            Ok(ExitStatus::Passed)
        }
        Err(ApplyFault::Dirty(paths)) => {
            Err(listed("these files hold changes of yours, and nothing was applied", &paths)
                .hint("commit or stash them, then apply again; or `runner apply --branch` on a clean checkout"))
        }
        Err(ApplyFault::Conflict(paths)) => {
            Err(listed("the work conflicts with what is checked out, and nothing was applied", &paths)
                .hint("`runner apply --branch` checks the work out as it is; rebase or merge that branch by hand"))
        }
        Err(ApplyFault::Other(why)) => {
            Err(Error::new(Kind::Usage, "the patch does not fit here, and nothing was applied").because(why))
        }
    }
}

async fn check_out(repository: &Repository, folder: &Path, env: &Environment) -> Result<ExitStatus> {
    let report = result_of(folder).map_err(Error::usage)?;
    let (Some(branch), Some(commit)) = (&report.branch, &report.commit) else {
        return Err(Error::usage(format!("the job `{}` left no branch", report.info.id))
            .hint("without --branch its patch is applied to what is checked out"));
    };
    if repository.branch(branch).await.map_err(Error::usage)?.is_none() {
        let bundle = bundle_of(folder)
            .map_err(|why| Error::usage(format!("the branch `{branch}` is gone, and so is its bundle")).because(why))?;
        let taken = repository.take_branch(bundle, branch, commit, env).await;
        taken.map_err(|why| Error::usage(format!("the bundle of `{branch}` cannot be taken in")).because(why))?;
    }
    let switched = repository.check_out(branch, env).await;
    switched.map_err(|why| {
        Error::usage(format!("the branch `{branch}` was not checked out"))
            .because(why)
            .hint("commit or stash your changes first")
    })?;
    say::result(&format!("{branch}\n"));
    Ok(ExitStatus::Passed)
}

fn listed(message: &str, paths: &[String]) -> Error {
    const SHOWN: usize = 20;
    let error = paths.iter().take(SHOWN).fold(Error::usage(message), |error, path| error.because(path.clone()));
    if paths.len() > SHOWN { error.because(format!("and {} more", paths.len() - SHOWN)) } else { error }
}
