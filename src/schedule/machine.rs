//! [`Scheduler`]: slots, needs, groups, priorities, attempts, retries, the early end of a run.

use super::node::{Action, Attempt, Cause, Decision, End, Input, Known, Limits, Node, Skip};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Decides which attempt runs when.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) nodes: Vec<Node>,
    pub(super) limits: Limits,
    pub(super) jobs: Vec<Job>,
    /// Attempts that could start if there were room, best first.
    pub(super) ready: BTreeSet<(Reverse<i64>, usize, u32)>,
    pub(super) running: BTreeSet<Attempt>,
    /// Those of them that were told to stop.
    told: BTreeSet<Attempt>,
    pub(super) group_use: Vec<usize>,
    /// Who waits for whom: the jobs that need one.
    dependents: Vec<Vec<usize>>,
    failures: u32,
    halted: Option<Cause>,
    left: usize,
    started: bool,
    /// What is known from before has been said.
    opened: bool,
    done: bool,
}

/// What has become of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    /// Needs that have not passed yet.
    pub(super) open_needs: usize,
    /// The next attempt's number.
    next: u32,
    ended: BTreeMap<u32, End>,
    running: BTreeSet<u32>,
    queued: BTreeSet<u32>,
    /// It has passed, and waits for its siblings to stop.
    passed: Option<u32>,
    pub(super) decided: bool,
}

impl Scheduler {
    /// For a plan; needs name other jobs by their places and have no cycle.
    #[must_use]
    pub fn new(nodes: Vec<Node>, limits: Limits) -> Self {
        let mut dependents = vec![Vec::new(); nodes.len()];
        for (job, node) in nodes.iter().enumerate() {
            for need in &node.needs {
                if let Some(list) = dependents.get_mut(*need) {
                    list.push(job);
                }
            }
        }
        let jobs = nodes.iter().map(|node| Job { open_needs: node.needs.len(), ..Job::default() }).collect();
        Self {
            jobs,
            ready: BTreeSet::new(),
            running: BTreeSet::new(),
            told: BTreeSet::new(),
            group_use: vec![0; limits.groups.len()],
            dependents,
            failures: 0,
            halted: None,
            left: nodes.len(),
            started: false,
            opened: false,
            done: false,
            nodes,
            limits,
        }
    }

    /// Takes one input and says what to do, in order. What concerns an attempt that does not run changes nothing.
    pub fn step(&mut self, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        if self.done {
            return out;
        }
        match input {
            Input::Start if !self.started => {
                self.started = true;
                self.begin(&mut out);
            }
            Input::Start => {}
            Input::Ended(attempt, end) => self.ended(attempt, end, &mut out),
            Input::Halt(cause) => self.halt(cause, &mut out),
        }
        if self.started {
            self.fill(&mut out);
            if self.left == 0 {
                self.done = true;
                out.push(Action::Done);
            }
        }
        out
    }

    /// Attempts that run now.
    pub fn running(&self) -> impl Iterator<Item = Attempt> {
        self.running.iter().copied()
    }

    // --- the beginning ---

    fn begin(&mut self, out: &mut Vec<Action>) {
        let mut known = Vec::new();
        for (job, node) in self.nodes.iter_mut().enumerate() {
            match &mut node.known {
                Known::New => {}
                Known::Tried(ended) => {
                    let passed = ended.iter().find(|(_, end)| **end == End::Passed).map(|(number, _)| *number);
                    self.jobs[job].passed = passed;
                    self.jobs[job].ended = std::mem::take(ended);
                }
                Known::Decided { passed } => {
                    self.jobs[job].decided = true;
                    self.left -= 1;
                    self.failures += u32::from(!*passed);
                    known.push((job, *passed));
                }
            }
        }
        for (job, passed) in known {
            self.pass_on(job, passed, out);
        }
        if self.limits.max_failures.is_some_and(|max| self.failures >= max.max(1)) {
            return self.halt(Cause::FailFast, out);
        }
        self.opened = true;
        for job in 0..self.nodes.len() {
            if self.jobs[job].open_needs == 0 {
                self.make_ready(job, out);
            }
        }
    }

    /// All that a job needs has passed.
    fn make_ready(&mut self, job: usize, out: &mut Vec<Action>) {
        if self.jobs[job].decided {
            return;
        }
        if let Some(cause) = self.halted {
            return self.decide(job, Decision::Skipped(Skip::Halted(cause)), false, out);
        }
        let attempts = self.nodes[job].attempts.max(1);
        let last = self.jobs[job].ended.keys().next_back().copied().unwrap_or_default();
        self.jobs[job].next = attempts.max(last) + 1;
        if self.jobs[job].passed.is_some() {
            return self.follow_up(job, last, out);
        }
        let open: Vec<u32> = (1..=attempts).filter(|number| !self.jobs[job].ended.contains_key(number)).collect();
        for number in &open {
            self.queue(job, *number);
        }
        if open.is_empty() {
            self.follow_up(job, last, out);
        }
    }

    fn queue(&mut self, job: usize, number: u32) {
        self.jobs[job].queued.insert(number);
        self.ready.insert((Reverse(self.nodes[job].priority), job, number));
    }

    fn unqueue(&mut self, job: usize) {
        for number in std::mem::take(&mut self.jobs[job].queued) {
            self.ready.remove(&(Reverse(self.nodes[job].priority), job, number));
        }
    }

