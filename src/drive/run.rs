//! `runner run`: from arguments to an exit status.

use super::clock::Clock;
use super::context::RunContext;
use super::dispatch::{Batch, Before, Dispatcher};
use super::publishing::{self, Publishing};
use super::recipe::Recipe;
use super::secrets;
use super::select::{Selected, select};
use super::settings::Settings;
use super::signal::Signals;
use super::{limits, room, say};
use crate::cli::{self, RunArgs};
use crate::error::{Error, Kind, Result};
use crate::event::RunInfo;
use crate::exit::ExitStatus;
use crate::load::{self, Snapshot};
use crate::model::Http;
use crate::output::{EventsTo, Format, GithubFiles, Sink, SinkSettings};
use crate::plan::{Plan, PlannedJob, Purpose};
use crate::process;
use crate::publish::token_names;
use crate::report::plain::Detail;
use crate::report::redact::Secret;
use crate::store::{RunLock, Runs, StoredRun};
use crate::units::{JobId, RunId};
use crate::worktree::Repository;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A run that is to begin, or to go on.
pub(super) struct Order<'a> {
    pub(super) args: &'a RunArgs,
    /// What the process was started with after its own name: what a run that goes on is planned from.
    pub(super) line: Vec<String>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) id: RunId,
    pub(super) plan: Plan,
    pub(super) selected: Selected,
    /// The run that goes on, held by this process.
    pub(super) again: Option<Again>,
}

/// A run that goes on.
pub(super) struct Again {
    pub(super) stored: StoredRun,
    pub(super) lock: RunLock,
    pub(super) before: BTreeMap<JobId, Before>,
    /// What to tell first.
    pub(super) notes: Vec<String>,
}

/// Runs the jobs.
///
/// # Errors
/// Whatever is wrong before the first job starts. What goes wrong in a job is its outcome.
pub(super) fn run(args: &RunArgs, snapshot: &Snapshot, line: Vec<String>) -> Result<ExitStatus> {
    let settings = Settings::from_env(&snapshot.env)?;
    let clock = Clock::start();
    let id = clock.run_id();
    let args = RunArgs { which: load::with_input(args.which.clone())?, ..args.clone() };
    limits::of(&args)?;
    let mut plan = match load::plan(&args.which, snapshot, &id, Purpose::Run) {
        Ok(plan) => plan,
        Err(failure) => return Ok(say::failure(&failure, args.color, snapshot)),
    };
    say::findings(&plan.warnings, args.color, snapshot);
    let selected = select(&args.which, snapshot, &mut plan)?;
    if args.dry_run {
        say::result(&plan.text());
        return Ok(ExitStatus::Passed);
    }
    start(Order { args: &args, line, snapshot, settings, clock, id, plan, selected, again: None })
}

/// Starts a run whose plan is known.
pub(super) fn start(order: Order<'_>) -> Result<ExitStatus> {
    if let Some((first, rest)) = room::problems(&order.plan.jobs).split_first() {
        return Err(rest.iter().fold(Error::usage(first.clone()), |error, more| error.because(more.clone())));
    }
    process::adopt_orphans();
    process::open_many_files();
    process::keep_private();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Environment, "cannot start").because(error.to_string()))?;
    let result = runtime.block_on(drive(order));
    // A blocking call that hangs (a dead network disk) must not keep the process from ending.
    runtime.shutdown_background();
    process::sweep();
    result
}

async fn drive(order: Order<'_>) -> Result<ExitStatus> {
    let Order { args, line, snapshot, settings, clock, id, plan, selected, again } = order;
    let limits = limits::of(args)?;
    let signals = Signals::listen()?;
    let repository = Repository::discover(&snapshot.cwd).await.ok();
    let root = repository.as_ref().map_or(snapshot.cwd.as_path(), Repository::root);
    let (folder, begun) = match &again {
        Some(again) => (again.stored.folder.clone(), again.stored.record.info.started_at.clone()),
        None => (Runs::at(root).folder().join(&id.0), clock.started_at()),
    };
    let slots = args.at_once.map_or_else(default_slots, usize::from);
    let publishing = Publishing::prepare(&plan.jobs, snapshot).await?;
    let mut key_names = secrets::key_names(&plan.jobs);
    key_names.extend(token_names(&snapshot.env));
    let info = RunInfo {
        id: id.clone(),
        started_at: begun,
        shown_folder: shown(&folder, &snapshot.cwd),
        folder: folder.clone(),
        jobs: plan.jobs.iter().map(PlannedJob::info).collect(),
        slots,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let hidden = secrets::hidden(&snapshot.env, &key_names);
    let git_dir = repository.as_ref().map(|repository| repository.common_dir().to_owned());
    let recipe = match &again {
        Some(again) => again.stored.record.plan.clone(),
        None => Recipe::of(args, line, snapshot, root, &plan.jobs, &selected).await.value(),
    };
    let settings_of_sink = sink_settings(args, snapshot, info.clone(), hidden);
    let sink = Sink::open(SinkSettings { git_dir, goes_on: again.is_some(), plan: recipe, ..settings_of_sink })?;
    let (before, notes, lock) = match again {
        Some(Again { before, notes, lock, stored: _ }) => (before, notes, lock),
        None => (selected.done, Vec::new(), take_lock(&folder)?),
    };
    let context = RunContext {
        run: id,
        folder,
        files: sink.files().clone(),
        worktrees: worktrees(&settings.worktrees, root)?,
        env: snapshot.env.clone(),
        key_names,
        making: Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)),
        clock,
        http: Arc::new(Http::new(settings.connect, concat!("runner/", env!("CARGO_PKG_VERSION")))),
        publishing,
        timeouts: settings.timeouts,
        patience: settings.patience,
    };
    let run_worktrees = context.worktrees.join(&context.run.0);
    let (left, files) = (sink.folder().clone(), sink.files().clone());
    let jobs: Vec<_> = info.jobs.iter().map(|job| job.id.clone()).collect();
    let dispatcher = Dispatcher::new(Batch { jobs: plan.jobs, slots, limits, before, notes }, context, sink);
    let (exit, warnings) = dispatcher.run(info, signals).await;
    publishing::seal_all(&left, &jobs, &files, snapshot)?;
    // Only an empty folder goes: kept worktrees stay where the reports say.
    drop(std::fs::remove_dir(run_worktrees));
    drop(lock);
    // They were shown when they came up; without its reports a run has not passed.
    Ok(if warnings.is_empty() || exit > ExitStatus::Error { exit } else { exit.max(ExitStatus::Error) })
}

