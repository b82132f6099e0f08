//! Leaves only the jobs that are asked for, and what they need.

use super::filter::{Before, Filter};
use super::shard::Shard;
use crate::plan::{Plan, PlannedJob};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Jobs that it takes; `None`: all.
    pub filter: Option<Filter>,
    /// Of those, the ones of this part.
    pub shard: Option<Shard>,
    /// How long jobs took before, to balance the parts by.
    pub durations: Option<BTreeMap<String, Duration>>,
    /// How jobs ended before.
    pub before: BTreeMap<String, Before>,
    /// These jobs alone, whatever else is asked for.
    pub only: Option<BTreeSet<String>>,
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The names of all jobs of the plan, in their order.
    pub all: Vec<String>,
    /// Jobs that nobody asked for but that are needed, and who needs them.
    pub needed: Vec<(String, String)>,
}

/// Leaves only the jobs that are asked for, and what they need.
pub fn choose(plan: &mut Plan, choice: &Choice) -> Chosen {
    let all: Vec<String> = plan.jobs.iter().map(|job| job.id.to_string()).collect();
    let before = |job: &PlannedJob| choice.before.get(job.id.as_str()).copied();
    let filter = choice.filter.as_ref();
    let is_wanted = |job: &PlannedJob| match &choice.only {
        Some(only) => only.contains(job.id.as_str()),
        None => filter.is_none_or(|filter| filter.takes(job, before(job))),
    };
    let mut wanted: Vec<bool> = plan.jobs.iter().map(is_wanted).collect();
    let needed = if choice.only.is_some() { Vec::new() } else { add_needs(&plan.jobs, &mut wanted) };
    if let Some(shard) = choice.shard.filter(|_| choice.only.is_none()) {
        let chosen: Vec<PlannedJob> =
            plan.jobs.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(job, _)| job.clone()).collect();
        let mut taken = shard.takes(&chosen, choice.durations.as_ref()).into_iter();
        for one in wanted.iter_mut().filter(|wanted| **wanted) {
            *one = taken.next().unwrap_or_default();
        }
    }
    let mut keep = wanted.into_iter();
    plan.jobs.retain(|_| keep.next().unwrap_or_default());
    let left: BTreeSet<&str> = plan.jobs.iter().map(|job| job.id.as_str()).collect();
    plan.settings.retain(|job, _| left.contains(job.as_str()));
    let needed = needed.into_iter().filter(|(job, _)| left.contains(job.as_str())).collect();
    Chosen { all, needed }
}

/// Adds what chosen jobs need, and says for whom.
fn add_needs(jobs: &[PlannedJob], wanted: &mut [bool]) -> Vec<(String, String)> {
    let places: BTreeMap<&str, usize> = jobs.iter().enumerate().map(|(at, job)| (job.id.as_str(), at)).collect();
    let mut added = Vec::new();
    let mut open: Vec<usize> = (0..jobs.len()).filter(|at| wanted[*at]).collect();
    while let Some(at) = open.pop() {
        for need in jobs[at].course.needs.iter().filter_map(|need| places.get(need.as_str()).copied()) {
            if !wanted[need] {
                wanted[need] = true;
                added.push((jobs[need].id.to_string(), jobs[at].id.to_string()));
                open.push(need);
            }
        }
    }
    added.sort();
    added
}
