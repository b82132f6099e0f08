//! `runner report`: several runs as one.

use super::look::{named, runs_of};
use super::recipe::Recipe;
use super::say;
use crate::cli::ReportArgs;
use crate::error::{Error, Result};
use crate::event::{JobReport, RunEvent, RunEventKind, RunInfo};
use crate::exit::ExitStatus;
use crate::load::Snapshot;
use crate::outcome::{Outcome, Reason};
use crate::output::{Sink, SinkSettings, copy_files};
use crate::plan::select::Shard;
use crate::report::merge::{Merged, Part, merge};
use crate::store::StoredRun;
use crate::units::{Elapsed, RunId};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the reports of several runs as those of one. Its exit status is what one run would have had; a job that did not end, or a part
/// that is missing, makes it 3.
pub(super) fn report(args: &ReportArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let mut stored: Vec<StoredRun> = args.runs.iter().map(|said| named(said, snapshot)).collect::<Result<_>>()?;
    stored.sort_by(|one, other| one.record.info.id.cmp(&other.record.info.id));
    stored.dedup_by(|one, other| one.folder == other.folder);
    for trouble in stored.iter().flat_map(|run| &run.trouble) {
        say::error(&format!("warning: {trouble}\n"));
    }
    let parts: Vec<Part> = stored.iter().map(part).collect();
    let merged = merge(&parts);
    let info = info(args, snapshot, &stored, &merged)?;
    let exit = write(args, snapshot, info, &stored, &merged)?;
    for doubt in &merged.doubts {
        say::error(&format!("warning: {doubt}\n"));
    }
    Ok(if merged.doubts.is_empty() { exit } else { exit.max(ExitStatus::Error) })
}

fn part(run: &StoredRun) -> Part {
    let recipe = Recipe::read(&run.record.plan).unwrap_or_default();
    let shard = recipe.shard.as_deref().and_then(|text| Shard::parse(text).ok());
    Part {
        info: run.record.info.clone(),
        reports: run.reports.clone(),
        all: recipe.all,
        shard: shard.map(|shard| (shard.index, shard.count)),
    }
}

fn info(args: &ReportArgs, snapshot: &Snapshot, stored: &[StoredRun], merged: &Merged) -> Result<RunInfo> {
    let Some(first) = stored.first() else { return Err(Error::usage("no run is named")) };
    let id = RunId(format!("{}-merged", first.record.info.id));
    let folder = match &args.out {
        Some(out) => snapshot.cwd.join(out),
        None => free(&runs_of(snapshot).folder().join(&id.0)),
    };
    if folder.exists() && fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(
            Error::usage(format!("the folder {} is not empty", folder.display())).hint("name another one: --out DIR")
        );
    }
    // An empty one is as good as none.
    drop(fs::remove_dir(&folder));
    Ok(RunInfo {
        id,
        started_at: stored.iter().map(|run| run.record.info.started_at.clone()).min().unwrap_or_default(),
        shown_folder: folder.strip_prefix(&snapshot.cwd).unwrap_or(&folder).display().to_string(),
        folder,
        jobs: merged.jobs.iter().map(|(info, ..)| info.clone()).collect(),
        slots: stored.iter().map(|run| run.record.info.slots).sum(),
        version: first.record.info.version.clone(),
    })
}

fn free(folder: &Path) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let others = (2..=u32::MAX).map(|number| folder.with_file_name(format!("{name}-{number}")));
    std::iter::once(folder.to_owned()).chain(others).find(|place| !place.exists()).unwrap_or_else(|| folder.to_owned())
}

fn write(
    args: &ReportArgs,
    snapshot: &Snapshot,
    info: RunInfo,
    stored: &[StoredRun],
    merged: &Merged,
) -> Result<ExitStatus> {
    let names: Vec<&str> = stored.iter().map(|run| run.record.info.id.0.as_str()).collect();
    let settings = BTreeMap::from([("merged".to_owned(), names.join(" "))]);
    let folder = info.folder.clone();
    let mut sink = Sink::open(SinkSettings {
        settings,
        junit_extra: args.junit.as_ref().map(|path| snapshot.cwd.join(path)),
        ..super::run::plain_sink(snapshot, info.clone(), args.color)
    })?;
    let mut at = Elapsed::default();
    sink.handle(&RunEvent { at, job: None, kind: RunEventKind::RunStarted(info) });
    let mut verdicts = Vec::new();
    for (job, report, place) in &merged.jobs {
        let report = match report {
            Some(report) => report.clone(),
            None => JobReport {
                outcome: Outcome::without_loop(Reason::Interrupted, "it had not ended when its run did"),
                ..super::job::unknown_report(job.clone(), at)
            },
        };
        if let Some(run) = stored.get(*place) {
            sink.told_in(&job.id, &run.folder);
            let (from, to) = (run.folder.join("jobs").join(job.id.as_str()), folder.join("jobs").join(job.id.as_str()));
            // The result is written anew.
            copy_files(&from, &to, &|name| name != "result.json")?;
        }
        at = at.max(report.started_at.plus(report.duration));
        verdicts.push(super::dispatch::counted(&report));
        sink.handle(&RunEvent { at, job: Some(job.id.clone()), kind: RunEventKind::JobFinished(Box::new(report)) });
    }
    let exit = if verdicts.is_empty() { ExitStatus::Passed } else { ExitStatus::of(verdicts) };
    // The report of an interrupted run is no interrupted report.
    let exit = if exit > ExitStatus::Error { ExitStatus::Error } else { exit };
    sink.handle(&RunEvent { at, job: None, kind: RunEventKind::RunFinished { exit } });
    let warnings = sink.finish();
    Ok(if warnings.is_empty() { exit } else { exit.max(ExitStatus::Error) })
}
