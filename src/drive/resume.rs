//! `runner resume`: goes on with a run that was interrupted or killed.

use super::clock::Clock;
use super::dispatch::Before;
use super::past::Past;
use super::place::Place;
use super::recipe::{Print, Recipe, prints};
use super::run::{Again, Order, start};
use super::say;
use super::select::Selected;
use super::settings::Settings;
use crate::cli::{Cli, Command, ResumeArgs, RunArgs};
use crate::error::{Error, Kind, Result};
use crate::event::JobReport;
use crate::exit::ExitStatus;
use crate::load::{self, Snapshot};
use crate::outcome::{Reason, Verdict};
use crate::plan::select::{Choice, choose};
use crate::plan::{Plan, PlannedJob, Purpose};
use crate::report::json::read::job_report;
use crate::store::{RunLock, Runs, StoredRun, load};
use crate::units::JobId;
use clap::Parser;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Goes on with a run.
///
/// # Errors
/// There is no such run, it is held by a living process, or something has changed since that was not allowed.
pub(super) fn resume(args: &ResumeArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let settings = Settings::from_env(&snapshot.env)?;
    let root = snapshot.repository_root().unwrap_or(&snapshot.cwd).to_owned();
    let folder = chosen(args, snapshot, &Runs::at(&root))?;
    let stored = load(&folder, &folder.strip_prefix(&snapshot.cwd).unwrap_or(&folder).display().to_string())?;
    let id = stored.record.info.id.clone();
    let lock = RunLock::take(&folder)?.map_err(|holder| {
        Error::usage(format!("the run {id} is still at work: {}", holder.said)).hint("wait for it, or end it first")
    })?;
    for trouble in &stored.trouble {
        say::error(&format!("warning: {trouble}\n"));
    }
    let Some(recipe) = Recipe::read(&stored.record.plan) else {
        return Err(Error::usage(format!("the run {id} does not say how it was planned"))
            .hint("it was merged from others, or is from an earlier version; run its jobs again"));
    };
    let run_args = planned_args(&recipe, args)?;
    let snapshot = Snapshot { cwd: root.join(&recipe.cwd), ..snapshot.clone() };
    let mut plan = match load::plan(&run_args.which, &snapshot, &id, Purpose::Run) {
        Ok(plan) => plan,
        Err(failure) => return Ok(say::failure(&failure, args.color, &snapshot)),
    };
    let only = Some(recipe.jobs.keys().cloned().collect());
    let chosen = choose(&mut plan, &Choice { only, ..Choice::default() });
    let selected = Selected { chosen, ..Selected::default() };
    let before = before(&stored, &plan.jobs, &folder);
    let decided = before.values().filter(|before| matches!(before, Before::Decided(_))).count();
    if decided == plan.jobs.len() && stored.record.exit.is_some() {
        say::error(&format!("the run {id} is over: there is nothing to go on with\n"));
        return Ok(stored.record.exit.unwrap_or(ExitStatus::Passed));
    }
    let changes = changes(&stored, &recipe, &plan, &root)?;
    if !changes.is_empty() && !args.allow_changes {
        let error = Error::usage(format!("the run {id} is not gone on with, because something has changed since"));
        let error = changes.into_iter().fold(error, Error::because);
        return Err(error.hint("go on with what is there now: --allow-changes; or run the jobs anew: runner run"));
    }
    let clock = Clock::go_on(&stored.record.info.started_at, stored.last)
        .map_err(|problem| Error::new(Kind::Environment, format!("cannot read the run {id}: {problem}")))?;
    let mut notes = vec![format!("the run goes on: {decided} of {} jobs are over", plan.jobs.len())];
    notes.extend(changes.into_iter().map(|change| format!("changed since it began: {change}")));
    let again = Some(Again { stored, lock, before, notes });
    start(Order { args: &run_args, line: recipe.args, snapshot: &snapshot, settings, clock, id, plan, selected, again })
}

