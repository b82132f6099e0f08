//! The simulation: a seeded world plays jobs, failures, signals and clocks against the scheduler, and checks every rule at every step.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// So many schedules are played.
const SCHEDULES: u64 = 120_000;

/// Numbers from a seed (`SplitMix64`).
struct Rng(u64);

impl Rng {
    const fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the scheduler is driven by; a faulty one stands in for it to show that the rules see faults.
trait Subject {
    fn step(&mut self, input: Input) -> Vec<Action>;
    fn waiting(&self) -> Vec<(usize, Waiting)>;
}

impl Subject for Scheduler {
    fn step(&mut self, input: Input) -> Vec<Action> {
        Self::step(self, input)
    }

    fn waiting(&self) -> Vec<(usize, Waiting)> {
        Self::waiting(self)
    }
}

/// A plan of one seed.
fn seeded(rng: &mut Rng) -> (Vec<Node>, Limits) {
    let count = rng.below(14) as usize;
    let groups: Vec<usize> = (0..rng.below(3)).map(|_| 1 + rng.below(3) as usize).collect();
    let resumed = rng.chance(25);
    let mut nodes: Vec<Node> = Vec::new();
    for job in 0..count {
        let mut needs = BTreeSet::new();
        if job > 0 && rng.chance(40) {
            for _ in 0..=rng.below(3) {
                needs.insert(rng.below(job as u64) as usize);
            }
        }
        let attempts = if rng.chance(20) { 1 + rng.below(4) as u32 } else { 1 };
        let retries = if rng.chance(30) { rng.below(4) as u32 } else { 0 };
        let known = match rng.below(4) {
            0 if resumed => Known::Decided { passed: rng.chance(70) },
            1 if resumed => {
                let tries = rng.below(u64::from(attempts + retries) + 1) as u32;
                let mut ended: BTreeMap<u32, End> =
                    (1..=tries).map(|number| (number, End::Failed { again: rng.chance(60) })).collect();
                // It was killed after an attempt had passed, and before its job was decided.
                if tries > 0 && rng.chance(20) {
                    ended.insert(1 + rng.below(u64::from(tries)) as u32, End::Passed);
                }
                Known::Tried(ended)
            }
            _ => Known::New,
        };
        let group =
            if groups.is_empty() || rng.chance(50) { None } else { Some(rng.below(groups.len() as u64) as usize) };
        nodes.push(Node {
            needs: needs.into_iter().collect(),
            priority: rng.below(5).cast_signed() - 2,
            group,
            attempts,
            retries,
            known,
        });
    }
    // A need that was never met cannot have a dependent that was run.
    for job in 0..count {
        let unmet = nodes[job].needs.iter().any(|need| nodes[*need].known != Known::Decided { passed: true });
        if unmet {
            nodes[job].known = Known::New;
        }
    }
    let max_failures = rng.chance(20).then(|| 1 + rng.below(3) as u32);
    (nodes, Limits { slots: 1 + rng.below(5) as usize, groups, max_failures })
}

/// What was seen, over all schedules.
#[derive(Debug, Default)]
struct Sum {
    schedules: u64,
    steps: u64,
    seen: BTreeMap<&'static str, u64>,
}

impl Sum {
    fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }
}

struct World {
    nodes: Vec<Node>,
    limits: Limits,
    running: BTreeSet<Attempt>,
    stopped: BTreeMap<Attempt, Cause>,
    started: BTreeSet<Attempt>,
    ended: BTreeMap<Attempt, End>,
    decided: BTreeMap<usize, bool>,
    failures: u32,
    halted: bool,
    done: bool,
}

impl World {
    fn new(nodes: Vec<Node>, limits: Limits) -> Self {
        let mut decided = BTreeMap::new();
        let mut ended = BTreeMap::new();
        for (job, node) in nodes.iter().enumerate() {
            match &node.known {
                Known::New => {}
                Known::Decided { passed } => drop(decided.insert(job, *passed)),
                Known::Tried(tries) => {
                    ended.extend(tries.iter().map(|(number, end)| (Attempt { job, number: *number }, *end)));
                }
            }
        }
        let failures = decided.values().filter(|passed| !**passed).count() as u32;
        Self {
            nodes,
            limits,
            running: BTreeSet::new(),
            stopped: BTreeMap::new(),
            started: BTreeSet::new(),
            ended,
            decided,
            failures,
            halted: false,
            done: false,
        }
    }