/// The lock of a run that has just been made.
fn take_lock(folder: &Path) -> Result<RunLock> {
    RunLock::take(folder)?.map_err(|holder| {
        Error::new(Kind::Environment, format!("the run {} is held by {}", folder.display(), holder.said))
    })
}

/// Jobs wait for models most of their time, so there are several for each processor; but each has processes of its own
/// now and then, and a provider's rate limits are met long before the upper bound.
fn default_slots() -> usize {
    const LEAST: usize = 8;
    const MOST: usize = 32;
    std::thread::available_parallelism().map_or(LEAST, |count| (count.get() * 4).clamp(LEAST, MOST))
}

/// The first place that can be written to, with a folder for this repository in it.
fn worktrees(places: &[PathBuf], root: &Path) -> Result<PathBuf> {
    let name = root.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let mut problem = String::new();
    for place in places {
        let folder = place.join(&name);
        match std::fs::create_dir_all(&folder).and_then(|()| folder.canonicalize()) {
            Ok(folder) => return Ok(folder),
            Err(error) => problem = format!("{}: {error}", folder.display()),
        }
    }
    Err(Error::new(Kind::Environment, "no folder for worktrees can be made")
        .because(problem)
        .hint("set RUNNER_WORKTREES to a folder that can be written to"))
}

/// A path as the person would write it.
fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}

fn sink_settings(args: &RunArgs, snapshot: &Snapshot, run: RunInfo, secrets: Vec<Secret>) -> SinkSettings {
    let events_to = |path: &PathBuf| {
        if path.as_os_str() == "-" { EventsTo::Stdout } else { EventsTo::File(snapshot.cwd.join(path)) }
    };
    SinkSettings {
        settings: settings_of(args, &run),
        plan: serde_json::Value::Null,
        run,
        git_dir: None,
        goes_on: false,
        junit_extra: args.junit.as_ref().map(|path| snapshot.cwd.join(path)),
        events_extra: args.events.as_ref().map(events_to),
        format: match args.format {
            cli::Format::Pretty => Format::Pretty,
            cli::Format::Plain => Format::Plain,
            cli::Format::Json => Format::Json,
        },
        detail: match (args.quiet, args.verbose) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::Verbose,
            (false, false) => Detail::Normal,
        },
        color: say::color(args.color),
        stdout: say::terminal(snapshot, snapshot.stdout_is_terminal),
        stderr: say::terminal(snapshot, snapshot.stderr_is_terminal),
        width: say::width(snapshot),
        github: github(snapshot),
        secrets,
    }
}

/// How a command that runs nothing tells of a run.
pub(super) fn plain_sink(snapshot: &Snapshot, run: RunInfo, color: cli::Color) -> SinkSettings {
    SinkSettings {
        run,
        goes_on: false,
        git_dir: None,
        settings: BTreeMap::new(),
        plan: serde_json::Value::Null,
        junit_extra: None,
        events_extra: None,
        format: Format::Plain,
        detail: Detail::Normal,
        color: say::color(color),
        stdout: say::terminal(snapshot, snapshot.stdout_is_terminal),
        stderr: say::terminal(snapshot, snapshot.stderr_is_terminal),
        width: say::width(snapshot),
        github: github(snapshot),
        secrets: secrets::hidden(&snapshot.env, &[]),
    }
}

/// The files of GitHub Actions, inside of it.
fn github(snapshot: &Snapshot) -> Option<GithubFiles> {
    (snapshot.variable("GITHUB_ACTIONS") == Some("true")).then(|| GithubFiles {
        summary: snapshot.variable("GITHUB_STEP_SUMMARY").map(PathBuf::from),
        output: snapshot.variable("GITHUB_OUTPUT").map(PathBuf::from),
    })
}

/// What the run was told, for `run.json`.
fn settings_of(args: &RunArgs, run: &RunInfo) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::from([
        ("jobs".to_owned(), args.which.jobs.join(" ")),
        ("slots".to_owned(), run.slots.to_string()),
        ("fail_fast".to_owned(), args.fail_fast.to_string()),
    ]);
    settings.extend(args.max_failures.map(|max| ("max_failures".to_owned(), max.to_string())));
    settings.extend(args.max_cost_usd.clone().map(|cap| ("max_cost_usd".to_owned(), cap)));
    settings.extend(args.timeout.clone().map(|limit| ("timeout".to_owned(), limit)));
    settings.extend(args.which.retries.map(|count| ("retries".to_owned(), count.to_string())));
    settings.extend(args.which.model.clone().map(|model| ("model".to_owned(), model)));
    settings
}
