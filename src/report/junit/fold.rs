//! The fold: each job's cases are made once, when it ends; the document can be asked for at any time.

use super::cases::{self, Case};
use super::document::{self, Suite};
use crate::event::{JobInfo, RunEvent, RunEventKind, RunInfo};
use crate::units::{Elapsed, JobId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// Gathers a run for `junit.xml`.
#[derive(Debug)]
pub struct Junit {
    run: RunInfo,
    /// Job files, each once, in the order of the plan.
    files: Vec<String>,
    /// For each job of the plan, the place of its file.
    places: Vec<usize>,
    now: Elapsed,
    body_limit: usize,
    ended: BTreeMap<JobId, Ended>,
}

#[derive(Debug)]
struct Ended {
    cases: Vec<Case>,
    time: Duration,
}

impl Junit {
    /// The largest text of a job, in bytes, and of its gates together: the two and the model's last words stay below
    /// the 65,535 that GitHub's checks take for one job.
    const BODY_MAX: usize = 20 * 1024;
    /// The smallest share of a case.
    const BODY_MIN: usize = 2 * 1024;
    /// What the texts of all jobs may take together, in bytes: the file is written again after each job.
    const BODIES_MAX: usize = 4 * 1024 * 1024;

    /// A run at its beginning.
    #[must_use]
    pub fn new(run: RunInfo) -> Self {
        let share = Self::BODIES_MAX / run.jobs.len().max(1);
        let mut files = Vec::new();
        let mut known = BTreeMap::new();
        let place_of = |job: &JobInfo| {
            *known.entry(job.file.clone()).or_insert_with(|| {
                files.push(job.file.clone());
                files.len() - 1
            })
        };
        let places = run.jobs.iter().map(place_of).collect();
        Self {
            run,
            files,
            places,
            now: Elapsed::default(),
            body_limit: share.clamp(Self::BODY_MIN, Self::BODY_MAX),
            ended: BTreeMap::new(),
        }
    }

    /// Takes note of an event.
    pub fn apply(&mut self, event: &RunEvent) {
        self.now = self.now.max(event.at);
        if let RunEventKind::JobFinished(report) = &event.kind {
            let cases = cases::of(&self.run.shown_folder, report, self.body_limit);
            self.ended.insert(report.info.id.clone(), Ended { cases, time: report.duration });
        }
    }

    /// The document as it stands. Jobs that have not ended are in it as errors, so that a run that was killed never
    /// looks green.
    ///
    /// # Errors
    /// Only for a fault of the XML writer.
    pub fn document(&self) -> Result<String, String> {
        let empty = |file| Suite { file, cases: Vec::new(), time: Duration::ZERO };
        let mut suites: Vec<Suite<'_>> = self.files.iter().map(|file| empty(file.as_str())).collect();
        for (job, place) in self.run.jobs.iter().zip(&self.places) {
            if let Some(suite) = suites.get_mut(*place) {
                self.add(suite, job);
            }
        }
        if suites.is_empty() {
            // Some readers fail on a report without any suite.
            suites.push(empty("no jobs"));
        }
        document::write(&self.run, self.now, &suites)
    }

    fn add<'a>(&'a self, suite: &mut Suite<'a>, job: &JobInfo) {
        match self.ended.get(&job.id) {
            Some(ended) => {
                suite.cases.extend(ended.cases.iter().map(Cow::Borrowed));
                suite.time += ended.time;
            }
            None => suite.cases.push(Cow::Owned(cases::not_finished(job))),
        }
    }
}
