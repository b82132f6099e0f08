//! The tool calls of one response: which may start, which have ended, in which order their results go back.

use super::event::ToolRunId;
use super::params::Concurrency;
use super::tool::{Traits, Usable};
use super::transcript::{ToolInput, ToolResult, ToolUse, ToolUseId};
use super::words;
use std::sync::Arc;

/// How many calls run side by side at most: enough to hide latency, few enough not to starve other jobs.
const SIDE_BY_SIDE: usize = 8;

/// The calls of one response, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calls(Vec<Slot>);

#[derive(Clone, Debug, PartialEq)]
struct Slot {
    call: ToolUse,
    traits: Traits,
    state: SlotState,
}

#[derive(Clone, Debug, PartialEq)]
enum SlotState {
    Queued,
    Running(ToolRunId),
    Done(ToolResult),
}

/// Whether the response is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The stream runs: only what changes nothing may start, since the answer may yet be given up.
    Streaming,
    /// It has ended.
    Whole,
}

impl Calls {
    /// Takes a call. One whose input is no object has its error result already and never runs.
    pub(super) fn push(&mut self, call: ToolUse, tools: &Usable) {
        let state = match &call.input {
            ToolInput::Object(_) => SlotState::Queued,
            ToolInput::Invalid { problem, .. } => {
                let text = format!("{} was not run: {problem}", call.name);
                SlotState::Done(ToolResult::new(Arc::clone(&call.id), text, true))
            }
        };
        self.0.push(Slot { traits: (tools.traits)(&call), call, state });
    }

    /// Makes these the calls of the whole answer; what has started or ended already stays so. Gives back runs that are none of them.
    pub(super) fn settle(&mut self, calls: impl Iterator<Item = ToolUse>, tools: &Usable) -> Vec<ToolRunId> {
        let mut early = std::mem::take(&mut self.0);
        for call in calls {
            match early.iter().position(|slot| slot.call == call) {
                Some(at) => self.0.push(early.remove(at)),
                None => self.push(call, tools),
            }
        }
        early.iter().filter_map(Slot::run).collect()
    }

    /// Marks those that may start now as running and returns them, in order.
    ///
    /// Shared calls start side by side; one that runs alone waits for all before it, and all after it wait for it.
    pub(super) fn start(
        &mut self,
        answer: Answer,
        mut next_run: impl FnMut() -> ToolRunId,
    ) -> Vec<(ToolRunId, ToolUse, Traits)> {
        let mut started = Vec::new();
        let mut running = self.running().count();
        for slot in &mut self.0 {
            let is_shared = slot.traits.concurrency == Concurrency::Shared;
            match slot.state {
                SlotState::Done(_) => continue,
                SlotState::Running(_) if is_shared => continue,
                SlotState::Queued if is_shared && running < SIDE_BY_SIDE => {
                    // A sub-agent costs money: it waits until the answer is sure to count.
                    if answer == Answer::Streaming && slot.traits.agent.is_some() {
                        break;
                    }
                }
                SlotState::Queued if !is_shared && running == 0 && answer == Answer::Whole => {}
                SlotState::Running(_) | SlotState::Queued => break,
            }
            let run = next_run();
            slot.state = SlotState::Running(run);
            running += 1;
            started.push((run, slot.call.clone(), slot.traits));
            if !is_shared {
                break;
            }
        }
        started
    }

    /// Takes a result; `false` when it is of no run of these.
    ///
    /// When a shell command fails, later shell commands of the same answer are not run: they were written in the belief that it
    /// works.
    pub(super) fn finish(&mut self, run: ToolRunId, result: ToolResult) -> bool {
        let Some(at) = self.0.iter().position(|slot| slot.run() == Some(run)) else { return false };
        let mut breaks = false;
        if let Some(slot) = self.0.get_mut(at) {
            breaks = slot.traits.is_shell && result.is_error;
            let result = ToolResult { id: Arc::clone(&slot.call.id), ..result };
            slot.state = SlotState::Done(result);
        }
        if breaks {
            for slot in self.0.iter_mut().skip(at + 1) {
                if slot.traits.is_shell && slot.state == SlotState::Queued {
                    slot.state = SlotState::Done(words::sibling_result(&slot.call.id));
                }
            }
        }
        true
    }

    /// Whether every call has its result.
    pub(super) fn all_done(&self) -> bool {
        self.0.iter().all(|slot| matches!(slot.state, SlotState::Done(_)))
    }

    /// The runs under way.
    pub(super) fn running(&self) -> impl Iterator<Item = ToolRunId> {
        self.0.iter().filter_map(Slot::run)
    }

    /// The calls that have ended, with their results, in the order of the calls.
    pub(super) fn ended(&self) -> impl Iterator<Item = (&ToolUse, &ToolResult)> {
        self.0.iter().filter_map(|slot| match &slot.state {
            SlotState::Done(result) => Some((&slot.call, result)),
            SlotState::Queued | SlotState::Running(_) => None,
        })
    }

    /// What each call's result may put into a message.
    pub(super) fn result_limits(&self) -> Vec<Option<usize>> {
        self.0.iter().map(|slot| slot.traits.result_limit).collect()
    }

    /// The results in the order of the calls; a missing one is made from `missing`.
    pub(super) fn into_results(self, missing: impl Fn(&ToolUseId) -> ToolResult) -> Vec<ToolResult> {
        let result = |slot: Slot| match slot.state {
            SlotState::Done(result) => result,
            SlotState::Queued | SlotState::Running(_) => missing(&slot.call.id),
        };
        self.0.into_iter().map(result).collect()
    }
}

