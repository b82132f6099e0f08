//! The tool calls of one response: which may start, which have ended, in which order their results go back.

use super::params::Concurrency;
use super::transcript::{ToolInput, ToolResult, ToolUse, ToolUseId};
use std::sync::Arc;

/// How many calls run side by side at most: enough to hide latency, few enough not to starve other jobs.
const SIDE_BY_SIDE: usize = 8;

/// The calls of one response, in their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Calls(Vec<Slot>);

#[derive(Clone, Debug, PartialEq)]
struct Slot {
    call: ToolUse,
    concurrency: Concurrency,
    state: SlotState,
}

#[derive(Clone, Debug, PartialEq)]
enum SlotState {
    Queued,
    Running,
    Done(ToolResult),
}

impl Calls {
    /// All of them queued, but those whose input is no object: they have their error result already and never run.
    pub(super) fn new(calls: impl Iterator<Item = ToolUse>, concurrency: fn(&ToolUse) -> Concurrency) -> Self {
        let slot = |call: ToolUse| {
            let state = match &call.input {
                ToolInput::Object(_) => SlotState::Queued,
                ToolInput::Invalid { problem, .. } => {
                    let text = format!("{} was not run: {problem}", call.name);
                    SlotState::Done(ToolResult::new(Arc::clone(&call.id), text, true))
                }
            };
            Slot { concurrency: concurrency(&call), call, state }
        };
        Self(calls.map(slot).collect())
    }

    /// Marks those that may start now as running and returns them, in order.
    ///
    /// Shared calls start side by side; one that runs alone waits for all before it, and all after it wait for it.
    pub(super) fn start(&mut self) -> Vec<ToolUse> {
        let mut started = Vec::new();
        let mut running = self.0.iter().filter(|slot| slot.state == SlotState::Running).count();
        for slot in &mut self.0 {
            match (&slot.state, slot.concurrency) {
                (SlotState::Done(_), _) | (SlotState::Running, Concurrency::Shared) => {}
                (SlotState::Queued, Concurrency::Shared) if running < SIDE_BY_SIDE => {
                    slot.state = SlotState::Running;
                    running += 1;
                    started.push(slot.call.clone());
                }
                (SlotState::Queued, Concurrency::Alone) if running == 0 => {
                    slot.state = SlotState::Running;
                    started.push(slot.call.clone());
                    break;
                }
                (SlotState::Running, Concurrency::Alone) | (SlotState::Queued, _) => break,
            }
        }
        started
    }

    /// Takes a result; `false` when no running call waits for it.
    pub(super) fn finish(&mut self, result: ToolResult) -> bool {
        let waiting = |slot: &&mut Slot| slot.call.id == result.id && slot.state == SlotState::Running;
        match self.0.iter_mut().find(waiting) {
            Some(slot) => {
                slot.state = SlotState::Done(result);
                true
            }
            None => false,
        }
    }

    /// Whether every call has its result.
    pub(super) fn all_done(&self) -> bool {
        self.0.iter().all(|slot| matches!(slot.state, SlotState::Done(_)))
    }

    /// The calls that have ended, with their results, in the order of the calls.
    pub(super) fn ended(&self) -> impl Iterator<Item = (&ToolUse, &ToolResult)> {
        self.0.iter().filter_map(|slot| match &slot.state {
            SlotState::Done(result) => Some((&slot.call, result)),
            SlotState::Queued | SlotState::Running => None,
        })
    }

    /// The results in the order of the calls; a missing one is made from `missing`.
    pub(super) fn into_results(self, missing: impl Fn(&ToolUseId) -> ToolResult) -> Vec<ToolResult> {
        let result = |slot: Slot| match slot.state {
            SlotState::Done(result) => result,
            SlotState::Queued | SlotState::Running => missing(&slot.call.id),
        };
        self.0.into_iter().map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    fn call(id: &str) -> ToolUse {
        ToolUse { id: id.into(), name: "T".into(), input: ToolInput::Object(Map::new()) }
    }

    /// Ids that begin with `r` only read.
    fn by_id(call: &ToolUse) -> Concurrency {
        if call.id.starts_with('r') { Concurrency::Shared } else { Concurrency::Alone }
    }

    fn ids(calls: &[ToolUse]) -> Vec<&str> {
        calls.iter().map(|call| &*call.id).collect()
    }

    fn done(id: &str) -> ToolResult {
        ToolResult::new(id.into(), "ok", false)
    }

    #[test]
    fn readers_run_side_by_side_and_a_writer_runs_alone_in_its_place() {
        let mut calls = Calls::new(["r1", "r2", "w1", "w2", "r3"].map(call).into_iter(), by_id);
        assert_eq!(ids(&calls.start()), ["r1", "r2"]);
        assert!(calls.finish(done("r2")));
        assert!(calls.start().is_empty());
        assert!(calls.finish(done("r1")));
        assert_eq!(ids(&calls.start()), ["w1"]);
        assert!(calls.start().is_empty());
        assert!(calls.finish(done("w1")));
        assert_eq!(ids(&calls.start()), ["w2"]);
        assert!(!calls.finish(done("w1")), "a second result of a call is nobody's");
        assert!(calls.finish(done("w2")));
        assert_eq!(ids(&calls.start()), ["r3"]);
        assert!(!calls.all_done());
        assert!(calls.finish(done("r3")));
        let results = calls.into_results(|_| unreachable!("all are done"));
        assert_eq!(results.iter().map(|result| &*result.id).collect::<Vec<_>>(), ["r1", "r2", "w1", "w2", "r3"]);
    }

    #[test]
    fn a_cut_off_call_never_starts() {
        let cut = ToolUse { input: ToolInput::Invalid { raw: "{\"a".into(), problem: "cut".into() }, ..call("w1") };
        let mut calls = Calls::new([cut].into_iter(), by_id);
        assert!(calls.start().is_empty());
        assert!(calls.all_done());
    }

    #[test]
    fn no_more_than_a_handful_run_at_once() {
        let mut calls = Calls::new((0..20).map(|n| call(&format!("r{n}"))), by_id);
        assert_eq!(calls.start().len(), SIDE_BY_SIDE);
        assert!(calls.finish(done("r0")));
        assert_eq!(ids(&calls.start()), ["r8"]);
    }
}