    /// Starts what there is room for, best first; one whose group is full lets others pass.
    fn fill(&mut self, out: &mut Vec<Action>) {
        let slots = self.limits.slots.max(1);
        while self.running.len() < slots {
            let fits = |(_, job, _): &&(Reverse<i64>, usize, u32)| self.has_room(*job);
            let Some(next) = self.ready.iter().find(fits).copied() else { break };
            self.ready.remove(&next);
            let (_, job, number) = next;
            let attempt = Attempt { job, number };
            self.jobs[job].queued.remove(&number);
            self.jobs[job].running.insert(number);
            self.running.insert(attempt);
            if let Some(used) = self.nodes[job].group.and_then(|group| self.group_use.get_mut(group)) {
                *used += 1;
            }
            out.push(Action::Start(attempt));
        }
    }

    pub(super) fn has_room(&self, job: usize) -> bool {
        let Some(group) = self.nodes[job].group else { return true };
        let max = self.limits.groups.get(group).copied().unwrap_or(usize::MAX).max(1);
        self.group_use.get(group).copied().unwrap_or_default() < max
    }

    // --- ends ---

    fn ended(&mut self, attempt: Attempt, end: End, out: &mut Vec<Action>) {
        let Attempt { job, number } = attempt;
        if !self.running.remove(&attempt) {
            return;
        }
        self.told.remove(&attempt);
        if let Some(used) = self.nodes[job].group.and_then(|group| self.group_use.get_mut(group)) {
            *used -= 1;
        }
        self.jobs[job].running.remove(&number);
        self.jobs[job].ended.insert(number, end);
        if end == End::Passed && self.jobs[job].passed.is_none() {
            self.jobs[job].passed = Some(number);
            self.unqueue(job);
            let siblings = self.jobs[job].running.iter().map(|number| Attempt { job, number: *number });
            let stopped: Vec<Attempt> = siblings.filter(|sibling| self.told.insert(*sibling)).collect();
            out.extend(stopped.into_iter().map(|sibling| Action::Stop(sibling, Cause::Sibling)));
        }
        if self.jobs[job].running.is_empty() && self.jobs[job].queued.is_empty() {
            self.follow_up(job, number, out);
        }
    }

    /// Nothing of the job runs or waits: another try, or its end.
    fn follow_up(&mut self, job: usize, last: u32, out: &mut Vec<Action>) {
        if let Some(number) = self.jobs[job].passed {
            return self.decide(job, Decision::By(number), true, out);
        }
        let wants = matches!(self.jobs[job].ended.get(&last), Some(End::Failed { again: true }));
        let used = self.jobs[job].next - 1 - self.nodes[job].attempts.max(1);
        if wants && self.halted.is_none() && used < self.nodes[job].retries {
            let number = self.jobs[job].next;
            self.jobs[job].next += 1;
            return self.queue(job, number);
        }
        self.decide(job, Decision::By(last), false, out);
    }

    fn decide(&mut self, job: usize, decision: Decision, passed: bool, out: &mut Vec<Action>) {
        out.push(Action::Decide(job, decision));
        let failed = matches!(decision, Decision::By(_)) && !passed;
        self.close(job, passed, out);
        if failed {
            self.failures += 1;
            if self.limits.max_failures.is_some_and(|max| self.failures >= max.max(1)) {
                self.halt(Cause::FailFast, out);
            }
        }
    }

    fn close(&mut self, job: usize, passed: bool, out: &mut Vec<Action>) {
        self.jobs[job].decided = true;
        self.left -= 1;
        self.pass_on(job, passed, out);
    }

    /// The job is over: those that need it become ready, or are over too.
    fn pass_on(&mut self, job: usize, passed: bool, out: &mut Vec<Action>) {
        for dependent in self.dependents[job].clone() {
            if self.jobs[dependent].decided {
                continue;
            }
            if !passed {
                let skip = self.halted.map_or(Skip::Dependency(job), Skip::Halted);
                self.decide(dependent, Decision::Skipped(skip), false, out);
                continue;
            }
            self.jobs[dependent].open_needs -= 1;
            // At the beginning all are looked at in their order, once everything that is known has been said.
            if self.jobs[dependent].open_needs == 0 && self.opened {
                self.make_ready(dependent, out);
            }
        }
    }

    /// Nothing more starts. A later cause still has to reach what runs, but the first one says why the rest was not run.
    fn halt(&mut self, cause: Cause, out: &mut Vec<Action>) {
        let is_first = self.halted.is_none();
        if is_first {
            self.halted = Some(cause);
        }
        // Only a person's wish outranks what was asked before.
        if is_first || cause == Cause::Interrupted {
            for attempt in &self.running {
                if self.told.insert(*attempt) || cause == Cause::Interrupted {
                    out.push(Action::Stop(*attempt, cause));
                }
            }
        }
        if !is_first {
            return;
        }
        for job in 0..self.nodes.len() {
            self.unqueue(job);
            let waits = !self.jobs[job].decided && self.jobs[job].running.is_empty();
            if !waits {
                continue;
            }
            // One that was tried before has an end; it just gets no further try.
            let passed = self.jobs[job].passed;
            match passed.or_else(|| self.jobs[job].ended.keys().next_back().copied()) {
                Some(number) => self.decide(job, Decision::By(number), passed.is_some(), out),
                None => self.decide(job, Decision::Skipped(Skip::Halted(cause)), false, out),
            }
        }
    }
}
