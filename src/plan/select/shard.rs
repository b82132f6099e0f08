//! [`Shard`]: one of so many parts of a batch. Jobs that need each other stay together.

use crate::plan::PlannedJob;
use crate::units::fnv1a;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// One of so many parts, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, 1 to [`count`](Self::count).
    pub index: u32,
    /// How many there are, 1 to 10,000.
    pub count: u32,
}

/// The most parts.
const MOST: u32 = 10_000;

/// Where a CI system says which part this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSource {
    /// Its name.
    pub name: &'static str,
    index: &'static str,
    count: &'static str,
    /// What the first part's index is; `None`: a variable says it.
    first: Option<u32>,
}

/// The CI systems that say it by themselves. Kubernetes tells no count, so a variable of ours holds it.
const SOURCES: [ShardSource; 5] = [
    ShardSource { name: "GitLab", index: "CI_NODE_INDEX", count: "CI_NODE_TOTAL", first: Some(1) },
    ShardSource { name: "CircleCI", index: "CIRCLE_NODE_INDEX", count: "CIRCLE_NODE_TOTAL", first: Some(0) },
    ShardSource {
        name: "Buildkite",
        index: "BUILDKITE_PARALLEL_JOB",
        count: "BUILDKITE_PARALLEL_JOB_COUNT",
        first: Some(0),
    },
    ShardSource { name: "Slurm", index: "SLURM_ARRAY_TASK_ID", count: "SLURM_ARRAY_TASK_COUNT", first: None },
    ShardSource { name: "Kubernetes", index: "JOB_COMPLETION_INDEX", count: "RUNNER_SHARDS", first: Some(0) },
];

/// The lowest index of a Slurm array.
const SLURM_FIRST: &str = "SLURM_ARRAY_TASK_MIN";

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// Reads `I/N`.
    ///
    /// # Errors
    /// Says what it has to be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.trim().parse().ok()?, count.trim().parse().ok()?)));
        let (index, count): (u32, u32) = numbers.ok_or("it has to be I/N, such as 2/4")?;
        Self::checked(index, count)
    }

    fn checked(index: u32, count: u32) -> Result<Self, String> {
        if count == 0 || count > MOST {
            return Err(format!("there can be 1 to {MOST} shards, not {count}"));
        }
        if index == 0 || index > count {
            return Err(format!("of {count} shards there is no number {index}: they are counted from 1"));
        }
        Ok(Self { index, count })
    }

    /// Whether each job belongs to it, in the order of the plan. `durations`: how long jobs took before; parts are balanced by it.
    #[must_use]
    pub fn takes(self, jobs: &[PlannedJob], durations: Option<&BTreeMap<String, Duration>>) -> Vec<bool> {
        let parts = parts(jobs, self.count, durations);
        parts.into_iter().map(|part| part + 1 == self.index).collect()
    }
}

/// The part of each job, from 0.
fn parts(jobs: &[PlannedJob], count: u32, durations: Option<&BTreeMap<String, Duration>>) -> Vec<u32> {
    let families = families(jobs);
    let Some(durations) = durations else {
        // By the first name of the family, so that a job stays in its part whatever other jobs come and go.
        let mut first: BTreeMap<usize, &str> = BTreeMap::new();
        for (job, family) in jobs.iter().zip(&families) {
            let name = first.entry(*family).or_insert(job.id.as_str());
            *name = (*name).min(job.id.as_str());
        }
        return families.iter().map(|family| (hash(first[family]) % u64::from(count)) as u32).collect();
    };
    let known: Vec<Duration> = jobs.iter().filter_map(|job| durations.get(job.id.as_str()).copied()).collect();
    let mean = known.iter().sum::<Duration>().checked_div(known.len() as u32).unwrap_or(Duration::from_secs(1));
    let mut weights: BTreeMap<usize, (Duration, &str)> = BTreeMap::new();
    for (job, family) in jobs.iter().zip(&families) {
        let took = durations.get(job.id.as_str()).copied().unwrap_or(mean);
        let (weight, name) = weights.entry(*family).or_insert((Duration::ZERO, job.id.as_str()));
        *weight += took;
        *name = (*name).min(job.id.as_str());
    }
    // The longest first, each to the part that has least to do.
    let mut order: Vec<(usize, Duration, &str)> =
        weights.into_iter().map(|(family, (weight, name))| (family, weight, name)).collect();
    order.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.2.cmp(other.2)));
    let mut loads = vec![Duration::ZERO; count as usize];
    let mut of_family = BTreeMap::new();
    for (family, weight, _) in order {
        let least = (0..loads.len()).min_by_key(|part| loads[*part]).unwrap_or_default();
        loads[least] += weight;
        of_family.insert(family, least as u32);
    }
    families.iter().map(|family| of_family[family]).collect()
}

