//! What a run leaves for publishing: a bundle and `publish.json` of each job, and a list of digests at the end.

use super::check::Checked;
use super::record::{PublishFile, SCHEMA, sha256, text};
use crate::error::Result;
use crate::event::JobReport;
use crate::output::{Files, RunFolder};
use crate::plan::OnPass;
use crate::process::Environment;
use crate::report::cut::marked_head;
use crate::units::{JobId, RunId};
use crate::worktree::Repository;
use std::path::Path;

/// The bundle of a job.
pub(super) const BUNDLE: &str = "work.bundle";
/// What is to be published of a job.
pub(super) const PUBLISH: &str = "publish.json";
/// What was published of a job.
pub(super) const PUBLISHED: &str = "published.json";
/// A job's patch.
pub(super) const PATCH: &str = "diff.patch";
/// A job's result.
pub(super) const RESULT: &str = "result.json";
/// The list of digests in a run's folder, as `sha256sum` writes it.
pub(super) const SEAL: &str = "publish.sha256";
/// The most of what was asked, in bytes.
const ASKED_MAX: usize = 16_000;

/// What is to be published of a job.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The run's name.
    pub run: &'a RunId,
    /// How the job ended: with a commit.
    pub report: &'a JobReport,
    /// How far it goes.
    pub on_pass: OnPass,
    /// What was asked of the model.
    pub asked: &'a str,
    /// Where the remote leads, without a password.
    pub remote: &'a str,
    /// The branch that a pull request is for, where it is known.
    pub target: Option<&'a str>,
}

/// Writes a job's bundle and its `publish.json` into its folder, and gives back what can be published of it at once. `None` when
/// there is nothing to publish.
///
/// # Errors
/// Says in words what could not be written.
pub async fn leave(
    leaving: Leaving<'_>,
    folder: &Path,
    repository: &Repository,
    files: &Files,
    env: &Environment,
) -> std::result::Result<Option<Checked>, String> {
    match leaving.on_pass {
        OnPass::None | OnPass::Branch => return Ok(None),
        OnPass::Push | OnPass::PullRequest => {}
    }
    let report = leaving.report;
    let (Some(base), Some(commit), Some(branch)) = (&report.base, &report.commit, &report.branch) else {
        return Ok(None);
    };
    let bundle = folder.join(BUNDLE);
    repository.write_bundle(base, branch, &bundle, env).await?;
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let (patch, work) = (read(&folder.join(PATCH))?, read(&bundle)?);
    let file = PublishFile {
        schema: SCHEMA,
        runner: env!("CARGO_PKG_VERSION").into(),
        run: leaving.run.0.clone(),
        job: report.info.id.to_string(),
        on_pass: leaving.on_pass.code().into(),
        verdict: report.outcome.verdict().code().into(),
        reason: report.outcome.reason.code().into(),
        base: base.clone(),
        commit: commit.clone(),
        branch: branch.clone(),
        remote: leaving.remote.into(),
        target: leaving.target.map(str::to_owned),
        asked: marked_head(leaving.asked, ASKED_MAX),
        bundle_sha256: sha256(&work),
        patch_sha256: sha256(&patch),
    };
    files.replace(&folder.join(PUBLISH), &text(&file)).map_err(|error| error.to_string())?;
    Ok(Some(Checked { folder: folder.to_owned(), file, report: report.clone(), bundle: work.into() }))
}

/// Whether a job, by its folder, was published.
#[must_use]
pub fn is_published(folder: &Path) -> bool {
    folder.join(PUBLISHED).is_file()
}

/// Writes the list of digests of what a run's jobs leave to be published, and gives back the digest of the list itself: who
/// knows it can tell later whether any of it was changed. `None` when there is nothing to publish.
///
/// # Errors
/// Names the path that cannot be written.
pub fn seal<'a>(run: &RunFolder, jobs: impl Iterator<Item = &'a JobId>, files: &Files) -> Result<Option<String>> {
    let mut list = String::new();
    for job in jobs.filter(|job| run.job(job).join(PUBLISH).is_file()) {
        for name in [PUBLISH, RESULT, BUNDLE, PATCH] {
            // What cannot be read is missed when it is looked for.
            if let Ok(bytes) = std::fs::read(run.job(job).join(name)) {
                list.push_str(&format!("{}  jobs/{job}/{name}\n", sha256(&bytes)));
            }
        }
    }
    if list.is_empty() {
        return Ok(None);
    }
    files.replace(&run.file(SEAL), &list)?;
    Ok(Some(sha256(list.as_bytes())))
}