    fn check(&mut self, action: Action, sum: &mut Sum) -> Result<(), String> {
        if self.done {
            return Err(format!("{action:?} after the end"));
        }
        match action {
            Action::Start(attempt) => self.check_start(attempt, sum),
            Action::Stop(attempt, cause) => {
                sum.see(match cause {
                    Cause::Sibling => "a sibling is stopped",
                    Cause::FailFast => "a running one is stopped by failures",
                    Cause::Interrupted => "a running one is stopped by a signal",
                    Cause::Timeout => "a running one is stopped by the time",
                    Cause::Money => "a running one is stopped by the money",
                });
                let twice = self.stopped.insert(attempt, cause);
                if !self.running.contains(&attempt) {
                    return Err(format!("{attempt:?} is stopped and does not run"));
                }
                if twice.is_some() && cause != Cause::Interrupted {
                    return Err(format!("{attempt:?} is stopped twice"));
                }
                if cause == Cause::Sibling && !self.has_pass(attempt.job) {
                    return Err("a sibling is stopped without a pass".into());
                }
                Ok(())
            }
            Action::Decide(job, decision) => self.check_decision(job, decision, sum),
            Action::Done => {
                self.done = true;
                if self.decided.len() != self.nodes.len() || !self.running.is_empty() {
                    return Err("it is done while jobs are open".into());
                }
                Ok(())
            }
        }
    }

    fn check_start(&mut self, attempt: Attempt, sum: &mut Sum) -> Result<(), String> {
        let Attempt { job, number } = attempt;
        let node = &self.nodes[job];
        if self.halted {
            return Err(format!("{attempt:?} starts after the run was to end"));
        }
        if self.decided.contains_key(&job) {
            return Err(format!("{attempt:?} starts after its job was decided"));
        }
        if let Some(need) = node.needs.iter().find(|need| self.decided.get(need) != Some(&true)) {
            return Err(format!("{attempt:?} starts before {need} has passed"));
        }
        if !self.started.insert(attempt) || self.ended.contains_key(&attempt) {
            return Err(format!("{attempt:?} starts twice"));
        }
        if number == 0 || number > node.attempts + node.retries {
            return Err(format!("{attempt:?} is one too many"));
        }
        if number > node.attempts {
            sum.see("a retry");
            let open = self.running.iter().any(|other| other.job == job);
            if open || self.has_pass(job) || !self.wants_more(job) {
                return Err(format!("{attempt:?}: a retry that nobody wants, or beside others"));
            }
        }
        if self.has_pass(job) {
            return Err(format!("{attempt:?} starts after a pass"));
        }
        self.running.insert(attempt);
        if self.running.len() > self.limits.slots {
            return Err("more than there are slots".into());
        }
        if let Some(group) = node.group {
            let used = self.running.iter().filter(|one| self.nodes[one.job].group == Some(group)).count();
            if used > self.limits.groups[group] {
                return Err("more than the group allows".into());
            }
        }
        // Nothing better could have started in its place.
        let better = (0..self.nodes.len()).find(|other| {
            self.nodes[*other].priority > node.priority && self.could_start(*other) && self.group_has_room(*other)
        });
        if let Some(other) = better {
            return Err(format!("{attempt:?} starts before {other}, which is more urgent"));
        }
        if !node.needs.is_empty() {
            sum.see("a start after needs");
        }
        Ok(())
    }

    fn check_decision(&mut self, job: usize, decision: Decision, sum: &mut Sum) -> Result<(), String> {
        if self.running.iter().any(|one| one.job == job) {
            return Err(format!("job {job} is decided while it runs"));
        }
        let passed = match decision {
            Decision::By(number) => {
                let end = self.ended.get(&Attempt { job, number });
                if end.is_none() {
                    return Err(format!("job {job} is decided by an attempt that has not ended"));
                }
                if self.has_pass(job) && end != Some(&End::Passed) {
                    return Err(format!("job {job} has passed and is decided otherwise"));
                }
                sum.see(if number > self.nodes[job].attempts { "a retry decides" } else { "a first try decides" });
                end == Some(&End::Passed)
            }
            Decision::Skipped(Skip::Dependency(need)) => {
                sum.see("a need was not met");
                if !self.nodes[job].needs.contains(&need) || self.decided.get(&need) != Some(&false) {
                    return Err(format!("job {job} is skipped for {need}, which is no reason"));
                }
                false
            }
            Decision::Skipped(Skip::Halted(cause)) => {
                sum.see("a waiting one is skipped");
                if !self.halted && cause != Cause::FailFast {
                    return Err(format!("job {job} is skipped without a cause"));
                }
                if self.started.iter().any(|one| one.job == job) {
                    return Err(format!("job {job} was started, and is called skipped"));
                }
                false
            }
        };
        if self.decided.insert(job, passed).is_some() {
            return Err(format!("job {job} is decided twice"));
        }
        if matches!(decision, Decision::By(_)) && !passed {
            self.failures += 1;
        }
        if self.limits.max_failures.is_some_and(|max| self.failures >= max) {
            self.halted = true;
        }
        Ok(())
    }

