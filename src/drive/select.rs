//! From flags and the CI's variables to what is chosen of a plan.

use super::dispatch::Before as Earlier;
use super::job::blank_report;
use super::look::named;
use super::say;
use crate::cli::JobArgs;
use crate::error::{Error, Result};
use crate::event::JobReport;
use crate::load::Snapshot;
use crate::outcome::{Outcome, Reason, Verdict};
use crate::plan::select::{Before, Choice, Chosen, Filter, Shard, choose, from_ci};
use crate::plan::{Plan, PlannedJob};
use crate::spec::nearest_word;
use crate::store::StoredRun;
use crate::units::{Elapsed, JobId};
use std::collections::{BTreeMap, BTreeSet};

/// What was chosen, and what is known of it from earlier runs.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub(super) chosen: Chosen,
    pub(super) shard: Option<Shard>,
    /// Jobs that are not run, since they had passed in the run that this one repeats.
    pub(super) done: BTreeMap<JobId, Earlier>,
}

/// Leaves the jobs that are asked for.
///
/// # Errors
/// Says what is wrong with a flag, or that nothing is left.
pub(super) fn select(args: &JobArgs, snapshot: &Snapshot, plan: &mut Plan) -> Result<Selected> {
    let run = |said: &str| named(said, snapshot);
    let mut choice = Choice { filter: filter(args)?, ..Choice::default() };
    if choice.filter.as_ref().is_some_and(Filter::asks_before) {
        choice.before = before(&run("last")?);
    }
    let (shard, source) = shard(args, snapshot)?;
    choice.shard = shard;
    if let Some(said) = &args.shard_by {
        let took = |report: &JobReport| (report.info.id.to_string(), report.duration);
        choice.durations = Some(run(said)?.reports.iter().flatten().map(took).collect());
    }
    let mut done = BTreeMap::new();
    let mut passed = BTreeSet::new();
    if let Some(said) = &args.rerun_failed {
        let stored = run(said)?;
        let wanted = failed(&stored, &args.reason)?;
        for report in stored.reports.iter().flatten().filter(|report| report.outcome.verdict() == Verdict::Passed) {
            passed.insert(report.info.id.to_string());
        }
        let left: BTreeSet<String> = plan.jobs.iter().map(|job| job.id.to_string()).collect();
        for gone in wanted.iter().filter(|job| !left.contains(*job)) {
            say::error(&format!("warning: `{gone}` did not pass in {said}, and no job file defines it any more\n"));
        }
        plan.jobs.retain(|job| wanted.contains(job.id.as_str()) || passed.contains(job.id.as_str()));
        let names: Vec<String> = wanted.iter().map(|name| format!("name:{name}")).collect();
        let repeated = Filter::parse(&names.join(" or ")).ok();
        choice.filter = match (repeated, choice.filter.take()) {
            (Some(repeated), Some(filter)) => Some(repeated.and(filter)),
            (repeated, filter) => repeated.or(filter),
        };
        if wanted.is_empty() {
            return Err(Error::no_jobs(format!("in {said} there is nothing that did not pass for such a reason")));
        }
        let chosen = choose(plan, &choice);
        for job in plan.jobs.iter().filter(|job| !wanted.contains(job.id.as_str())) {
            let report = stored.reports.iter().flatten().find(|report| report.info.id == job.id);
            done.extend(report.map(|report| (job.id.clone(), Earlier::Decided(Box::new(already_done(job, report))))));
        }
        return finish(plan, chosen, shard, source, done);
    }
    let chosen = choose(plan, &choice);
    finish(plan, chosen, shard, source, done)
}

fn finish(
    plan: &Plan,
    chosen: Chosen,
    shard: Option<Shard>,
    source: Option<String>,
    done: BTreeMap<JobId, Earlier>,
) -> Result<Selected> {
    for (job, whose) in chosen.needed.iter().filter(|(job, _)| !done.keys().any(|done| done.as_str() == job)) {
        say::error(&format!("note: `{job}` is run too, because `{whose}` needs it\n"));
    }
    if let (Some(shard), Some(source)) = (shard, source) {
        let (count, all) = (plan.jobs.len(), chosen.all.len());
        say::error(&format!(
            "note: shard {shard}, as {source} says: {count} of {all} jobs; --shard 1/1 runs them all\n"
        ));
    }
    // A part may well be empty; a filter that takes nothing is a mistake.
    if plan.jobs.is_empty() && shard.is_none() {
        return Err(
            Error::no_jobs(format!("of {} jobs none is chosen", chosen.all.len())).hint("`runner check` lists them")
        );
    }
    Ok(Selected { chosen, shard, done })
}

fn filter(args: &JobArgs) -> Result<Option<Filter>> {
    let parse = |text: &String| {
        Filter::parse(text)
            .map_err(|fault| Error::usage("--filter cannot be read").because(format!("\n{}", fault.shown(text))))
    };
    let filters: Vec<Filter> = args.filter.iter().map(parse).collect::<Result<_>>()?;
    Ok(Filter::any(filters))
}

/// The part, and who says so when it was not the person.
fn shard(args: &JobArgs, snapshot: &Snapshot) -> Result<(Option<Shard>, Option<String>)> {
    if let Some(text) = &args.shard {
        let shard = Shard::parse(text).map_err(|why| Error::usage(format!("--shard `{text}`: {why}")))?;
        return Ok((Some(shard).filter(|shard| shard.count > 1), None));
    }
    let said = from_ci(|name| snapshot.variable(name)).map_err(Error::usage)?;
    Ok(said.map_or((None, None), |(shard, source)| (Some(shard), Some(source.name.to_owned()))))
}

fn before(stored: &StoredRun) -> BTreeMap<String, Before> {
    let before = |report: &JobReport| {
        (report.info.id.to_string(), Before { verdict: report.outcome.verdict(), reason: report.outcome.reason })
    };
    stored.reports.iter().flatten().map(before).collect()
}

/// The jobs of a run that did not pass: those that did not even end among them, unless reasons are asked for.
fn failed(stored: &StoredRun, reasons: &[String]) -> Result<BTreeSet<String>> {
    let codes: Vec<&str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    if let Some(wrong) = reasons.iter().find(|reason| !codes.contains(&reason.as_str())) {
        let error = Error::usage(format!("--reason `{wrong}`: no job ends so"));
        return Err(match nearest_word(&codes, wrong) {
            Some(near) => error.hint(format!("you may have meant `{near}`")),
            None => error,
        });
    }
    let wanted = |report: &JobReport| match report.outcome.verdict() {
        Verdict::Passed => false,
        // What had passed before that one stays so.
        Verdict::Skipped if report.outcome.reason == Reason::AlreadyDone => false,
        Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled => {
            reasons.is_empty() || reasons.iter().any(|reason| reason == report.outcome.reason.code())
        }
    };
    let ended = stored.record.info.jobs.iter().zip(&stored.reports);
    let left = ended.filter(|(_, report)| report.as_ref().map_or(reasons.is_empty(), wanted));
    Ok(left.map(|(job, _)| job.id.to_string()).collect())
}

/// A job that passed in the run that is repeated: not run, and others may build on its work.
fn already_done(job: &PlannedJob, report: &JobReport) -> JobReport {
    let outcome = Outcome::without_loop(Reason::AlreadyDone, "not run again, because it had passed");
    let (base, branch, commit) = (report.base.clone(), report.branch.clone(), report.commit.clone());
    JobReport { outcome, base, branch, commit, ..blank_report(job, Elapsed::default()) }
}
