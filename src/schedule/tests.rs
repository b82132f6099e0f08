//! Single rules by script; all of them by simulation.

mod simulate;

use super::*;

pub(super) fn node() -> Node {
    Node { needs: Vec::new(), priority: 0, group: None, attempts: 1, retries: 0, known: Known::New }
}

fn limits(slots: usize) -> Limits {
    Limits { slots, groups: vec![1], max_failures: None }
}

fn start(job: usize) -> Action {
    Action::Start(Attempt { job, number: 1 })
}

fn ended(job: usize, number: u32, end: End) -> Input {
    Input::Ended(Attempt { job, number }, end)
}

fn passed(job: usize) -> Input {
    ended(job, 1, End::Passed)
}

const FAILED: End = End::Failed { again: false };
const AGAIN: End = End::Failed { again: true };

fn by(job: usize, number: u32) -> Action {
    Action::Decide(job, Decision::By(number))
}

fn skipped(job: usize, skip: Skip) -> Action {
    Action::Decide(job, Decision::Skipped(skip))
}

#[test]
fn slots_are_filled_by_priority_and_then_in_the_order_of_the_plan() {
    let nodes = vec![node(), Node { priority: 5, ..node() }, node(), Node { priority: -1, ..node() }];
    let mut scheduler = Scheduler::new(nodes, limits(2));
    assert_eq!(scheduler.step(Input::Start), [start(1), start(0)]);
    assert_eq!(scheduler.waiting(), [(2, Waiting::Slot), (3, Waiting::Slot)]);
    assert_eq!(scheduler.step(passed(0)), [by(0, 1), start(2)]);
    assert_eq!(scheduler.step(ended(1, 1, FAILED)), [by(1, 1), start(3)]);
    assert_eq!(scheduler.step(passed(3)), [by(3, 1)]);
    assert_eq!(scheduler.step(passed(2)), [by(2, 1), Action::Done]);
    assert_eq!(scheduler.step(passed(2)), []);
}

#[test]
fn a_job_starts_after_all_that_it_needs_and_not_when_one_of_them_failed() {
    let nodes = vec![node(), node(), Node { needs: vec![0, 1], ..node() }, Node { needs: vec![2], ..node() }];
    let mut scheduler = Scheduler::new(nodes.clone(), limits(9));
    assert_eq!(scheduler.step(Input::Start), [start(0), start(1)]);
    assert_eq!(scheduler.step(passed(1)), [by(1, 1)]);
    assert_eq!(scheduler.waiting(), [(2, Waiting::Need(0)), (3, Waiting::Need(2))]);
    assert_eq!(scheduler.step(passed(0)), [by(0, 1), start(2)]);
    let mut scheduler = Scheduler::new(nodes, limits(9));
    scheduler.step(Input::Start);
    scheduler.step(passed(1));
    let skips = [skipped(2, Skip::Dependency(0)), skipped(3, Skip::Dependency(2))];
    assert_eq!(scheduler.step(ended(0, 1, FAILED)), [by(0, 1), skips[0], skips[1], Action::Done]);
}

#[test]
fn a_full_group_lets_others_pass() {
    let grouped = Node { group: Some(0), ..node() };
    let mut scheduler = Scheduler::new(vec![grouped.clone(), grouped, node()], limits(2));
    assert_eq!(scheduler.step(Input::Start), [start(0), start(2)]);
    assert_eq!(scheduler.waiting(), [(1, Waiting::Group(0))]);
    assert_eq!(scheduler.step(passed(2)), [by(2, 1)]);
    assert_eq!(scheduler.step(passed(0)), [by(0, 1), start(1)]);
}

#[test]
fn retries_come_one_after_the_other_and_only_when_they_could_change_something() {
    let mut scheduler = Scheduler::new(vec![Node { retries: 2, ..node() }], limits(1));
    scheduler.step(Input::Start);
    assert_eq!(scheduler.step(ended(0, 1, AGAIN)), [Action::Start(Attempt { job: 0, number: 2 })]);
    assert_eq!(scheduler.step(ended(0, 2, AGAIN)), [Action::Start(Attempt { job: 0, number: 3 })]);
    assert_eq!(scheduler.step(ended(0, 3, AGAIN)), [by(0, 3), Action::Done]);
    let mut scheduler = Scheduler::new(vec![Node { retries: 2, ..node() }], limits(1));
    scheduler.step(Input::Start);
    assert_eq!(scheduler.step(ended(0, 1, FAILED)), [by(0, 1), Action::Done]);
}

#[test]
fn the_first_green_of_several_attempts_stops_the_others() {
    let mut scheduler = Scheduler::new(vec![Node { attempts: 3, ..node() }], limits(2));
    let attempt = |number| Attempt { job: 0, number };
    assert_eq!(scheduler.step(Input::Start), [Action::Start(attempt(1)), Action::Start(attempt(2))]);
    assert_eq!(scheduler.step(ended(0, 1, FAILED)), [Action::Start(attempt(3))]);
    assert_eq!(scheduler.step(ended(0, 3, End::Passed)), [Action::Stop(attempt(2), Cause::Sibling)]);
    // One that passes while it is told to stop changes nothing.
    assert_eq!(scheduler.step(ended(0, 2, End::Passed)), [by(0, 3), Action::Done]);
}

#[test]
fn enough_failures_end_the_run_and_a_signal_still_reaches_what_runs() {
    let limits = Limits { max_failures: Some(1), ..limits(2) };
    let mut scheduler = Scheduler::new(vec![node(), node(), node()], limits);
    scheduler.step(Input::Start);
    let other = Attempt { job: 1, number: 1 };
    let fail_fast = skipped(2, Skip::Halted(Cause::FailFast));
    assert_eq!(scheduler.step(ended(0, 1, FAILED)), [by(0, 1), Action::Stop(other, Cause::FailFast), fail_fast]);
    assert_eq!(scheduler.step(Input::Halt(Cause::Timeout)), []);
    assert_eq!(scheduler.step(Input::Halt(Cause::Interrupted)), [Action::Stop(other, Cause::Interrupted)]);
    assert_eq!(scheduler.step(ended(1, 1, End::Stopped)), [by(1, 1), Action::Done]);
}

#[test]
fn what_an_earlier_process_has_decided_is_not_started_again() {
    let known = |passed| Node { known: Known::Decided { passed }, ..node() };
    let nodes = vec![known(true), known(false), Node { needs: vec![0], ..node() }, Node { needs: vec![1], ..node() }];
    let mut scheduler = Scheduler::new(nodes, limits(9));
    assert_eq!(scheduler.step(Input::Start), [skipped(3, Skip::Dependency(1)), start(2)]);
    let tried = Known::Tried([(1, AGAIN)].into());
    let mut scheduler = Scheduler::new(vec![Node { retries: 1, known: tried.clone(), ..node() }], limits(1));
    assert_eq!(scheduler.step(Input::Start), [Action::Start(Attempt { job: 0, number: 2 })]);
    let mut scheduler = Scheduler::new(vec![Node { known: tried, ..node() }], limits(1));
    assert_eq!(scheduler.step(Input::Start), [by(0, 1), Action::Done]);
}

#[test]
fn a_run_without_jobs_is_done_at_once() {
    assert_eq!(Scheduler::new(Vec::new(), limits(4)).step(Input::Start), [Action::Done]);
}
