//! `run.json` back to what a run was.

use super::codes::{exit, maybe, schema};
use super::result::seconds;
use crate::event::{JobInfo, RunInfo};
use crate::exit::ExitStatus;
use crate::outcome::Reason;
use crate::units::{JobId, RunId, Turns};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A run, as its `run.json` tells.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// What was known when it began.
    pub info: RunInfo,
    /// What it was told.
    pub settings: BTreeMap<String, String>,
    /// How it ended; `None` when it was killed, or still goes on.
    pub exit: Option<ExitStatus>,
    /// How long it took, up to the last writing.
    pub duration: Duration,
    /// How each job ended that did, in the order of the plan.
    pub reasons: Vec<Option<Reason>>,
    /// Its warnings: the job, if it was one's, and the text.
    pub warnings: Vec<(Option<JobId>, String)>,
    /// What is needed to go on with it; `null` in a run that was merged from others.
    pub plan: Value,
}

#[derive(Deserialize)]
struct RunFile {
    schema: u32,
    run: String,
    version: String,
    started_at: String,
    exit_code: Option<u8>,
    duration_s: f64,
    slots: usize,
    settings: BTreeMap<String, String>,
    jobs: Vec<JobValue>,
    warnings: Vec<WarningValue>,
    #[serde(default)]
    plan: Value,
}

#[derive(Deserialize)]
struct JobValue {
    job: String,
    file: String,
    stem: String,
    description: String,
    #[serde(default)]
    tags: Vec<String>,
    model: String,
    max_turns: u32,
    gates: Vec<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct WarningValue {
    job: Option<String>,
    text: String,
}

/// Reads the text of a `run.json` that lies in `folder`, which the person knows as `shown`.
///
/// # Errors
/// Says in words what is wrong with it.
pub fn run_record(text: &str, folder: &Path, shown: &str) -> Result<RunRecord, String> {
    let file: RunFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    schema(file.schema)?;
    let reasons: Result<_, String> = file.jobs.iter().map(|job| maybe(job.reason.as_deref())).collect();
    let warnings: Result<_, String> = file
        .warnings
        .into_iter()
        .map(|warning| Ok((warning.job.as_deref().map(JobId::new).transpose()?, warning.text)))
        .collect();
    Ok(RunRecord {
        info: RunInfo {
            id: RunId(file.run),
            started_at: file.started_at,
            folder: folder.to_owned(),
            shown_folder: shown.to_owned(),
            jobs: file.jobs.into_iter().map(job).collect::<Result<_, _>>()?,
            slots: file.slots,
            version: file.version,
        },
        settings: file.settings,
        exit: file.exit_code.map(exit).transpose()?,
        duration: seconds(file.duration_s),
        reasons: reasons?,
        warnings: warnings?,
        plan: file.plan,
    })
}

fn job(value: JobValue) -> Result<JobInfo, String> {
    Ok(JobInfo {
        id: JobId::new(&value.job)?,
        file: value.file,
        stem: value.stem,
        description: value.description,
        tags: value.tags,
        model: value.model,
        max_turns: Turns(value.max_turns),
        gates: value.gates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RunEventKind;
    use crate::report::json::run_file;
    use crate::report::sample;
    use crate::report::tally::RunStats;

    #[test]
    fn a_run_comes_back_as_it_was_written() {
        let mut stats = RunStats::new(sample::run(&["a", "b"]));
        stats.apply(&sample::event(10, "a", sample::finished("a", Reason::GateFailed)));
        stats.apply(&sample::event(20, "b", RunEventKind::Warning("low disk".into())));
        let settings = BTreeMap::from([("slots".to_owned(), "2".to_owned())]);
        let plan = serde_json::json!({ "cwd": "." });
        let read = |stats: &RunStats| {
            let text = run_file(stats, &settings, &plan);
            run_record(&text, &stats.run.folder, &stats.run.shown_folder).unwrap()
        };
        let record = read(&stats);
        assert_eq!((&record.info, record.exit), (&stats.run, None));
        assert_eq!(record.reasons, [Some(Reason::GateFailed), None]);
        assert_eq!(record.warnings, [(Some(sample::id("b")), "low disk".to_owned())]);
        assert_eq!((&record.settings, &record.plan), (&settings, &plan));
        stats.apply(&sample::event(2_500, "", RunEventKind::RunFinished { exit: ExitStatus::Interrupted }));
        let record = read(&stats);
        assert_eq!((record.exit, record.duration), (Some(ExitStatus::Interrupted), Duration::from_millis(2_500)));
    }
}
