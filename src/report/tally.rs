//! What a run has come to so far: the gathered state from which the screen, the table and the summary are drawn.

use super::cut;
use super::totals::Totals;
use crate::event::{GateMoment, JobInfo, JobReport, Phase, RunEvent, RunEventKind, RunInfo};
use crate::exit::ExitStatus;
use crate::units::{Elapsed, JobId, Turns, Usage, Usd, show_duration};
use std::collections::BTreeMap;
use std::time::Duration;

/// A run, gathered from its events.
#[derive(Clone, Debug)]
pub struct RunStats {
    /// What was known when it began.
    pub run: RunInfo,
    /// Its jobs, in the order of the plan.
    pub jobs: Vec<JobStats>,
    /// The moment of the newest event.
    pub now: Elapsed,
    /// How the process will exit; `None` while the run goes on.
    pub exit: Option<ExitStatus>,
    /// Warnings in the order in which they came, the newest dropped past [`RunStats::MAX_WARNINGS`].
    pub warnings: Vec<Warning>,
    places: BTreeMap<JobId, usize>,
}

/// A warning of a job, or of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The job; `None` for the run itself.
    pub job: Option<JobId>,
    /// One line.
    pub text: String,
}

/// A job, gathered from its events.
#[derive(Clone, Debug)]
pub struct JobStats {
    /// What was known before.
    pub info: JobInfo,
    /// Where it is.
    pub state: JobState,
    /// What it has used so far; the report of an ended job outranks it.
    pub live: Live,
}

/// Where a job is.
#[derive(Clone, Debug)]
pub enum JobState {
    /// Not started.
    Waiting,
    /// Started.
    Running,
    /// Ended.
    Ended(Box<JobReport>),
}

/// What a running job has used and is doing.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// When it began.
    pub since: Elapsed,
    /// Turns so far.
    pub turns: Turns,
    /// Model calls so far, retries included.
    pub model_calls: u32,
    /// Retries among them.
    pub retries: u32,
    /// Time spent waiting before retries.
    pub waited: Duration,
    /// The sum over its turns.
    pub usage: Usage,
    /// The price of its turns.
    pub cost: Usd,
    /// What it is doing, in one short line.
    pub doing: String,
}

impl RunStats {
    /// More warnings than these tell a reader nothing new; the event log has them all.
    pub const MAX_WARNINGS: usize = 200;

    /// A run at its beginning.
    #[must_use]
    pub fn new(run: RunInfo) -> Self {
        let jobs: Vec<_> = run
            .jobs
            .iter()
            .map(|info| JobStats { info: info.clone(), state: JobState::Waiting, live: Live::default() })
            .collect();
        let places = jobs.iter().enumerate().map(|(place, job)| (job.info.id.clone(), place)).collect();
        Self { run, jobs, now: Elapsed::default(), exit: None, warnings: Vec::new(), places }
    }

    /// Takes note of an event.
    pub fn apply(&mut self, event: &RunEvent) {
        self.now = self.now.max(event.at);
        match &event.kind {
            RunEventKind::RunFinished { exit } => self.exit = Some(*exit),
            RunEventKind::Warning(text) => {
                if self.warnings.len() < Self::MAX_WARNINGS {
                    self.warnings.push(Warning { job: event.job.clone(), text: cut::one_line(text, 1_000) });
                }
            }
            RunEventKind::RunStarted(_)
            | RunEventKind::JobStarted
            | RunEventKind::Phase(_)
            | RunEventKind::ModelCalled { .. }
            | RunEventKind::Retrying { .. }
            | RunEventKind::Turn { .. }
            | RunEventKind::Progress(_)
            | RunEventKind::ToolStarted { .. }
            | RunEventKind::ToolFinished { .. }
            | RunEventKind::GateStarted { .. }
            | RunEventKind::GateFinished { .. }
            | RunEventKind::Continued(_)
            | RunEventKind::InputStarted(_)
            | RunEventKind::InputCompleted(_)
            | RunEventKind::Loop(_)
            | RunEventKind::Note(_)
            | RunEventKind::JobFinished(_)
            | RunEventKind::Interrupted(_) => {}
        }
        if let Some(job) = event.job.as_ref().and_then(|id| self.places.get(id)).and_then(|at| self.jobs.get_mut(*at)) {
            job.apply(event);
        }
    }

    /// The job of this name.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&JobStats> {
        self.places.get(id).and_then(|place| self.jobs.get(*place))
    }

    /// The reports of the jobs that have ended, in the order of the plan.
    pub fn reports(&self) -> impl Iterator<Item = &JobReport> {
        self.jobs.iter().filter_map(JobStats::report)
    }

    /// The jobs that are running, in the order of the plan.
    pub fn running(&self) -> impl Iterator<Item = &JobStats> {
        self.jobs.iter().filter(|job| matches!(job.state, JobState::Running))
    }

    /// The sums.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals::of(&self.jobs)
    }
}

