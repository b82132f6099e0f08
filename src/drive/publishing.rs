//! Publishing at the end of a job: what is to be published is left in its folder, and pushed at once where that is possible.

use super::context::{Reporter, RunContext};
use super::say;
use crate::error::{Error, Result};
use crate::event::{JobReport, RunEventKind};
use crate::load::Snapshot;
use crate::outcome::Verdict;
use crate::output::{Files, RunFolder};
use crate::plan::{OnPass, PlannedJob, Source};
use crate::process::Environment;
use crate::publish::{Api, Checked, DiffPolicy, Leaving, Publisher, Remote, Way, is_published, leave, seal};
use crate::units::JobId;
use crate::worktree::{Pushed, Repository, WAYS};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the work of a run goes, as it was before the first job began: nothing that an agent writes into a repository's settings
/// changes it.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    remotes: BTreeMap<PathBuf, Goal>,
}

/// Where the work of one repository goes.
#[derive(Debug)]
struct Goal {
    start: PathBuf,
    remote: Remote,
    current: Option<String>,
    now: bool,
}

impl Publishing {
    /// Looks up the remotes of all jobs that want to be pushed.
    ///
    /// # Errors
    /// A job wants to be pushed, and there is nowhere to push it to.
    pub(super) async fn prepare(jobs: &[PlannedJob], snapshot: &Snapshot) -> Result<Self> {
        let mut remotes = BTreeMap::new();
        for job in jobs {
            let wants = matches!(job.publish.on_pass, OnPass::Push | OnPass::PullRequest);
            let Source::Repo(start) = &job.source else { continue };
            if !wants || remotes.contains_key(start) {
                continue;
            }
            let at = |why: String| {
                Error::usage(format!("the job `{}` is to be pushed, but {why}", job.id))
                    .hint("`[publish] on_pass = \"branch\"` keeps its work here")
            };
            let repository = Repository::discover(start).await.map_err(at)?;
            let remote = remote_of(&repository, None, &snapshot.env).map_err(at)?;
            let credentials = remote.credentials(&snapshot.env, None).map_err(at)?;
            let alone = credentials.is_some() || remote.way != Way::Http || snapshot.variable("CI").is_none();
            let now = alone && remote.way != Way::OpenHttp && snapshot.variable("RUNNER_PUBLISH") != Some("later");
            remotes.insert(
                start.clone(),
                Goal { start: start.clone(), remote, current: repository.current_branch(), now },
            );
        }
        Ok(Self { remotes })
    }

    fn goal(&self, job: &PlannedJob) -> Option<&Goal> {
        match (&job.source, job.publish.on_pass) {
            (Source::Repo(start), OnPass::Push | OnPass::PullRequest) => self.remotes.get(start),
            (Source::Fixture(_), _) | (_, OnPass::None | OnPass::Branch) => None,
        }
    }

    /// Whether there is something to leave or to push of a job that ended so.
    pub(super) fn wants(&self, job: &PlannedJob, report: &JobReport) -> bool {
        let ended = match report.outcome.verdict() {
            Verdict::Passed | Verdict::Failed | Verdict::Error => true,
            Verdict::Skipped | Verdict::Cancelled => false,
        };
        ended && report.commit.is_some() && self.goal(job).is_some()
    }
}

/// The remote that is pushed to.
pub(super) fn remote_of(
    repository: &Repository,
    name: Option<&str>,
    env: &BTreeMap<String, String>,
) -> std::result::Result<Remote, String> {
    let told = env.get("RUNNER_PUBLISH_REMOTE").map(|name| name.trim()).filter(|name| !name.is_empty());
    let remote = Remote::parse(&repository.remote_url(name.or(told).unwrap_or("origin"))?)?;
    Ok(remote.seen_from(repository.root()))
}

/// What git runs with when it publishes.
pub(super) fn git_env(env: &BTreeMap<String, String>, secret_names: &[String]) -> Environment {
    // The person's agent for keys, certificates and the like.
    let pass: Vec<String> = ["SSH_AUTH_SOCK"].iter().chain(&WAYS).map(|name| (*name).to_owned()).collect();
    Environment::build(env, &pass, &BTreeMap::new(), secret_names)
}

/// A list in a variable: split at commas and new lines.
pub(super) fn list(env: &BTreeMap<String, String>, name: &str) -> Vec<String> {
    let parts = env.get(name).map(String::as_str).unwrap_or_default().split([',', '\n']);
    parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The page of the run in the CI service that it runs in.
pub(super) fn link(env: &BTreeMap<String, String>) -> Option<String> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let github = || {
        let (server, repository, run) = (set("GITHUB_SERVER_URL")?, set("GITHUB_REPOSITORY")?, set("GITHUB_RUN_ID")?);
        Some(format!("{server}/{repository}/actions/runs/{run}"))
    };
    let others = ["CI_JOB_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL", "BUILD_URL"];
    github().or_else(|| others.iter().find_map(|name| set(name).cloned()))
}

