//! [`Scheduler`]: slots, order, stop at the first failure, cancel.

use std::collections::VecDeque;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The run begins.
    Start,
    /// A started job ended.
    Finished {
        /// Which, by its place in the plan.
        job: usize,
        /// Whether it passed.
        passed: bool,
    },
    /// A signal came.
    Cancel,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a job, by its place in the plan.
    Start(usize),
    /// Report a job as never started.
    Skip(usize, Skip),
    /// Stop every running job for this cause.
    StopRunning(Skip),
    /// All jobs have ended. Nothing follows.
    Done,
}

/// Why jobs are not run, or not to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Another job failed.
    FailFast,
    /// A signal came.
    Interrupted,
}

/// Whether the first job that does not pass ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailFast {
    /// It does.
    On,
    /// The others go on.
    Off,
}

/// Decides which job runs when. Jobs start in the order of the plan.
#[derive(Clone, Debug)]
pub struct Scheduler {
    waiting: VecDeque<usize>,
    running: usize,
    slots: usize,
    fail_fast: FailFast,
    stopping: bool,
    done: bool,
}

impl Scheduler {
    /// For so many jobs and so many slots (at least one).
    #[must_use]
    pub fn new(jobs: usize, slots: usize, fail_fast: FailFast) -> Self {
        Self { waiting: (0..jobs).collect(), running: 0, slots: slots.max(1), fail_fast, stopping: false, done: false }
    }

    /// Takes one input and says what to do, in order.
    pub fn step(&mut self, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        if self.done {
            return out;
        }
        match input {
            Input::Start => {}
            Input::Finished { passed, job: _ } => {
                self.running = self.running.saturating_sub(1);
                if !passed && self.fail_fast == FailFast::On {
                    self.stop(Skip::FailFast, &mut out);
                }
            }
            Input::Cancel => self.stop(Skip::Interrupted, &mut out),
        }
        while self.running < self.slots {
            let Some(job) = self.waiting.pop_front() else { break };
            self.running += 1;
            out.push(Action::Start(job));
        }
        if self.running == 0 {
            self.done = true;
            out.push(Action::Done);
        }
        out
    }

    /// A signal after a failure still has to reach the running jobs; the same cause is not repeated.
    fn stop(&mut self, cause: Skip, out: &mut Vec<Action>) {
        out.extend(self.waiting.drain(..).map(|job| Action::Skip(job, cause)));
        if self.running > 0 && (!self.stopping || cause == Skip::Interrupted) {
            out.push(Action::StopRunning(cause));
        }
        self.stopping = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finished(job: usize, passed: bool) -> Input {
        Input::Finished { job, passed }
    }

    #[test]
    fn slots_are_filled_in_the_order_of_the_plan() {
        let mut scheduler = Scheduler::new(3, 2, FailFast::Off);
        assert_eq!(scheduler.step(Input::Start), [Action::Start(0), Action::Start(1)]);
        assert_eq!(scheduler.step(finished(1, false)), [Action::Start(2)]);
        assert_eq!(scheduler.step(finished(0, true)), []);
        assert_eq!(scheduler.step(finished(2, true)), [Action::Done]);
    }

    #[test]
    fn the_first_failure_stops_the_others() {
        let mut scheduler = Scheduler::new(4, 2, FailFast::On);
        scheduler.step(Input::Start);
        assert_eq!(
            scheduler.step(finished(0, false)),
            [Action::Skip(2, Skip::FailFast), Action::Skip(3, Skip::FailFast), Action::StopRunning(Skip::FailFast)]
        );
        assert_eq!(scheduler.step(finished(1, false)), [Action::Done]);
    }

    #[test]
    fn a_signal_starts_nothing_more() {
        let mut scheduler = Scheduler::new(3, 1, FailFast::Off);
        scheduler.step(Input::Start);
        let actions = scheduler.step(Input::Cancel);
        assert_eq!(
            actions,
            [
                Action::Skip(1, Skip::Interrupted),
                Action::Skip(2, Skip::Interrupted),
                Action::StopRunning(Skip::Interrupted)
            ]
        );
        assert_eq!(scheduler.step(finished(0, false)), [Action::Done]);
    }

    #[test]
    fn a_run_without_jobs_is_done_at_once() {
        assert_eq!(Scheduler::new(0, 4, FailFast::Off).step(Input::Start), [Action::Done]);
    }

    proptest! {
        #[test]
        fn every_job_ends_once_and_the_slots_hold(
            jobs in 0_usize..20, slots in 1_usize..6, fast: bool, choices in proptest::collection::vec((any::<u8>(), any::<bool>()), 0..60)
        ) {
            let mut scheduler = Scheduler::new(jobs, slots, if fast { FailFast::On } else { FailFast::Off });
            let (mut running, mut ended, mut done) = (Vec::new(), vec![0; jobs], 0);
            let mut inputs = choices.into_iter();
            let mut input = Input::Start;
            while done == 0 {
                for action in scheduler.step(input) {
                    prop_assert_eq!(done, 0);
                    match action {
                        Action::Start(job) => running.push(job),
                        Action::Skip(job, _) => ended[job] += 1,
                        Action::StopRunning(_) => prop_assert!(!running.is_empty()),
                        Action::Done => done += 1,
                    }
                    prop_assert!(running.len() <= slots);
                }
                if running.is_empty() { break; }
                let (choice, passed) = inputs.next().unwrap_or((0, true));
                input = if choice == 255 { Input::Cancel } else {
                    let job = running.swap_remove(usize::from(choice) % running.len());
                    ended[job] += 1;
                    finished(job, passed)
                };
            }
            prop_assert_eq!(done, 1);
            prop_assert!(ended.iter().all(|times| *times == 1));
        }
    }
}
