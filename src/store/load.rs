//! A run, read from its folder.

use crate::error::{Error, Kind, Result};
use crate::event::JobReport;
use crate::report::json::read::{RunRecord, job_report, run_record};
use crate::units::Elapsed;
use serde_json::Value;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A run, as its folder tells.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Where it is.
    pub folder: PathBuf,
    /// What its `run.json` says.
    pub record: RunRecord,
    /// For each job, in the order of the plan, what its `result.json` says; `None` where there is none that can be read.
    pub reports: Vec<Option<JobReport>>,
    /// The moment of the last event.
    pub last: Elapsed,
    /// What could not be read, in words.
    pub trouble: Vec<String>,
}

/// Reads a run. `shown` is how a person would call its folder.
///
/// # Errors
/// Its `run.json` cannot be read: without it nothing is known of the run.
pub fn load(folder: &Path, shown: &str) -> Result<StoredRun> {
    let path = folder.join("run.json");
    let text = fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?;
    let record = run_record(&text, folder, shown)
        .map_err(|problem| Error::new(Kind::Environment, format!("cannot read {}: {problem}", path.display())))?;
    let mut trouble = Vec::new();
    let mut reports = Vec::new();
    for job in &record.info.jobs {
        let path = folder.join("jobs").join(job.id.as_str()).join("result.json");
        let report = match fs::read_to_string(&path) {
            Ok(text) => match job_report(&text) {
                Ok(report) if report.info.id == job.id => Some(report),
                Ok(report) => {
                    trouble.push(format!("{} is about another job, `{}`", path.display(), report.info.id));
                    None
                }
                Err(problem) => {
                    trouble.push(format!("cannot read {}: {problem}", path.display()));
                    None
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                trouble.push(format!("cannot read {}: {error}", path.display()));
                None
            }
        };
        reports.push(report);
    }
    let last = last_moment(&folder.join("events.jsonl")).max(Elapsed(record.duration));
    Ok(StoredRun { folder: folder.to_owned(), record, reports, last, trouble })
}

/// The moment of the last event that can be read.
fn last_moment(path: &Path) -> Elapsed {
    // An event of a megabyte would be a large one; the line before it does as well.
    const TAIL: u64 = 4 << 20;
    let tail = || {
        let mut file = fs::File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = tail().unwrap_or_default();
    let moment = |line: &[u8]| {
        let value: Value = serde_json::from_slice(line).ok()?;
        Duration::try_from_secs_f64(value.get("at")?.as_f64()?).ok()
    };
    bytes.split(|byte| *byte == b'\n').rev().find_map(moment).map(Elapsed).unwrap_or_default()
}
