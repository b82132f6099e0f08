//! What each job waits for.

use super::machine::Scheduler;
use super::node::Attempt;

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// This job has to pass first.
    Need(usize),
    /// Its group has as many at work as it may.
    Group(usize),
    /// All slots are taken.
    Slot,
}

impl Scheduler {
    /// What each job waits for that is not decided and of which nothing runs, in the order of the plan.
    #[must_use]
    pub fn waiting(&self) -> Vec<(usize, Waiting)> {
        let runs =
            |job: usize| self.running.range(Attempt { job, number: 0 }..).next().is_some_and(|one| one.job == job);
        let waits = (0..self.nodes.len()).filter(|job| !self.jobs[*job].decided && !runs(*job));
        waits
            .map(|job| {
                let need = self.nodes[job].needs.iter().copied().find(|need| !self.jobs[*need].decided);
                let why = match (need, self.nodes[job].group) {
                    (Some(need), _) => Waiting::Need(need),
                    (None, Some(group)) if !self.has_room(job) => Waiting::Group(group),
                    (None, _) => Waiting::Slot,
                };
                (job, why)
            })
            .collect()
    }
}