/// For each job, the place of the first job of those that need each other, directly or not.
fn families(jobs: &[PlannedJob]) -> Vec<usize> {
    let places: BTreeMap<&str, usize> = jobs.iter().enumerate().map(|(at, job)| (job.id.as_str(), at)).collect();
    let mut heads: Vec<usize> = (0..jobs.len()).collect();
    let head = |heads: &[usize], mut at: usize| {
        while heads[at] != at {
            at = heads[at];
        }
        at
    };
    for (at, job) in jobs.iter().enumerate() {
        for need in job.course.needs.iter().filter_map(|need| places.get(need.as_str())) {
            let (one, other) = (head(&heads, at), head(&heads, *need));
            heads[one.max(other)] = one.min(other);
        }
    }
    (0..jobs.len()).map(|at| head(&heads, at)).collect()
}

/// The same for the same name for ever.
fn hash(name: &str) -> u64 {
    let hash = fnv1a(name);
    // Its low bits alone are too much alike for names that differ in one letter.
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// The part that a CI system says this is; `None` where none does, or there is only one.
///
/// # Errors
/// Names a variable that makes no sense.
pub fn from_ci<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Result<Option<(Shard, ShardSource)>, String> {
    for source in SOURCES {
        let (Some(index), Some(count)) = (variable(source.index), variable(source.count)) else { continue };
        let number = |name: &str, text: &str| {
            text.trim()
                .parse::<u32>()
                .map_err(|_| format!("the variable {name} is `{text}`, which is no number of a shard"))
        };
        let first = match source.first {
            Some(first) => first,
            None => variable(SLURM_FIRST).map_or(Ok(0), |text| number(SLURM_FIRST, text))?,
        };
        let (index, count) = (number(source.index, index)?, number(source.count, count)?);
        let place = index.checked_sub(first).and_then(|place| place.checked_add(1)).unwrap_or_default();
        let shard = Shard::checked(place, count)
            .map_err(|why| format!("{} says shard {index} of {count}: {why}", source.name))?;
        if shard.count > 1 {
            return Ok(Some((shard, source)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_and_nonsense_is_refused() {
        assert_eq!(Shard::parse("2/4"), Ok(Shard { index: 2, count: 4 }));
        for bad in ["0/4", "5/4", "1/0", "x", "1/", "-1/3", "1/10001"] {
            assert!(Shard::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_ci_says_it_in_its_own_way() {
        let said = |pairs: &[(&str, &str)]| {
            let pairs: BTreeMap<String, String> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            from_ci(|name| pairs.get(name).map(String::as_str)).map(|found| found.map(|(shard, _)| shard.to_string()))
        };
        let two_of_four = Ok(Some("2/4".to_owned()));
        assert_eq!(said(&[("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "4")]), two_of_four);
        assert_eq!(said(&[("CIRCLE_NODE_INDEX", "1"), ("CIRCLE_NODE_TOTAL", "4")]), two_of_four);
        assert_eq!(said(&[("BUILDKITE_PARALLEL_JOB", "1"), ("BUILDKITE_PARALLEL_JOB_COUNT", "4")]), two_of_four);
        let slurm = [("SLURM_ARRAY_TASK_ID", "6"), ("SLURM_ARRAY_TASK_COUNT", "4"), ("SLURM_ARRAY_TASK_MIN", "5")];
        assert_eq!(said(&slurm), two_of_four);
        assert_eq!(said(&[("JOB_COMPLETION_INDEX", "1"), ("RUNNER_SHARDS", "4")]), two_of_four);
        assert_eq!(said(&[("CI_NODE_INDEX", "1"), ("CI_NODE_TOTAL", "1")]), Ok(None));
        assert_eq!(said(&[("JOB_COMPLETION_INDEX", "1")]), Ok(None));
        assert!(said(&[("CI_NODE_INDEX", "0"), ("CI_NODE_TOTAL", "4")]).is_err());
    }

    #[test]
    fn a_name_is_in_the_same_part_for_ever() {
        let parts = ["fix-a", "fix-b", "fix-c", "fix-d", "build"].map(|name| hash(name) % 4);
        assert_eq!(parts, PARTS);
        // Names that are alike are spread all the same.
        let mut counts = [0; 4];
        (0..1_000).for_each(|n| counts[(hash(&format!("job-{n}")) % 4) as usize] += 1);
        assert!(counts.iter().all(|count| (200..300).contains(count)), "{counts:?}");
    }

    /// Whoever changes these moves jobs of running pipelines to other machines.
    const PARTS: [u64; 5] = [0, 0, 0, 1, 2];
}
