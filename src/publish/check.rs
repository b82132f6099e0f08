//! Reads what a job left to be published, and believes none of it: every file is held against the others and against the list of
//! digests. Nothing of it is run.

use super::leave::{BUNDLE, PATCH, PUBLISH, RESULT, SEAL};
use super::record::{PublishFile, SCHEMA, sha256};
use crate::event::JobReport;
use crate::outcome::Verdict;
use crate::report::json::read::job_report;
use crate::units::JobId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest JSON file that is read, in bytes.
const JSON_MAX: u64 = 16 << 20;
/// The largest bundle or patch, in bytes.
const WORK_MAX: u64 = 1 << 30;

/// A job whose files agree.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its folder.
    pub folder: PathBuf,
    /// What is to be published.
    pub file: PublishFile,
    /// How it ended.
    pub report: JobReport,
    /// Its commits.
    pub bundle: Bytes,
}

impl Checked {
    /// Whether the job passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.report.outcome.verdict() == Verdict::Passed
    }
}

/// The digests of a run's files, by their path in its folder.
#[derive(Clone, Debug, Default)]
pub struct Seal(BTreeMap<String, String>);

impl Seal {
    /// Reads the list of a run. With a digest, which came by a way that can be trusted, the list must be that very one; without,
    /// a run that was killed before it wrote one has none.
    ///
    /// # Errors
    /// Says in words that the list is not the one that was sealed, or is none.
    pub fn read(run: &Path, digest: Option<&str>) -> Result<Option<Self>, String> {
        let path = run.join(SEAL);
        if path.symlink_metadata().is_err() && digest.is_none() {
            return Ok(None);
        }
        let bytes = read(&path, JSON_MAX)?;
        let is = sha256(&bytes);
        if let Some(wanted) = digest.map(|digest| digest.trim().to_ascii_lowercase()).filter(|wanted| *wanted != is) {
            return Err(format!(
                "{} was changed since the run ended: its digest is {is}, not {wanted}",
                path.display()
            ));
        }
        let text = String::from_utf8_lossy(&bytes);
        let entry = |line: &str| line.split_once("  ").map(|(digest, path)| (path.to_owned(), digest.to_owned()));
        let list: Option<BTreeMap<String, String>> = text.lines().map(entry).collect();
        list.map(|list| Some(Self(list))).ok_or_else(|| format!("{} is no list of digests", path.display()))
    }

    fn check(&self, job: &JobId, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = format!("jobs/{job}/{name}");
        match self.0.get(&path) {
            Some(digest) if *digest == sha256(bytes) => Ok(()),
            Some(_) => Err(format!("{path} was changed since the run ended: its digest is not the one in {SEAL}")),
            None => Err(format!("{path} is not in {SEAL}: it was not there when the run ended")),
        }
    }
}

/// Reads a job of a run and checks that its files agree. `None` when it leaves nothing to be published.
///
/// # Errors
/// Says in words which file does not fit the others.
pub fn read_job(run: &Path, job: &JobId, seal: Option<&Seal>) -> Result<Option<Checked>, String> {
    let folder = run.join("jobs").join(job.as_str());
    for path in [run.join("jobs"), folder.clone()] {
        if !path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            return Err(format!("{} is no folder", path.display()));
        }
    }
    if folder.join(PUBLISH).symlink_metadata().is_err() {
        return match seal.filter(|seal| seal.0.contains_key(&format!("jobs/{job}/{PUBLISH}"))) {
            Some(_) => Err(format!("{} was taken away since the run ended", folder.join(PUBLISH).display())),
            None => Ok(None),
        };
    }
    let load = |name: &str, most: u64| {
        let bytes = read(&folder.join(name), most)?;
        seal.map_or(Ok(()), |seal| seal.check(job, name, &bytes))?;
        Ok::<_, String>(bytes)
    };
    let wrong = |name: &str, why: &str| format!("{}: {why}", folder.join(name).display());
    let text = load(PUBLISH, JSON_MAX)?;
    let file: PublishFile = serde_json::from_slice(&text).map_err(|error| wrong(PUBLISH, &error.to_string()))?;
    if file.schema != SCHEMA {
        return Err(wrong(PUBLISH, &format!("schema {} is none that this version reads", file.schema)));
    }
    if !matches!(file.on_pass.as_str(), "push" | "pull-request") {
        return Err(wrong(PUBLISH, &format!("on_pass is {:?}", file.on_pass)));
    }
    let text = load(RESULT, JSON_MAX)?;
    let report = job_report(&String::from_utf8_lossy(&text)).map_err(|error| wrong(RESULT, &error))?;
    let same = |name: &str, here: &str, there: Option<&str>| {
        let there = there.unwrap_or("none");
        let problem = format!("{name} is {here}, but in {RESULT} {there}: one of the two was changed");
        if here == there { Ok(()) } else { Err(wrong(PUBLISH, &problem)) }
    };
    same("job", &file.job, Some(job.as_str()))?;
    same("job", &file.job, Some(report.info.id.as_str()))?;
    same("verdict", &file.verdict, Some(report.outcome.verdict().code()))?;
    same("reason", &file.reason, Some(report.outcome.reason.code()))?;
    same("base", &file.base, report.base.as_deref())?;
    same("commit", &file.commit, report.commit.as_deref())?;
    same("branch", &file.branch, report.branch.as_deref())?;
    let patch = load(PATCH, WORK_MAX)?;
    let bundle = load(BUNDLE, WORK_MAX)?;
    for (name, bytes, wanted) in [(PATCH, &patch, &file.patch_sha256), (BUNDLE, &bundle, &file.bundle_sha256)] {
        let is = sha256(bytes);
        if is != *wanted {
            return Err(wrong(
                name,
                &format!("its digest is {is}, but {PUBLISH} says {wanted}: one of the two was changed"),
            ));
        }
    }
    Ok(Some(Checked { folder, file, report, bundle: bundle.into() }))
}

/// The result of a job, from its folder.
///
/// # Errors
/// Says in words what is wrong with it.
pub fn result_of(folder: &Path) -> Result<JobReport, String> {
    let text = read(&folder.join(RESULT), JSON_MAX)?;
    job_report(&String::from_utf8_lossy(&text)).map_err(|why| format!("{}: {why}", folder.join(RESULT).display()))
}

/// The bundle of a job, from its folder.
///
/// # Errors
/// Says in words why it cannot be read.
pub fn bundle_of(folder: &Path) -> Result<Bytes, String> {
    read(&folder.join(BUNDLE), WORK_MAX).map(Bytes::from)
}

/// The jobs of a run that have a folder, in order of their names.
///
/// # Errors
/// Says that the folder cannot be read.
pub fn jobs_of(run: &Path) -> Result<Vec<JobId>, String> {
    let folder = run.join("jobs");
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut jobs: Vec<JobId> = names.filter_map(|name| JobId::new(&name).ok()).collect();
    jobs.sort();
    Ok(jobs)
}

/// A file, unless it is a link, a device or too large.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let cannot = |why: &str| format!("cannot read {}: {why}", path.display());
    let about = path.symlink_metadata().map_err(|error| cannot(&error.to_string()))?;
    if !about.is_file() {
        return Err(cannot("it is no regular file"));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| cannot(&error.to_string()))?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error.to_string()))?;
    if bytes.len() as u64 > most {
        return Err(cannot(&format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}
