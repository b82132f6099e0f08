//! Finds the run, and perhaps the job, that a person names.

use super::Runs;
use crate::error::{Error, Result};
use crate::spec::nearest_word;
use crate::units::JobId;
use std::path::{Path, PathBuf};

/// A run, and a job of it if one was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The run's folder.
    pub run: PathBuf,
    /// The job.
    pub job: Option<JobId>,
}

/// Finds `RUN` or `RUN/JOB`, where `RUN` is what [`Runs::find`] takes.
///
/// # Errors
/// Says in words that there is no such run, more than one, or no such job in it.
pub fn find(root: &Path, cwd: &Path, name: &str) -> Result<Place> {
    let runs = Runs::at(root);
    let name = name.trim_end_matches('/');
    let unknown = match runs.find(name, cwd) {
        Ok(run) => return Ok(Place { run, job: None }),
        Err(error) => error,
    };
    let Some((run, job)) = name.rsplit_once('/') else { return Err(unknown) };
    // A path with the folder of all jobs in it means the same.
    let run = runs.find(run.strip_suffix("/jobs").unwrap_or(run), cwd)?;
    let id = JobId::new(job).map_err(Error::usage)?;
    if run.join("jobs").join(job).is_dir() {
        return Ok(Place { run, job: Some(id) });
    }
    let error = Error::usage(format!("the run {} has no job `{job}`", run.display()));
    let folders = std::fs::read_dir(run.join("jobs")).into_iter().flatten().flatten();
    let names: Vec<String> = folders.filter_map(|folder| folder.file_name().into_string().ok()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(match nearest_word(&names, job) {
        Some(near) => error.hint(format!("you may have meant `{near}`")),
        None => error.hint(format!("`runner show {}` lists its jobs", run.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn runs_are_found_by_id_beginning_word_and_folder() {
        let root = tempfile::tempdir().unwrap();
        for run in ["20261130-1-aa", "20261201-1-bb", "20261201-2-cc"] {
            let folder = root.path().join(".runner/runs").join(run);
            fs::create_dir_all(folder.join("jobs/fix")).unwrap();
            fs::write(folder.join("run.json"), "{}").unwrap();
        }
        let artifact = root.path().join("down/load");
        fs::create_dir_all(artifact.join("jobs/fix")).unwrap();
        fs::write(artifact.join("run.json"), "{}").unwrap();
        let found = |name: &str| {
            let place = find(root.path(), root.path(), name)?;
            let run = place.run.file_name().unwrap().to_string_lossy().into_owned();
            Ok::<_, Error>(place.job.map_or_else(|| run.clone(), |job| format!("{run} {job}")))
        };
        assert_eq!(found("20261130-1-aa").unwrap(), "20261130-1-aa");
        assert_eq!(found("20261201-2/fix").unwrap(), "20261201-2-cc fix");
        assert_eq!(found("last").unwrap(), "20261201-2-cc");
        assert_eq!(found("last/fix").unwrap(), "20261201-2-cc fix");
        assert_eq!(found("down/load").unwrap(), "load");
        assert_eq!(found("down/load/fix").unwrap(), "load fix");
        assert_eq!(found("down/load/jobs/fix/").unwrap(), "load fix");
        for (bad, why) in
            [("2026", "3 runs"), ("x", "no run"), ("", "no run"), ("last/none", "no job"), ("last/..", "job")]
        {
            let error = found(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
