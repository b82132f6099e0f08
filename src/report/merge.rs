//! Several runs as one: what one run of all their jobs would have written, but for times and names.
//!
//! A job that stands in several runs counts as the last of them says; one that had only been taken over from an earlier run counts as
//! that one says.

use crate::event::{JobInfo, JobReport, RunInfo};
use crate::outcome::Reason;
use crate::units::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// A run that is merged.
#[derive(Clone, Debug)]
pub struct Part {
    /// What was known when it began.
    pub info: RunInfo,
    /// For each of its jobs, how it ended; `None`: it did not.
    pub reports: Vec<Option<JobReport>>,
    /// The names of all jobs of the batch, in their order; empty where that is not known.
    pub all: Vec<String>,
    /// Which part of a batch it was, `(index, count)`; `None`: the whole.
    pub shard: Option<(u32, u32)>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The jobs, in the order of the batch, each with its report and the place of the run that it is from.
    pub jobs: Vec<(JobInfo, Option<JobReport>, usize)>,
    /// What is missing or in doubt, in words.
    pub doubts: Vec<String>,
}

/// Merges runs; of two that say something about a job, the later one of the slice is believed.
#[must_use]
pub fn merge(parts: &[Part]) -> Merged {
    let mut found: BTreeMap<&JobId, (&JobInfo, Option<&JobReport>, usize)> = BTreeMap::new();
    for (place, part) in parts.iter().enumerate() {
        for (info, report) in part.info.jobs.iter().zip(&part.reports) {
            let taken_over = report.as_ref().is_some_and(|report| report.outcome.reason == Reason::AlreadyDone);
            // A run that was killed before it came to a job takes nothing away from an earlier one.
            let says_less = (taken_over || report.is_none()) && found.contains_key(&info.id);
            if !says_less {
                found.insert(&info.id, (info, report.as_ref(), place));
            }
        }
    }
    let mut merged = Merged { jobs: Vec::new(), doubts: missing_shards(parts) };
    for name in order(parts) {
        let Some((_, (info, report, place))) = found.iter().find(|(id, _)| id.as_str() == name) else { continue };
        if report.is_none() {
            merged.doubts.push(format!("job `{name}` did not end"));
        }
        merged.jobs.push(((*info).clone(), report.cloned(), *place));
    }
    merged
}

/// The names of all jobs, in the order of the batch as far as it is known.
fn order(parts: &[Part]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    let batches = parts.iter().flat_map(|part| part.all.iter().map(String::as_str));
    let jobs = parts.iter().flat_map(|part| part.info.jobs.iter().map(|job| job.id.as_str()));
    for name in batches.chain(jobs) {
        if seen.insert(name) {
            names.push(name);
        }
    }
    names
}

fn missing_shards(parts: &[Part]) -> Vec<String> {
    let counts: BTreeSet<u32> = parts.iter().filter_map(|part| part.shard).map(|(_, count)| count).collect();
    let has = |index: u32, count: u32| parts.iter().any(|part| part.shard == Some((index, count)));
    let whole = parts.iter().any(|part| part.shard.is_none());
    let missing =
        |count: u32| (1..=count).filter(move |index| !has(*index, count)).map(move |index| format!("{index}/{count}"));
    if whole {
        return Vec::new();
    }
    counts
        .into_iter()
        .flat_map(|count| missing(count).collect::<Vec<_>>())
        .map(|shard| format!("shard {shard} is missing"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use proptest::prelude::*;

    fn part(jobs: &[(&str, Option<Reason>)], shard: Option<(u32, u32)>, all: &[&str]) -> Part {
        let names: Vec<&str> = jobs.iter().map(|(name, _)| *name).collect();
        Part {
            info: sample::run(&names),
            reports: jobs.iter().map(|(name, reason)| reason.map(|reason| sample::report(name, reason))).collect(),
            all: all.iter().map(|name| (*name).to_owned()).collect(),
            shard,
        }
    }

    fn reasons(merged: &Merged) -> Vec<(&str, Option<Reason>)> {
        let reason = |report: &Option<JobReport>| report.as_ref().map(|report| report.outcome.reason);
        merged.jobs.iter().map(|(info, report, _)| (info.id.as_str(), reason(report))).collect()
    }

    #[test]
    fn a_later_run_is_believed_unless_it_says_less() {
        use Reason::{AlreadyDone, Api, Completed, GateFailed};
        let first = part(&[("a", Some(Completed)), ("b", Some(Api)), ("c", Some(GateFailed))], None, &["a", "b", "c"]);
        let second = part(&[("a", Some(AlreadyDone)), ("b", Some(Completed)), ("c", None)], None, &["a", "b", "c"]);
        let merged = merge(&[first, second]);
        assert_eq!(reasons(&merged), [("a", Some(Completed)), ("b", Some(Completed)), ("c", Some(GateFailed))]);
        assert_eq!(merged.doubts, [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let one = part(&[("b", None)], Some((2, 3)), &["a", "b"]);
        let merged = merge(&[one]);
        assert_eq!(merged.doubts, ["shard 1/3 is missing", "shard 3/3 is missing", "job `b` did not end"]);
    }

    proptest! {
        #[test]
        fn parts_come_together_to_the_whole_however_they_were_cut(
            cut in proptest::collection::vec((0_usize..4, any::<proptest::sample::Index>()), 0..20), turn in 0_usize..4
        ) {
            let names: Vec<String> = (0..cut.len()).map(|n| format!("job-{n}")).collect();
            let all: Vec<&str> = names.iter().map(String::as_str).collect();
            let jobs: Vec<(&str, Option<Reason>)> =
                all.iter().zip(&cut).map(|(name, (_, reason))| (*name, Some(*reason.get(Reason::ALL)))).collect();
            let mut parts: Vec<Part> = (0..4)
                .map(|shard| {
                    let of: Vec<_> = jobs.iter().zip(&cut).filter(|(_, (part, _))| *part == shard).map(|(job, _)| *job).collect();
                    part(&of, Some((shard as u32 + 1, 4)), &all)
                })
                .collect();
            parts.rotate_left(turn);
            let merged = merge(&parts);
            prop_assert_eq!(reasons(&merged), jobs);
            prop_assert_eq!(merged.doubts.len(), 0);
        }
    }
}