impl JobStats {
    /// Its report, once it has ended.
    #[must_use]
    pub fn report(&self) -> Option<&JobReport> {
        match &self.state {
            JobState::Ended(report) => Some(report),
            JobState::Waiting | JobState::Running => None,
        }
    }

    fn apply(&mut self, event: &RunEvent) {
        let live = &mut self.live;
        match &event.kind {
            RunEventKind::JobStarted => {
                live.since = event.at;
                self.state = JobState::Running;
            }
            RunEventKind::Phase(phase) => {
                live.doing = match phase {
                    Phase::Worktree => "making the worktree",
                    Phase::Setup => "setup",
                    Phase::Before => "gates on the base",
                    Phase::Query => "starting",
                    Phase::Judging => "judging",
                    Phase::Cleanup => "saving the work",
                }
                .into();
            }
            RunEventKind::ModelCalled { call, .. } => {
                live.model_calls = live.model_calls.max(*call);
                live.doing = "asking the model".into();
            }
            RunEventKind::Retrying { code, wait, .. } => {
                live.retries = live.retries.saturating_add(1);
                live.waited = live.waited.saturating_add(*wait);
                live.doing = format!("waiting {} ({code})", show_duration(*wait));
            }
            RunEventKind::Turn { turn, usage, cost, .. } => {
                live.turns = live.turns.max(*turn);
                live.usage += *usage;
                live.cost += *cost;
            }
            RunEventKind::Progress(doing) => live.doing = cut::one_line(doing, 200),
            RunEventKind::ToolStarted { tool, subject } => {
                live.doing = cut::one_line(&format!("{tool} {subject}"), 200);
            }
            RunEventKind::GateStarted { gate, moment } => {
                let gate = cut::one_line(gate, 100);
                live.doing = match moment {
                    GateMoment::Before => format!("gate {gate} on the base"),
                    GateMoment::Stop => format!("gate {gate}"),
                    GateMoment::Final => format!("gate {gate} on the final tree"),
                };
            }
            RunEventKind::JobFinished(report) => self.state = JobState::Ended(report.clone()),
            RunEventKind::RunStarted(_)
            | RunEventKind::ToolFinished { .. }
            | RunEventKind::GateFinished { .. }
            | RunEventKind::Continued(_)
            | RunEventKind::InputStarted(_)
            | RunEventKind::InputCompleted(_)
            | RunEventKind::Loop(_)
            | RunEventKind::Note(_)
            | RunEventKind::Warning(_)
            | RunEventKind::Interrupted(_)
            | RunEventKind::RunFinished { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::outcome::Reason;
    use crate::units::Tokens;

    #[test]
    fn a_running_job_counts_with_what_it_has_used() {
        let mut stats = RunStats::new(sample::run(&["a", "b", "c"]));
        for event in [
            sample::event(0, "a", RunEventKind::JobStarted),
            sample::event(5, "a", RunEventKind::ModelCalled { call: 2, turn: Turns(1) }),
            sample::event(6, "a", sample::turn(1, 1_000)),
            sample::event(7, "a", RunEventKind::ToolStarted { tool: "Bash".into(), subject: "cargo\ntest".into() }),
            sample::event(8, "b", RunEventKind::JobStarted),
            sample::event(9, "b", sample::finished("b", Reason::MaxTurns)),
        ] {
            stats.apply(&event);
        }
        let totals = stats.totals();
        assert_eq!(totals.verdicts(), "1 failed, 1 running, 1 waiting");
        assert_eq!(totals.ended(), 1);
        assert_eq!(stats.jobs[0].live.doing, "Bash cargo test");
        assert_eq!(stats.jobs[0].live.usage.input, Tokens(1_000));
        assert_eq!(stats.now, Elapsed::from_millis(9));
        let in_b = stats.job(&JobId::new("b").unwrap()).and_then(JobStats::report).unwrap();
        assert_eq!(totals.turns.0, 1 + in_b.turns.0);
        assert_eq!(totals.model_calls, 2 + in_b.model_calls);
    }

    #[test]
    fn an_unknown_price_is_not_free() {
        let mut stats = RunStats::new(sample::run(&["a", "b"]));
        let mut unpriced = sample::report("a", Reason::Completed);
        unpriced.cost = None;
        stats.apply(&sample::event(1, "a", RunEventKind::JobFinished(Box::new(unpriced))));
        assert_eq!(stats.totals().price(), "-");
        stats.apply(&sample::event(2, "b", sample::finished("b", Reason::Completed)));
        assert_eq!(stats.totals().price(), "$0.0123+");
    }

    #[test]
    fn an_event_of_an_unknown_job_changes_no_job() {
        let mut stats = RunStats::new(sample::run(&["a"]));
        stats.apply(&sample::event(1, "stranger", RunEventKind::JobStarted));
        assert_eq!(stats.totals().waiting, 1);
    }
}