/// The run that is meant: without a name, the last one that is not over.
fn chosen(args: &ResumeArgs, snapshot: &Snapshot, runs: &Runs) -> Result<PathBuf> {
    if let Some(said) = &args.run {
        return runs.find(said, &snapshot.cwd);
    }
    let is_open = |folder: &&PathBuf| {
        let Ok(stored) = load(folder, "") else { return false };
        let cancelled = |report: &JobReport| report.outcome.verdict() == Verdict::Cancelled;
        stored.record.exit.is_none() || stored.reports.iter().any(|report| report.as_ref().is_none_or(cancelled))
    };
    runs.list().iter().rfind(is_open).cloned().ok_or_else(|| {
        Error::usage(format!("there is no run in {} that is not over", runs.folder().display()))
            .hint("`runner run` makes a new one")
    })
}

/// The arguments that the run was begun with, and what this command says about how it is shown.
fn planned_args(recipe: &Recipe, args: &ResumeArgs) -> Result<RunArgs> {
    let words = std::iter::once("runner").chain(recipe.args.iter().map(String::as_str));
    let parsed = Cli::try_parse_from(words).map_err(|error| {
        Error::usage("the command line of the run means nothing to this version").because(error.to_string())
    })?;
    let Command::Run(run) = parsed.command else {
        return Err(Error::usage("the run was begun by another command"));
    };
    let mut which = run.which.clone();
    which.input = recipe.input.clone().map(String::into_bytes);
    Ok(RunArgs {
        which,
        at_once: args.at_once.or(run.at_once),
        format: args.format,
        color: args.color,
        quiet: args.quiet,
        verbose: args.verbose,
        ..run
    })
}

/// What has changed since the run began, in words.
fn changes(stored: &StoredRun, recipe: &Recipe, plan: &Plan, root: &Path) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Environment, error.to_string()))?;
    let now = runtime.block_on(prints(&plan.jobs, root));
    let mut changes = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    if stored.record.info.version != version {
        changes.push(format!("the runner: it was version {}, and this is {version}", stored.record.info.version));
    }
    for (job, was) in &recipe.jobs {
        match now.get(job) {
            None => changes.push(format!("job `{job}`: its job file does not define it any more")),
            Some(is) => changes.extend(change(was, is).map(|what| format!("job `{job}`: {what}"))),
        }
    }
    Ok(changes)
}

fn change(was: &Print, is: &Print) -> Option<String> {
    if was.model != is.model {
        return Some(format!("its model was {}, and is {}", was.model, is.model));
    }
    if was.plan != is.plan {
        return Some("its job file or settings say something else".into());
    }
    let short =
        |base: &Option<String>| base.as_deref().map_or("unknown", |base| &base[..base.len().min(10)]).to_owned();
    (was.base != is.base).then(|| format!("its base was {}, and is {}", short(&was.base), short(&is.base)))
}

/// What the run has come to with each job.
fn before(stored: &StoredRun, jobs: &[PlannedJob], folder: &Path) -> BTreeMap<JobId, Before> {
    let known: BTreeMap<&JobId, &JobReport> =
        stored.reports.iter().flatten().map(|report| (&report.info.id, report)).collect();
    let of = |job: &PlannedJob| match known.get(&job.id) {
        Some(report) if is_over(report) => Before::Decided(Box::new((*report).clone())),
        Some(_) | None => begun(job, folder),
    };
    jobs.iter().map(|job| (job.id.clone(), of(job))).collect()
}

/// Whether a job is over: it came to an end of its own.
fn is_over(report: &JobReport) -> bool {
    match report.outcome.verdict() {
        Verdict::Passed | Verdict::Failed | Verdict::Error => !report.attempts.is_empty(),
        Verdict::Skipped => report.outcome.reason == Reason::AlreadyDone,
        Verdict::Cancelled => false,
    }
}

fn begun(job: &PlannedJob, folder: &Path) -> Before {
    let (mut ended, mut open) = (BTreeMap::new(), BTreeMap::new());
    for number in 1..=job.course.tries() {
        let shown = Place::shown(job, number);
        let place = folder.join(shown);
        let report = if job.course.tries() > 1 { fs::read_to_string(place.join("result.json")).ok() } else { None };
        match report.and_then(|text| job_report(&text).ok()) {
            Some(report) => drop(ended.insert(number, report)),
            None => drop(open.insert(number, Past::read(&place))),
        }
    }
    Before::Begun { ended, open }
}