    fn has_pass(&self, job: usize) -> bool {
        self.ended
            .range(Attempt { job, number: 0 }..Attempt { job: job + 1, number: 0 })
            .any(|(_, end)| *end == End::Passed)
    }

    /// Whether one of the ends wants another try; which one counts is the scheduler's to know, but one must.
    fn wants_more(&self, job: usize) -> bool {
        let ends = self.ended.range(Attempt { job, number: 0 }..Attempt { job: job + 1, number: 0 });
        ends.into_iter().any(|(_, end)| *end == End::Failed { again: true })
    }

    /// A first try of it waits for nothing but room.
    fn could_start(&self, job: usize) -> bool {
        let node = &self.nodes[job];
        !self.decided.contains_key(&job)
            && !self.has_pass(job)
            && node.needs.iter().all(|need| self.decided.get(need) == Some(&true))
            && (1..=node.attempts).any(|number| {
                let attempt = Attempt { job, number };
                !self.started.contains(&attempt) && !self.ended.contains_key(&attempt)
            })
    }

    fn group_has_room(&self, job: usize) -> bool {
        let Some(group) = self.nodes[job].group else { return true };
        self.running.iter().filter(|one| self.nodes[one.job].group == Some(group)).count() < self.limits.groups[group]
    }

    /// After a step: nothing that could start may wait.
    fn check_rest(&self, waiting: &[(usize, Waiting)]) -> Result<(), String> {
        if self.done {
            return Ok(());
        }
        if self.running.is_empty() {
            return Err("nothing runs, and it is not done".into());
        }
        if !self.halted && self.running.len() < self.limits.slots {
            let idle = (0..self.nodes.len()).find(|job| self.could_start(*job) && self.group_has_room(*job));
            if let Some(job) = idle {
                return Err(format!("job {job} could start and does not"));
            }
        }
        for (job, why) in waiting {
            if self.decided.contains_key(job) || self.running.iter().any(|one| one.job == *job) {
                return Err(format!("job {job} is said to wait"));
            }
            let fits = match why {
                Waiting::Need(need) => !self.decided.contains_key(need),
                Waiting::Group(_) => !self.group_has_room(*job),
                Waiting::Slot => true,
            };
            if !fits {
                return Err(format!("job {job} is said to wait for {why:?}"));
            }
        }
        Ok(())
    }
}

fn play(seed: u64, sum: &mut Sum, subject: impl Fn(Vec<Node>, Limits) -> Box<dyn Subject>) -> Result<(), String> {
    let mut rng = Rng(seed);
    let (nodes, limits) = seeded(&mut rng);
    let mut world = World::new(nodes.clone(), limits.clone());
    let mut scheduler = subject(nodes, limits);
    let mut input = Input::Start;
    if world.limits.max_failures.is_some_and(|max| world.failures >= max) {
        world.halted = true;
    }
    let bad = rng.below(70);
    for _ in 0..400 {
        sum.steps += 1;
        for action in scheduler.step(input) {
            world.check(action, sum)?;
        }
        world.check_rest(&scheduler.waiting())?;
        if world.done {
            sum.schedules += 1;
            return if scheduler.step(Input::Halt(Cause::Interrupted)).is_empty() {
                Ok(())
            } else {
                Err("it goes on".into())
            };
        }
        input = if rng.below(100) < 2 {
            world.halted = true;
            Input::Halt([Cause::Interrupted, Cause::Timeout, Cause::Money][rng.below(3) as usize])
        } else if rng.below(50) == 0 {
            // News of something that does not run.
            Input::Ended(Attempt { job: 0, number: 77 }, End::Passed)
        } else {
            let all: Vec<Attempt> = world.running.iter().copied().collect();
            let attempt = all[rng.below(all.len() as u64) as usize];
            let end = match world.stopped.get(&attempt) {
                Some(_) if rng.chance(80) => End::Stopped,
                _ if rng.chance(bad) => End::Failed { again: rng.chance(60) },
                _ => End::Passed,
            };
            world.running.remove(&attempt);
            world.ended.insert(attempt, end);
            Input::Ended(attempt, end)
        };
    }
    Err("it does not come to an end".into())
}

