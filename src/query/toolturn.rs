//! The tool calls of a turn: started while the answer streams or after it, their results given back in order.

use super::agent::{Agent, Ask, Live, Phase, Tries};
use super::calls::{Answer, Calls};
use super::context::cap;
use super::effect::{Effect, Layer, Notice, QueuedInput, ToolRun};
use super::event::{CallId, ToolRunId};
use super::repetition::Verdict;
use super::shared::Shared;
use super::subagent::Spawn;
use super::transcript::{Block, Origin, Role, ToolInput, ToolResult, ToolUse};
use super::words;
use crate::outcome::HookEvidence;
use crate::units::Tokens;

impl Agent {
    /// A block is complete while the answer streams: a call that changes nothing starts at once.
    pub(super) fn take_block(&mut self, sh: &mut Shared, call: CallId, tries: Tries, mut live: Live, block: Block) {
        live.blocks.push(block);
        if let Some(Block::ToolUse(tool)) = live.blocks.last()
            && self.repeated_id(&live.blocks).is_none()
        {
            live.calls.push(tool.clone(), &sh.params.tools);
            self.start(sh, &mut live.calls, Answer::Streaming);
        }
        self.phase = Phase::Calling { call, ask: Ask::Turn, tries, live };
    }

    /// A call has ended while the answer streams.
    pub(super) fn take_early_result(
        &mut self,
        sh: &mut Shared,
        (call, ask, tries, mut live): (CallId, Ask, Tries, Live),
        run: ToolRunId,
        result: ToolResult,
        stopped: Option<HookEvidence>,
    ) {
        let ours = live.calls.finish(run, result);
        if let Some(hook) = stopped.filter(|_| ours) {
            sh.stop_call(call);
            self.keep_partial(sh, live, words::hook_stopped_result);
            return self.hook_stopped(sh, hook);
        }
        if ours {
            self.start(sh, &mut live.calls, Answer::Streaming);
        }
        self.phase = Phase::Calling { call, ask, tries, live };
    }

    /// The answer is whole, with calls in it.
    pub(super) fn run_whole(&mut self, sh: &mut Shared, live: Live, calls: Vec<ToolUse>, message: u64) {
        let mut all = live.calls;
        for stray in all.settle(calls.into_iter(), &sh.params.tools) {
            sh.stop_run(stray);
        }
        self.run_calls(sh, all, message);
    }

    fn run_calls(&mut self, sh: &mut Shared, mut calls: Calls, message: u64) {
        self.start(sh, &mut calls, Answer::Whole);
        if !calls.all_done() {
            self.phase = Phase::Tools(calls);
            return;
        }
        let verdict = self.repetition.add_all(calls.ended(), sh.params.loop_limit);
        let mut notes: Vec<String> = Vec::new();
        if let Verdict::Notice(count) = &verdict {
            notes.push(words::repeated(*count));
        }
        notes.extend(self.take_notices(sh));
        let asked = self.summary_request(sh, &calls);
        let limits = calls.result_limits();
        self.append_results(sh, calls.into_results(words::aborted_result), &limits, notes);
        if let Verdict::Stop(evidence) = verdict {
            return self.looping(sh, &evidence);
        }
        self.ask_for_summary(sh, asked, message);
        self.next_turn(sh);
    }

    pub(super) fn take_result(
        &mut self,
        sh: &mut Shared,
        mut calls: Calls,
        run: ToolRunId,
        result: ToolResult,
        stopped: Option<HookEvidence>,
    ) {
        let ours = calls.finish(run, result);
        if let Some(hook) = stopped.filter(|_| ours) {
            self.stop_calls(sh, calls, words::hook_stopped_result);
            return self.hook_stopped(sh, hook);
        }
        let message = self.state.messages.last().map_or(0, |message| message.id);
        self.run_calls(sh, calls, message);
    }

    /// Ends the calls of a turn: what has ended stays, the rest gets stand-ins.
    pub(super) fn stop_calls(
        &mut self,
        sh: &mut Shared,
        calls: Calls,
        missing: impl Fn(&super::ToolUseId) -> ToolResult,
    ) {
        let running: Vec<ToolRunId> = calls.running().collect();
        for run in running {
            sh.stop_run(run);
        }
        let limits = calls.result_limits();
        self.append_results(sh, calls.into_results(missing), &limits, Vec::new());
    }

    fn start(&self, sh: &mut Shared, calls: &mut Calls, answer: Answer) {
        let started = calls.start(answer, || sh.next_run(self.id));
        for (id, call, traits) in started {
            match (traits.agent, &call.input) {
                (Some(kind), ToolInput::Object(_)) if self.parent.is_none() && sh.params.clear_agents => {
                    sh.clearing.insert(id, kind);
                    sh.out.push(Effect::ClearAgent(ToolRun { id, agent: self.id, kind: self.kind, call }));
                }
                (Some(kind), ToolInput::Object(input)) if self.parent.is_none() => {
                    sh.spawned.insert(id);
                    sh.spawns.push_back(Spawn::new(self.id, id, kind, input));
                }
                _ => sh.out.push(Effect::RunTool(ToolRun { id, agent: self.id, kind: self.kind, call })),
            }
        }
    }

    /// The results of a turn and what else there is to say, as one message; large results go to files.
    pub(super) fn append_results(
        &mut self,
        sh: &mut Shared,
        mut results: Vec<ToolResult>,
        limits: &[Option<usize>],
        notes: Vec<String>,
    ) {
        let window = self.window(sh);
        let outputs = sh.params.outputs.clone();
        let before: usize = results.iter().map(|result| result.content.len()).sum();
        let each = window.result_bytes();
        let kept = cap(&mut results, limits, each, each * 2, &outputs, || sh.next_file());
        if !kept.is_empty() {
            let after: usize = results.iter().map(|result| result.content.len()).sum();
            let freed = Tokens((before.saturating_sub(after) / 5) as u64);
            self.tell_boundary(sh, Layer::ResultBudget, freed, kept.len());
            sh.out.extend(kept.into_iter().map(|kept| Effect::KeepResult { file: kept.file, content: kept.content }));
        }
        let blocks = results.into_iter().map(Block::ToolResult).chain(notes.into_iter().map(Block::Text)).collect();
        let message = sh.message(Role::User, Origin::ToolResults, blocks);
        self.append(sh, &message);
    }

    /// What background commands have to say; it is taken with this.
    pub(super) fn take_notices(&mut self, sh: &mut Shared) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some((id, text)) = self.notices.pop_front() {
            sh.emit(Notice::InputStarted(QueuedInput::Command(id.clone())));
            self.notices_taken.push(id);
            texts.push(text);
        }
        texts
    }
}
