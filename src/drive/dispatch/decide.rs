//! How a job is decided: the report of all its attempts, and the files of the one that decides.

use super::Dispatcher;
use crate::drive::context::Reporter;
use crate::drive::place::attempt_folder;
use crate::drive::publishing::publish;
use crate::event::{JobReport, RunEventKind};
use crate::outcome::{Outcome, Reason, Verdict};
use crate::output::copy_files;
use crate::report::json;
use crate::schedule::{Attempt, Cause};
use crate::units::{Usage, Usd};
use std::sync::Arc;

/// What of an attempt's folder stands in its job's folder once it decides.
const FILES: [&str; 3] = ["transcript.jsonl", "diff.patch", "tools"];

impl Dispatcher {
    /// Keeps how an attempt ended, on the disk too where the job may have several.
    pub(super) fn keep_attempt(&mut self, attempt: Attempt, mut report: JobReport) {
        let job = &self.jobs[attempt.job];
        if self.stopped.get(&attempt) == Some(&Cause::Sibling) && report.outcome.verdict() != Verdict::Passed {
            report.outcome.message = "stopped, because another attempt passed".into();
            report.attempts = vec![report.as_attempt(attempt.number)];
        }
        if job.course.tries() > 1 && report.outcome.verdict() != Verdict::Cancelled {
            let file = self.context.folder.join(attempt_folder(&job.id, attempt.number)).join("result.json");
            let text = json::result_file(&self.context.run, &report);
            if let Err(error) = self.context.files.replace(&file, &text) {
                let id = job.id.clone();
                self.tell(Some(id), RunEventKind::Warning(error.to_string()));
            }
        }
        self.ended.insert(attempt, report);
    }

    /// The job ends as one of its attempts did.
    pub(super) fn decide(&mut self, job: usize, number: u32) {
        let keys: Vec<Attempt> = self
            .ended
            .range(Attempt { job, number: 0 }..=Attempt { job, number: u32::MAX })
            .map(|(key, _)| *key)
            .collect();
        let all: Vec<JobReport> = keys.iter().filter_map(|key| self.ended.remove(key)).collect();
        let Some(deciding) = all.iter().find(|report| report.attempt == number) else { return };
        let planned = &self.jobs[job];
        if planned.course.tries() > 1 {
            let from = self.context.folder.join(attempt_folder(&planned.id, number));
            let to = self.context.job_folder(&planned.id);
            if let Err(error) = copy_files(&from, &to, &|name| FILES.iter().any(|file| name == *file)) {
                let text = format!("the files of attempt {number} do not stand in the job's folder: {error}");
                self.tell(Some(self.jobs[job].id.clone()), RunEventKind::Warning(text));
            }
        }
        let report = whole(deciding, &all, self.jobs[job].course.attempts);
        self.finished(report.clone());
        self.publish(job, report);
    }

    /// Sends the work of a decided job on its way, beside all else.
    pub(super) fn publish(&mut self, job: usize, report: JobReport) {
        let (jobs, context, events) = (Arc::clone(&self.jobs), Arc::clone(&self.context), self.events.0.clone());
        if context.publishing.wants(&jobs[job], &report) {
            let reporter = Reporter::new(jobs[job].id.clone(), context.clock, events);
            self.publishing.spawn(async move { publish(&jobs[job], &context, &reporter, report).await });
        }
    }
}

/// The report of a job, from those of its attempts. What all of them used and cost counts.
fn whole(deciding: &JobReport, all: &[JobReport], side_by_side: u32) -> JobReport {
    let usage = all.iter().fold(Usage::default(), |mut sum, report| {
        sum += report.usage;
        sum
    });
    let costs: Option<Vec<Usd>> = all.iter().map(|report| report.cost).collect();
    let started_at = all.iter().map(|report| report.started_at).min().unwrap_or(deciding.started_at);
    let ended_at =
        all.iter().map(|report| report.started_at.plus(report.duration)).max().unwrap_or(deciding.started_at);
    let mut report = JobReport {
        usage,
        cost: costs.map(|costs| costs.into_iter().fold(Usd::ZERO, |sum, cost| sum + cost)),
        model_calls: all.iter().map(|report| report.model_calls).sum(),
        retries: all.iter().map(|report| report.retries).sum(),
        attempts: all.iter().flat_map(|report| report.attempts.iter().cloned()).collect(),
        started_at,
        duration: ended_at.since(started_at),
        ..deciding.clone()
    };
    if deciding.outcome.verdict() == Verdict::Passed && deciding.attempt > side_by_side {
        let first = all.iter().find(|report| report.attempt != deciding.attempt);
        let why = first
            .map(|first| format!(", the first try ended as `{}`", first.outcome.reason.code()))
            .unwrap_or_default();
        let message = format!("passed on try {}{why}", deciding.attempt);
        report.outcome = Outcome { reason: Reason::CompletedFlaky, message, ..report.outcome };
    }
    report
}
