//! `runner publish`: the later, trusted step.

use super::publishing::{api, git_env, link, list, remote_of};
use super::{say, secrets};
use crate::cli::PublishArgs;
use crate::error::{Error, Kind, Result};
use crate::exit::ExitStatus;
use crate::load::Snapshot;
use crate::model::Http;
use crate::output::Files;
use crate::publish::{DiffPolicy, Fault, Publisher, Seal, jobs_of, read_job, token_names};
use crate::store::{Place, find};
use crate::units::JobId;
use crate::worktree::{Pushed, Repository};

/// Publishes what a run left.
///
/// # Errors
/// The run is not there, the settings are wrong, or its files are not what they were. What is wrong with one job is told, and
/// the others go on.
pub(super) fn publish(args: &PublishArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    crate::process::adopt_orphans();
    crate::process::keep_private();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Environment, "cannot start").because(error.to_string()))?;
    let result = runtime.block_on(publish_all(args, snapshot));
    runtime.shutdown_background();
    result
}

async fn publish_all(args: &PublishArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let env = &snapshot.env;
    let repository = Repository::discover(&snapshot.cwd).await.map_err(Error::usage)?;
    let place = find(repository.root(), &snapshot.cwd, &args.what)?;
    let mut names = secrets::key_names(&[]);
    names.extend(token_names(env));
    names.extend(args.token_env.clone());
    let hidden = secrets::hidden(env, &names);
    let files = Files::new(&hidden);
    let remote = remote_of(&repository, args.remote.as_deref(), env).map_err(Error::usage)?;
    let token_env = args.token_env.as_deref();
    let policy = policy(args, snapshot)?;
    let http = Http::new(Http::CONNECT, concat!("runner/", env!("CARGO_PKG_VERSION")));
    let set = |name: &str| snapshot.variable(name).map(str::to_owned);
    let publisher = Publisher {
        repository: &repository,
        remote: &remote,
        credentials: remote.credentials(env, token_env).map_err(Error::usage)?,
        api: api(&remote, args.api_url.as_deref(), token_env, env),
        policy: &policy,
        target: args.base.clone().or_else(|| set("RUNNER_PUBLISH_BASE")),
        link: link(env),
        http: &http,
        files: &files,
        env: &git_env(env, &names),
        dry_run: args.dry_run,
    };
    let seal = match Seal::read(&place.run, args.digest.as_deref()) {
        Ok(seal) => seal,
        Err(why) => {
            say::error(&files.redacted(&format!("refused: {why}; nothing was pushed\n")));
            return Ok(ExitStatus::Failed);
        }
    };
    if args.digest.is_none() && snapshot.variable("CI").is_some() {
        say::error("note: without --digest the files of the run are held against each other alone\n");
    }
    let jobs = match &place.job {
        Some(job) => vec![job.clone()],
        None => jobs_of(&place.run).map_err(Error::usage)?,
    };
    let mut exit = ExitStatus::Passed;
    let mut count = 0;
    for job in &jobs {
        match publish_one(&publisher, &place, job, seal.as_ref(), args).await {
            Ok(None) => {}
            Ok(Some(line)) => {
                count += 1;
                say::result(&files.redacted(&format!("{line}\n")));
            }
            Err(fault) => {
                let (word, status) = match fault {
                    Fault::Refused(_) => ("refused", ExitStatus::Failed),
                    Fault::Failed(_) => ("failed", ExitStatus::Error),
                };
                say::error(&files.redacted(&format!("{job}: {word}: {}\n", fault.text())));
                exit = exit.max(status);
            }
        }
    }
    if count == 0 && exit == ExitStatus::Passed {
        say::error(&format!("nothing to publish in {}\n", place.run.display()));
    }
    Ok(exit)
}

async fn publish_one(
    publisher: &Publisher<'_>,
    place: &Place,
    job: &JobId,
    seal: Option<&Seal>,
    args: &PublishArgs,
) -> std::result::Result<Option<String>, Fault> {
    let unchanged = |why: String| Fault::Refused(format!("{why}; nothing was pushed"));
    let Some(checked) = read_job(&place.run, job, seal).map_err(unchanged)? else {
        return match place.job {
            Some(_) => Err(Fault::Refused(
                "it left nothing to be published: its work is to stay where it is, or it has none".into(),
            )),
            None => Ok(None),
        };
    };
    if !checked.passed() && !args.include_failed {
        say::error(&format!(
            "{job}: skipped: {} ({}); --include-failed publishes it as a draft\n",
            checked.file.verdict, checked.file.reason
        ));
        return Ok(None);
    }
    let (record, pushed) = publisher.publish(&checked).await?;
    let word = match pushed {
        _ if args.dry_run => "would be pushed",
        Pushed::Now => "pushed",
        Pushed::Before => "up to date",
    };
    let request = record.pull_request.map(|request| {
        let draft = if request.draft { " (draft)" } else { "" };
        format!("  {}{draft}", request.url)
    });
    Ok(Some(format!("{job}  {word}  {}{}", record.branch, request.unwrap_or_default())))
}

fn policy(args: &PublishArgs, snapshot: &Snapshot) -> Result<DiffPolicy> {
    let both = |flags: &[String], name: &str| [flags, &list(&snapshot.env, name)].concat();
    let (allow, branches) =
        (both(&args.allow, "RUNNER_PUBLISH_ALLOW"), both(&args.branches, "RUNNER_PUBLISH_BRANCHES"));
    let mut policy = DiffPolicy::new(&allow, &branches).map_err(Error::usage)?;
    policy.max_files = args.max_files.unwrap_or(policy.max_files);
    policy.max_lines = args.max_lines.unwrap_or(policy.max_lines);
    policy.max_bytes = args.max_bytes.unwrap_or(policy.max_bytes);
    Ok(policy)
}
