//! Files through which a step tells GitHub Actions its results. They are extras: that one of them cannot be written
//! never changes how a run ends.

use super::file::Files;
use super::folder::RunFolder;
use crate::error::Result;
use crate::report::summary::{self, Summary};
use crate::report::tally::RunStats;
use std::path::{Path, PathBuf};

/// The largest step summary that GitHub takes, in bytes; a larger one is dropped as a whole.
/// ("Adding a job summary", docs.github.com, 2026-11.)
const SUMMARY_MAX: u64 = 1024 * 1024;
/// Kept free for what later parts of the step may write, in bytes.
const SUMMARY_SPARE: u64 = 16 * 1024;

/// Paths that GitHub Actions names in the environment. Its presence says that the run is inside Actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GithubFiles {
    /// `GITHUB_STEP_SUMMARY`.
    pub summary: Option<PathBuf>,
    /// `GITHUB_OUTPUT`.
    pub output: Option<PathBuf>,
}

/// Adds the summary to what the step's file holds already.
pub(super) fn write_summary(files: &Files, path: &Path, summary: &Summary, stats: &RunStats) -> Result<()> {
    let used = std::fs::metadata(path).map_or(0, |found| found.len());
    let room = SUMMARY_MAX.saturating_sub(SUMMARY_SPARE).saturating_sub(used);
    let mut limit = usize::try_from(room).unwrap_or(usize::MAX).min(summary::MAX);
    let mut text = files.redacted(&summary.render(stats, limit));
    // What stands for a secret may be longer than the secret.
    while text.len() as u64 > room {
        limit /= 2;
        text = files.redacted(&summary.render(stats, limit));
    }
    files.append(path, &text)
}

/// Sets the outputs of the step.
pub(super) fn write_outputs(files: &Files, path: &Path, stats: &RunStats, folder: &RunFolder) -> Result<()> {
    let totals = stats.totals();
    let outputs = [
        ("passed", totals.passed.to_string()),
        ("failed", (totals.jobs - totals.passed).to_string()),
        ("run-id", stats.run.id.to_string()),
        ("junit", folder.file("junit.xml").display().to_string()),
        ("report", folder.file("summary.md").display().to_string()),
        ("cost-usd", format!("{:.6}", totals.cost.dollars())),
    ];
    let mut lines = String::new();
    for (name, value) in outputs {
        // A newline would let a path set an output of its own.
        lines.extend([name, "=", &value.replace(['\n', '\r'], " "), "\n"]);
    }
    files.append(path, &lines)
}