fn real(nodes: Vec<Node>, limits: Limits) -> Box<dyn Subject> {
    Box::new(Scheduler::new(nodes, limits))
}

#[test]
fn whatever_happens_the_rules_hold() {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(8) as u64;
    let sums: Vec<Sum> = std::thread::scope(|scope| {
        let work = |worker: u64| {
            move || {
                let mut sum = Sum::default();
                for seed in (worker..SCHEDULES).step_by(workers as usize) {
                    if let Err(broken) = play(seed, &mut sum, real) {
                        panic!("seed {seed}: {broken}\n{:?}", seeded(&mut Rng(seed)));
                    }
                }
                sum
            }
        };
        let threads: Vec<_> = (0..workers).map(|worker| scope.spawn(work(worker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut whole = Sum::default();
    for sum in sums {
        whole.schedules += sum.schedules;
        whole.steps += sum.steps;
        sum.seen.into_iter().for_each(|(what, count)| *whole.seen.entry(what).or_default() += count);
    }
    assert_eq!(whole.schedules, SCHEDULES);
    // What the simulation never reaches, it proves nothing about.
    assert!(whole.seen.len() == 11 && whole.seen.values().all(|count| *count > 500), "{whole:?}");
    eprintln!("{whole:?}");
}

/// A scheduler with one fault.
struct Faulty {
    inner: Scheduler,
    twist: fn(&mut Vec<Action>),
}

impl Subject for Faulty {
    fn step(&mut self, input: Input) -> Vec<Action> {
        let mut actions = self.inner.step(input);
        (self.twist)(&mut actions);
        actions
    }

    fn waiting(&self) -> Vec<(usize, Waiting)> {
        self.inner.waiting()
    }
}

/// Plays until a rule is broken, with limits and plans that are told wrongly, or with actions that are changed.
fn caught(tell: fn(&mut Vec<Node>, &mut Limits), twist: fn(&mut Vec<Action>)) -> bool {
    (0..3_000).any(|seed| {
        let subject = move |mut nodes: Vec<Node>, mut limits: Limits| -> Box<dyn Subject> {
            tell(&mut nodes, &mut limits);
            Box::new(Faulty { inner: Scheduler::new(nodes, limits), twist })
        };
        play(seed, &mut Sum::default(), subject).is_err()
    })
}

#[test]
fn every_fault_is_seen() {
    let none: fn(&mut Vec<Action>) = |_| {};
    let true_plan: fn(&mut Vec<Node>, &mut Limits) = |_, _| {};
    assert!(!caught(true_plan, none), "without a fault nothing is seen");
    assert!(caught(|_, limits| limits.slots += 1, none), "a slot too many");
    assert!(
        caught(|_, limits| limits.slots = limits.slots.saturating_sub(1).max(1), none),
        "a slot that is never used"
    );
    assert!(caught(|_, limits| limits.groups.iter_mut().for_each(|max| *max += 1), none), "a group that is too wide");
    assert!(caught(|nodes, _| nodes.iter_mut().for_each(|node| node.priority = 0), none), "no priorities");
    assert!(
        caught(
            |nodes, _| nodes.iter_mut().for_each(|node| node.needs.truncate(node.needs.len().saturating_sub(1))),
            none
        ),
        "a need forgotten"
    );
    assert!(caught(|nodes, _| nodes.iter_mut().for_each(|node| node.retries += 1), none), "a retry too many");
    assert!(caught(|nodes, _| nodes.iter_mut().for_each(|node| node.known = Known::New), none), "a decided job again");
    assert!(caught(|_, limits| limits.max_failures = None, none), "failures that do not count");
    assert!(caught(true_plan, |actions| actions.truncate(actions.len().saturating_sub(1))), "an action lost");
    assert!(caught(true_plan, |actions| actions.retain(|action| !matches!(action, Action::Decide(..)))), "no decision");
    assert!(
        caught(true_plan, |actions| {
            if let Some(first) = actions.iter().find(|action| matches!(action, Action::Decide(..))).copied() {
                actions.push(first);
            }
        }),
        "a job decided twice"
    );
}