/// Leaves what is to be published of a decided job, and publishes it when it passed and may be pushed from here. What goes wrong is
/// told, and changes nothing about the job.
pub(super) async fn publish(job: &PlannedJob, context: &RunContext, reporter: &Reporter, report: JobReport) {
    let Some(goal) = context.publishing.goal(job) else { return };
    match leave_and_publish(job, context, goal, &report).await {
        Ok(None) => {}
        Ok(Some(note)) => reporter.tell(RunEventKind::Note(note)).await,
        Err(problem) => reporter.tell(RunEventKind::Warning(problem)).await,
    }
}

async fn leave_and_publish(
    job: &PlannedJob,
    context: &RunContext,
    goal: &Goal,
    report: &JobReport,
) -> std::result::Result<Option<String>, String> {
    let folder = context.job_folder(&job.id);
    if is_published(&folder) {
        return Ok(None); // By the process that this one goes on for.
    }
    let env = git_env(&context.env, &context.key_names);
    let repository = Repository::discover(&goal.start).await?;
    let target = target(&repository, &job.worktree.base, goal).await;
    let leaving = Leaving {
        run: &context.run,
        report,
        on_pass: job.publish.on_pass,
        asked: &job.prompt,
        remote: &goal.remote.url,
        target: target.as_deref(),
    };
    let left = leave(leaving, &folder, &repository, &context.files, &env).await;
    let left = left.map_err(|why| format!("nothing was left to be published: {why}"))?;
    let Some(checked) = left.filter(|_| report.outcome.verdict() == Verdict::Passed) else { return Ok(None) };
    let later = format!("`runner publish {}/{}` pushes it", context.run, job.id);
    if !goal.now {
        return Ok(Some(format!("its branch is left as a bundle: {later}")));
    }
    let done = publish_now(context, goal, &repository, &env, &checked).await;
    done.map(Some).map_err(|why| format!("not published: {why}; when that is mended, {later}"))
}

async fn publish_now(
    context: &RunContext,
    goal: &Goal,
    repository: &Repository,
    env: &Environment,
    checked: &Checked,
) -> std::result::Result<String, String> {
    // The branch comes from the plan, which the person wrote.
    let branches = [globset::escape(&checked.file.branch)];
    let policy = DiffPolicy::new(&list(&context.env, "RUNNER_PUBLISH_ALLOW"), &branches)?;
    let publisher = Publisher {
        repository,
        remote: &goal.remote,
        credentials: goal.remote.credentials(&context.env, None)?,
        api: api(&goal.remote, None, None, &context.env),
        policy: &policy,
        target: context.env.get("RUNNER_PUBLISH_BASE").cloned().filter(|base| !base.is_empty()),
        link: link(&context.env),
        http: &context.http,
        files: &context.files,
        env,
        dry_run: false,
    };
    let (record, pushed) = publisher.publish(checked).await.map_err(|fault| fault.text().to_owned())?;
    let pushed = match pushed {
        Pushed::Now => format!("pushed `{}` to {}", record.branch, record.remote),
        Pushed::Before => format!("`{}` is at {} already", record.branch, record.remote),
    };
    Ok(record.pull_request.map_or_else(|| pushed.clone(), |request| format!("{pushed}, pull request {}", request.url)))
}

/// The API of the remote's forge and the token for it.
pub(super) fn api(
    remote: &Remote,
    url: Option<&str>,
    token_env: Option<&str>,
    env: &BTreeMap<String, String>,
) -> std::result::Result<Api, String> {
    let url = remote.api(url, env)?;
    let token = remote.api_token(env, token_env).ok_or_else(|| {
        "no token for the forge was found: set RUNNER_PUBLISH_TOKEN, or name the variable that holds it by --token-env".to_owned()
    })?;
    Ok(Api { url, token })
}

/// The branch that a pull request is for: the one that the job's base is, where it is one.
async fn target(repository: &Repository, base: &str, goal: &Goal) -> Option<String> {
    if base == "HEAD" {
        return goal.current.clone();
    }
    let name = base.strip_prefix("refs/heads/").unwrap_or(base);
    if repository.branch(name).await.ok().flatten().is_some() {
        return Some(name.to_owned());
    }
    name.strip_prefix("origin/").map(str::to_owned)
}

/// Writes the list of digests of what the run leaves, and tells its digest to the person and to the workflow.
pub(super) fn seal_all(run: &RunFolder, jobs: &[JobId], files: &Files, snapshot: &Snapshot) -> Result<()> {
    let Some(digest) = seal(run, jobs.iter(), files)? else { return Ok(()) };
    say::error(&format!("to publish: digest {digest}\n"));
    if let Some(path) =
        snapshot.variable("GITHUB_OUTPUT").filter(|_| snapshot.variable("GITHUB_ACTIONS") == Some("true"))
    {
        files.append(&snapshot.cwd.join(path), &format!("publish-digest={digest}\n"))?;
    }
    Ok(())
}
