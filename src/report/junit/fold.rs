//! The fold: each job's cases are written once, when it ends; the document can be asked for at any time.

use super::cases;
use super::document::{self, Suite, Written};
use crate::event::{JobInfo, RunEvent, RunEventKind, RunInfo};
use crate::units::Elapsed;
use std::collections::BTreeMap;
use std::time::Duration;

/// Gathers a run for `junit.xml`.
#[derive(Debug)]
pub struct Junit {
    run: RunInfo,
    now: Elapsed,
    body_limit: usize,
    /// Job files, each once, in the order of the plan.
    files: Vec<String>,
    jobs: Vec<Job>,
    problem: Option<String>,
}

#[derive(Debug)]
struct Job {
    /// The place of its file.
    file: usize,
    written: Written,
}

impl Junit {
    /// The largest text of a job, in bytes, and of its gates together: the two and the model's last words stay below
    /// the 65,535 that GitHub's checks take for one job.
    const BODY_MAX: usize = 20 * 1024;
    /// The smallest share of a job.
    const BODY_MIN: usize = 2 * 1024;
    /// What the texts of all jobs may take together, in bytes: the file is written again after each job.
    const BODIES_MAX: usize = 2 * 1024 * 1024;

    /// A run at its beginning. Jobs that have not ended are errors, so that a run that was killed never looks green.
    #[must_use]
    pub fn new(run: RunInfo) -> Self {
        let share = Self::BODIES_MAX / run.jobs.len().max(1);
        let body_limit = share.clamp(Self::BODY_MIN, Self::BODY_MAX);
        let mut junit =
            Self { run, now: Elapsed::default(), body_limit, files: Vec::new(), jobs: Vec::new(), problem: None };
        let mut places = BTreeMap::new();
        for info in junit.run.jobs.clone() {
            let file = *places.entry(info.file.clone()).or_insert(junit.files.len());
            if file == junit.files.len() {
                junit.files.push(info.file.clone());
            }
            let written = junit.write(&[cases::not_finished(&info)], Duration::ZERO);
            junit.jobs.push(Job { file, written });
        }
        junit
    }

    /// Takes note of an event.
    pub fn apply(&mut self, event: &RunEvent) {
        self.now = self.now.max(event.at);
        let RunEventKind::JobFinished(report) = &event.kind else { return };
        let of_this = |job: &JobInfo| job.id == report.info.id;
        if let Some(place) = self.run.jobs.iter().position(of_this) {
            let cases = cases::of(&self.run.shown_folder, report, self.body_limit);
            let written = self.write(&cases, report.duration);
            self.jobs[place].written = written;
        }
    }

    /// The document as it stands.
    ///
    /// # Errors
    /// Only for a fault of the XML writer.
    pub fn document(&self) -> Result<String, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let mut suites: Vec<Suite<'_>> = self.files.iter().map(|file| Suite { file, jobs: Vec::new() }).collect();
        for job in &self.jobs {
            suites[job.file].jobs.push(&job.written);
        }
        if suites.is_empty() {
            // Some readers fail on a report without any suite.
            suites.push(Suite { file: "no jobs", jobs: Vec::new() });
        }
        document::whole(&self.run, self.now, &suites).map_err(|problem| format!("junit.xml: {problem}"))
    }

    fn write(&mut self, cases: &[cases::Case], time: Duration) -> Written {
        document::cases(cases, time).unwrap_or_else(|problem| {
            self.problem = Some(format!("junit.xml: {problem}"));
            Written::default()
        })
    }
}
