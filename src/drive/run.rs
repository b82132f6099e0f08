//! `runner run`: from arguments to an exit status.

use super::clock::Clock;
use super::context::RunContext;
use super::dispatch::Dispatcher;
use super::secrets;
use super::settings::Settings;
use super::signal::Signals;
use super::{room, say};
use crate::cli::{self, RunArgs};
use crate::error::{Error, Kind, Result};
use crate::event::RunInfo;
use crate::exit::ExitStatus;
use crate::load::{self, Snapshot};
use crate::model::Http;
use crate::output::{EventsTo, Format, GithubFiles, Sink, SinkSettings};
use crate::plan::{Plan, PlannedJob, Purpose};
use crate::process;
use crate::report::plain::Detail;
use crate::report::redact::Secret;
use crate::schedule::FailFast;
use crate::units::RunId;
use crate::worktree::Repository;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The least default of `-j`: jobs wait for models most of their time, so a small machine still runs some side by side.
const LEAST_SLOTS: usize = 4;

/// Runs the jobs.
///
/// # Errors
/// Whatever is wrong before the first job starts. What goes wrong in a job is its outcome.
pub(super) fn run(args: &RunArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let settings = Settings::from_env(&snapshot.env)?;
    let clock = Clock::start();
    let run = clock.run_id();
    let plan = match load::plan(&args.which, snapshot, &run, Purpose::Run) {
        Ok(plan) => plan,
        Err(failure) => return Ok(say::failure(&failure, args.color, snapshot)),
    };
    say::findings(&plan.warnings, args.color, snapshot);
    if let Some((first, rest)) = room::problems(&plan.jobs).split_first() {
        return Err(rest.iter().fold(Error::usage(first.clone()), |error, more| error.because(more.clone())));
    }
    if args.dry_run {
        say::result(&plan.text());
        return Ok(ExitStatus::Passed);
    }
    process::adopt_orphans();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Kind::Environment, "cannot start").because(error.to_string()))?;
    let result = runtime.block_on(drive(args, snapshot, settings, clock, run, plan));
    // A blocking call that hangs (a dead network disk) must not keep the process from ending.
    runtime.shutdown_background();
    process::sweep();
    result
}

async fn drive(
    args: &RunArgs,
    snapshot: &Snapshot,
    settings: Settings,
    clock: Clock,
    run: RunId,
    plan: Plan,
) -> Result<ExitStatus> {
    let signals = Signals::listen()?;
    let repository = Repository::discover(&snapshot.cwd).await.ok();
    let root = repository.as_ref().map_or(snapshot.cwd.as_path(), Repository::root);
    let folder = root.join(".runner/runs").join(&run.0);
    let slots = args.at_once.map_or_else(default_slots, usize::from);
    let key_names = secrets::key_names(&plan.jobs);
    let info = RunInfo {
        id: run.clone(),
        started_at: clock.started_at(),
        shown_folder: shown(&folder, &snapshot.cwd),
        folder: folder.clone(),
        jobs: plan.jobs.iter().map(PlannedJob::info).collect(),
        slots,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let hidden = secrets::hidden(&snapshot.env, &key_names);
    let git_dir = repository.as_ref().map(|repository| repository.common_dir().to_owned());
    let sink = Sink::open(SinkSettings { git_dir, ..sink_settings(args, snapshot, info.clone(), hidden) })?;
    let context = RunContext {
        run,
        folder,
        files: sink.files().clone(),
        worktrees: worktrees(&settings.worktrees, root)?,
        env: snapshot.env.clone(),
        key_names,
        clock,
        http: Arc::new(Http::new(settings.connect, concat!("runner/", env!("CARGO_PKG_VERSION")))),
        timeouts: settings.timeouts,
        patience: settings.patience,
    };
    let fail_fast = if args.fail_fast { FailFast::On } else { FailFast::Off };
    let run_worktrees = context.worktrees.join(&context.run.0);
    let dispatcher = Dispatcher::new(plan.jobs, context, slots, fail_fast, sink);
    let (exit, warnings) = dispatcher.run(info, signals).await;
    // Only an empty folder goes: kept worktrees stay where the reports say.
    drop(std::fs::remove_dir(run_worktrees));
    // They were shown when they came up; without its reports a run has not passed.
    Ok(if warnings.is_empty() || exit > ExitStatus::Error { exit } else { exit.max(ExitStatus::Error) })
}

fn default_slots() -> usize {
    std::thread::available_parallelism().map_or(LEAST_SLOTS, |count| count.get().max(LEAST_SLOTS))
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
    let github = (snapshot.variable("GITHUB_ACTIONS") == Some("true")).then(|| GithubFiles {
        summary: snapshot.variable("GITHUB_STEP_SUMMARY").map(PathBuf::from),
        output: snapshot.variable("GITHUB_OUTPUT").map(PathBuf::from),
    });
    let events_to = |path: &PathBuf| {
        if path.as_os_str() == "-" { EventsTo::Stdout } else { EventsTo::File(snapshot.cwd.join(path)) }
    };
    SinkSettings {
        settings: settings_of(args, &run),
        plan: serde_json::Value::Null,
        run,
        git_dir: None,
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
        github,
        secrets,
    }
}

/// What the run was told, for `run.json`.
fn settings_of(args: &RunArgs, run: &RunInfo) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::from([
        ("jobs".to_owned(), args.which.jobs.join(" ")),
        ("slots".to_owned(), run.slots.to_string()),
        ("fail_fast".to_owned(), args.fail_fast.to_string()),
    ]);
    settings.extend(args.which.model.clone().map(|model| ("model".to_owned(), model)));
    settings
}