impl Slot {
    const fn run(&self) -> Option<ToolRunId> {
        match self.state {
            SlotState::Running(run) => Some(run),
            SlotState::Queued | SlotState::Done(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::effect::AgentKind;
    use serde_json::Map;

    fn call(id: &str) -> ToolUse {
        ToolUse { id: id.into(), name: "T".into(), input: ToolInput::Object(Map::new()) }
    }

    /// Ids that begin with `r` only read, with `s` are shell commands, with `a` start sub-agents that only look.
    const BY_ID: Usable = Usable {
        traits: |call| Traits {
            concurrency: if call.id.starts_with(['r', 'a']) { Concurrency::Shared } else { Concurrency::Alone },
            is_shell: call.id.starts_with('s'),
            agent: call.id.starts_with('a').then_some(AgentKind::Explore),
            result_limit: None,
        },
        subject: |_| String::new(),
    };

    struct Scene {
        calls: Calls,
        runs: Vec<String>,
    }

    impl Scene {
        fn new(ids: &[&str]) -> Self {
            let mut calls = Calls::default();
            for id in ids {
                calls.push(call(id), &BY_ID);
            }
            Self { calls, runs: Vec::new() }
        }

        fn start(&mut self, answer: Answer) -> Vec<String> {
            let mut last = self.runs.len() as u64;
            let started = self.calls.start(answer, || {
                last += 1;
                ToolRunId(last)
            });
            let ids: Vec<String> = started.iter().map(|(_, call, _)| call.id.to_string()).collect();
            self.runs.extend(ids.clone());
            ids
        }

        fn finish(&mut self, id: &str, is_error: bool) -> bool {
            let run = self.runs.iter().rposition(|run| run == id).map_or(0, |at| at as u64 + 1);
            self.calls.finish(ToolRunId(run), ToolResult::new("x".into(), "out", is_error))
        }
    }

    #[test]
    fn readers_run_side_by_side_and_a_writer_runs_alone_in_its_place() {
        let mut scene = Scene::new(&["r1", "r2", "w1", "w2", "r3"]);
        assert_eq!(scene.start(Answer::Whole), ["r1", "r2"]);
        assert!(scene.finish("r2", false));
        assert!(scene.start(Answer::Whole).is_empty());
        assert!(scene.finish("r1", false));
        assert_eq!(scene.start(Answer::Whole), ["w1"]);
        assert!(scene.start(Answer::Whole).is_empty());
        assert!(scene.finish("w1", false));
        assert_eq!(scene.start(Answer::Whole), ["w2"]);
        assert!(!scene.finish("w1", false), "a second result of a call is nobody's");
        assert!(scene.finish("w2", false));
        assert_eq!(scene.start(Answer::Whole), ["r3"]);
        assert!(!scene.calls.all_done());
        assert!(scene.finish("r3", false));
        let results = scene.calls.into_results(|_| unreachable!("all are done"));
        assert_eq!(results.iter().map(|result| &*result.id).collect::<Vec<_>>(), ["r1", "r2", "w1", "w2", "r3"]);
    }

    #[test]
    fn while_the_answer_streams_only_what_changes_nothing_starts_and_never_past_what_does() {
        assert_eq!(Scene::new(&["r1", "r2", "w1", "r3"]).start(Answer::Streaming), ["r1", "r2"]);
        assert!(Scene::new(&["w1", "r1"]).start(Answer::Streaming).is_empty());
        let mut scene = Scene::new(&["r1", "a1", "r2"]);
        assert_eq!(scene.start(Answer::Streaming), ["r1"]);
        assert_eq!(scene.start(Answer::Whole), ["a1", "r2"]);
    }

    #[test]
    fn the_whole_answer_keeps_what_has_started_and_names_what_is_not_in_it() {
        let mut scene = Scene::new(&["r1", "r2"]);
        scene.start(Answer::Streaming);
        assert!(scene.finish("r2", false));
        let strays = scene.calls.settle(["r2", "w1"].map(call).into_iter(), &BY_ID);
        assert_eq!(strays, [ToolRunId(1)]);
        assert_eq!(scene.start(Answer::Whole), ["w1"]);
        assert_eq!(scene.calls.ended().count(), 1);
    }

    #[test]
    fn after_a_failed_shell_command_later_ones_are_not_run() {
        let mut scene = Scene::new(&["s1", "s2", "w1"]);
        assert_eq!(scene.start(Answer::Whole), ["s1"]);
        assert!(scene.finish("s1", true));
        assert_eq!(scene.start(Answer::Whole), ["w1"]);
        assert!(scene.finish("w1", true));
        let results = scene.calls.into_results(|_| unreachable!("all are done"));
        assert!(results[1].is_error && results[1].content.contains("not run"), "{results:?}");
    }

    #[test]
    fn a_cut_off_call_never_starts() {
        let mut calls = Calls::default();
        let cut = ToolUse { input: ToolInput::Invalid { raw: "{\"a".into(), problem: "cut".into() }, ..call("w1") };
        calls.push(cut, &BY_ID);
        assert!(calls.start(Answer::Whole, || unreachable!("nothing starts")).is_empty());
        assert!(calls.all_done());
    }

    #[test]
    fn no_more_than_a_handful_run_at_once() {
        let ids: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
        let mut scene = Scene::new(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(scene.start(Answer::Streaming).len(), SIDE_BY_SIDE);
        assert!(scene.finish("r0", false));
        assert_eq!(scene.start(Answer::Streaming), ["r8"]);
    }
}
