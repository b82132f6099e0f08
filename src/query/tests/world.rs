//! What must hold at every step of every query, whatever the world does: the checks of the simulation.

use super::memory::Memory;
use super::script::Play;
use super::tape::Tape;
use super::*;
use crate::outcome::{Terminal, Transition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A query, what it has asked for, and what it has done so far.
#[derive(Clone)]
pub(super) struct World {
    pub(super) play: Play,
    pub(super) params: Params,
    /// The history so far, in the language of scripts.
    pub(super) script: Vec<String>,
    pub(super) calls: BTreeMap<CallId, ModelCall>,
    pub(super) runs: BTreeMap<ToolRunId, ToolRun>,
    pub(super) hook: Option<usize>,
    pub(super) end: Option<Terminal>,
    pub(super) sent: u64,
    pub(super) transitions: BTreeMap<Transition, u32>,
    pub(super) layers: BTreeMap<Layer, u32>,
    agents: BTreeMap<AgentId, Counts>,
    memory: BTreeMap<AgentId, Memory>,
    spawned: u32,
    turns: u32,
    started: Vec<QueuedInput>,
    completed: Vec<QueuedInput>,
    errored: bool,
    compact_failures: u32,
    continuations: Vec<u64>,
    switched: BTreeSet<AgentId>,
    pub(super) tape: Tape,
}

#[derive(Clone, Default)]
struct Counts {
    recoveries: u32,
    escalations: u32,
    reactive: u32,
}

impl World {
    pub(super) fn new(params: Params) -> Self {
        Self {
            play: Play::new(params.clone()),
            params,
            script: Vec::new(),
            calls: BTreeMap::new(),
            runs: BTreeMap::new(),
            hook: None,
            end: None,
            sent: 0,
            transitions: BTreeMap::new(),
            layers: BTreeMap::new(),
            agents: BTreeMap::new(),
            memory: BTreeMap::new(),
            spawned: 0,
            turns: 0,
            started: Vec::new(),
            completed: Vec::new(),
            errored: false,
            compact_failures: 0,
            continuations: Vec::new(),
            switched: BTreeSet::new(),
            tape: Tape::default(),
        }
    }

    /// Whether a run only waits for hooks to let a sub-agent start.
    pub(super) fn clears(&self, run: ToolRunId) -> bool {
        let run = self.runs.get(&run);
        self.params.clear_agents
            && run.is_some_and(|run| (TOOLS.traits)(&run.call).agent.is_some() && run.agent == AgentId::JOB)
    }

    /// Plays a line and checks all that follows from it.
    pub(super) fn play(&mut self, line: String) -> Result<(), String> {
        if line == "> kill" {
            return self.die(line);
        }
        let was_over = self.end.is_some();
        let cause = Cause::of(&line);
        self.forget(&cause);
        let effects = self.play.line(&line);
        self.script.push(line);
        if was_over && !effects.is_empty() {
            return Err(format!("an effect after the end: {effects:?}"));
        }
        for effect in effects {
            self.check(effect, &cause)?;
        }
        let idle = self.calls.is_empty() && self.runs.is_empty() && self.hook.is_none();
        let wakes = self.play.query.deadline();
        if self.end.is_none() && idle && wakes.is_none_or(|at| at >= self.params.deadline) {
            return Err("it waits for nothing".into());
        }
        if self.end.is_some() && wakes.is_some() {
            return Err("it has ended and wants to hear of the time".into());
        }
        Ok(())
    }

    /// What has been answered is open no more.
    fn forget(&mut self, cause: &Cause) {
        match cause {
            Cause::Answer(call, _) | Cause::Fail(call, _) => {
                let call = call.unwrap_or(CallId(self.play.query.model_calls()));
                if let Some(call) = self.calls.remove(&call) {
                    self.note_failure(&call, cause);
                    let gives_up = matches!(cause, Cause::Fail(_, remedy) if remedy == "giveup");
                    self.errored |= gives_up && call.source == Source::Job && call.agent == AgentId::JOB;
                }
            }
            Cause::Tool(Some(run)) | Cause::Clear(run) => {
                self.runs.remove(run);
            }
            Cause::Hook(index) if self.hook == *index => self.hook = None,
            Cause::Hook(_) | Cause::Tool(None) | Cause::Other => {}
        }
    }

    /// Counts in a row what has gone wrong with one agent's requests.
    fn note_failure(&mut self, call: &ModelCall, cause: &Cause) {
        let memory = self.memory.entry(call.agent).or_default();
        match cause {
            Cause::Fail(_, remedy) if call.source != Source::Summary => {
                memory.failed += 1;
                if call.source != Source::Compact {
                    memory.refused(remedy);
                }
            }
            Cause::Answer(..) if matches!(call.source, Source::Job | Source::Subagent) => memory.malformed += 1,
            Cause::Fail(..) | Cause::Answer(..) | Cause::Tool(_) | Cause::Clear(_) | Cause::Hook(_) | Cause::Other => {}
        }
    }

    fn check(&mut self, effect: Effect, cause: &Cause) -> Result<(), String> {
        if self.end.is_some() {
            return Err(format!("an effect after the end: {effect:?}"));
        }
        match effect {
            Effect::CallModel(call) => self.check_call(call),
            Effect::RunTool(run) => self.check_run(run),
            Effect::ClearAgent(run) => {
                self.runs.insert(run.id, run);
                Ok(())
            }
            Effect::RunHook { index, .. } => {
                let asking = self.calls.values().any(|call| call.source != Source::Summary);
                if self.errored || self.hook.is_some() || asking {
                    return Err(format!("hook {index} runs at the wrong time"));
                }
                self.hook = Some(index);
                Ok(())
            }
            Effect::StopCall(call) => {
                self.calls.remove(&call).map(drop).ok_or("it stops a call that is not open".into())
            }
            Effect::StopTool(run) => self.runs.remove(&run).map(drop).ok_or("it stops a run that is not open".into()),
            Effect::StopAll => {
                self.calls.clear();
                self.runs.clear();
                self.hook = None;
                Ok(())
            }
            Effect::Emit(notice) => self.check_notice(notice, cause),
            Effect::Finish(end) => self.check_end(end),
            Effect::KeepResult { content, .. } => {
                if content.is_empty() {
                    Err("it keeps nothing".into())
                } else {
                    Ok(())
                }
            }
            Effect::Record { agent, message } => self.check_message(agent, &message),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other messages promise nothing")]
    fn check_message(&mut self, agent: AgentId, message: &Arc<Message>) -> Result<(), String> {
        if message.blocks.is_empty() {
            return Err("it records an empty message".into());
        }
        if agent == AgentId::JOB {
            self.tape.recorded(message);
        }
        let memory = self.memory.entry(agent).or_default();
        match message.origin {
            Origin::Prompt | Origin::FollowUp(_) => memory.task.push(message.text()),
            Origin::Recovery if message.text() == words::EMPTY => memory.empty += 1,
            Origin::Model => memory.empty = 0,
            _ => {}
        }
        if memory.empty > 2 {
            return Err("a third empty answer in a row is asked about".into());
        }
        memory.recorded(message, self.params.loop_limit)
    }

    fn check_call(&mut self, call: ModelCall) -> Result<(), String> {
        self.sent += 1;
        let fail = |what: &str| Err(format!("call {}: {what}", call.id.0));
        if u64::from(call.id.0) != self.sent {
            return fail("its number does not follow");
        }
        if let Err(broken) = call.history.check() {
            return fail(&broken);
        }
        if call.max_output < MIN_OUTPUT {
            return fail("its output cap is too small to say anything");
        }
        if self.sent > most_calls(&self.params) {
            return fail("more calls than the formula allows");
        }
        let asks = |other: &ModelCall| other.agent == call.agent && other.source != Source::Summary;
        if call.source != Source::Summary && self.calls.values().any(asks) {
            return fail("the agent has asked already");
        }
        if call.source == Source::Summary && self.calls.values().any(|other| other.source == Source::Summary) {
            return fail("a second summary");
        }
        if self.runs.values().any(|run| run.agent == call.agent) {
            return fail("its agent's tools still run");
        }
        if call.agent == AgentId::JOB && self.hook.is_some() {
            return fail("a hook still runs");
        }
        let takes_turn = |call: &ModelCall| matches!(call.source, Source::Job | Source::Subagent);
        let open = self.calls.values().filter(|call| takes_turn(call)).count() as u32;
        if takes_turn(&call) && self.turns + open >= self.params.max_turns.0 {
            return fail("no turn is left for it");
        }
        if call.source == Source::Compact && call.history.iter().flat_map(|m| &m.blocks).any(is_delicate) {
            return fail("a compaction with thinking or images");
        }
        let window = self.params.models.get(call.model).context_window;
        if call.source != Source::Compact && call.history.iter().map(|m| m.weight() as u64).sum::<u64>() / 12 > window.0
        {
            return fail("more than any tokenizer could fit into the window");
        }
        if call.source != Source::Summary {
            let retries = self.params.patience.retries;
            let memory = self.memory.entry(call.agent).or_default();
            if memory.failed > 2 * retries + 8 {
                return fail("one request fails again and again");
            }
            // Two after each of the ways on that ask for the same turn anew.
            if memory.malformed > 10 {
                return fail("answers that do not count, again and again");
            }
            if let Err(broken) = memory.request(&call, &self.params) {
                return fail(&broken);
            }
        }
        self.calls.insert(call.id, call);
        Ok(())
    }

    fn check_run(&mut self, run: ToolRun) -> Result<(), String> {
        let fail = |what: &str| Err(format!("run {}: {what}", run.id.0));
        let alone = |run: &ToolRun| (TOOLS.traits)(&run.call).concurrency == Concurrency::Alone;
        let mut beside = self.runs.values().filter(|other| other.agent == run.agent).peekable();
        if beside.peek().is_some() && (alone(&run) || beside.any(alone)) {
            return fail("a call that changes something runs beside another");
        }
        if !matches!(run.call.input, ToolInput::Object(_)) {
            return fail("its input is no object");
        }
        let streams = self.calls.values().any(|call| call.agent == run.agent && call.source != Source::Summary);
        if streams && alone(&run) {
            return fail("it changes something before the answer is whole");
        }
        self.runs.insert(run.id, run);
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other notices promise nothing")]
    fn check_notice(&mut self, notice: Notice, cause: &Cause) -> Result<(), String> {
        match notice {
            Notice::Savepoint { saved, .. } => self.keep(*saved),
            Notice::Compacted { agent: AgentId::JOB, summary, kept_from } => {
                self.tape.compacted(summary, kept_from);
                Ok(())
            }
            Notice::Continued { agent, transition } => self.check_transition(agent, transition, cause),
            Notice::AgentStarted { .. } => {
                self.spawned += 1;
                if self.spawned > self.params.max_turns.0 { Err("more sub-agents than turns".into()) } else { Ok(()) }
            }
            Notice::Turn { agent, message, model, .. } => {
                let memory = self.memory.entry(agent).or_default();
                memory.answered(&message, model);
                let pause = matches!(cause, Cause::Answer(_, stop) if stop == "pause");
                memory.pauses = if pause { memory.pauses + 1 } else { 0 };
                (memory.failed, memory.malformed) = (0, 0);
                self.turns += 1;
                self.switched.remove(&agent);
                if self.turns > self.params.max_turns.0 { Err("more turns than allowed".into()) } else { Ok(()) }
            }
            Notice::ContextBoundary { layer, agent, .. } => {
                // A request that has been made smaller is another one.
                let memory = self.memory.entry(agent).or_default();
                (memory.failed, memory.malformed) = (0, 0);
                *self.layers.entry(layer).or_default() += 1;
                Ok(())
            }
            Notice::CompactFailed { failures, .. } => {
                self.compact_failures += 1;
                if failures > 3 { Err("a fourth failed compaction in a row".into()) } else { Ok(()) }
            }
            Notice::ModelFallback { agent, to, .. } if to == "fallback" => {
                // The error was not the end.
                self.errored = false;
                if self.switched.insert(agent) { Ok(()) } else { Err("a second fallback for one request".into()) }
            }
            Notice::InputStarted(input) => {
                let twice = self.started.contains(&input);
                self.started.push(input);
                if twice { Err("an input is taken twice".into()) } else { Ok(()) }
            }
            Notice::InputCompleted(input) => {
                let known = self.started.contains(&input) && !self.completed.contains(&input);
                self.completed.push(input);
                if known { Ok(()) } else { Err("an input is completed that was not taken".into()) }
            }
            Notice::HookJudged { index, blocks, .. } => {
                let rule = self.params.hooks.get(index).ok_or("no such hook")?;
                let most = match rule.kind {
                    HookRuleKind::Gate => rule.max_blocks + 1,
                    HookRuleKind::Hook => rule.max_blocks,
                };
                if blocks > most { Err(format!("hook {index} has blocked {blocks} times in a row")) } else { Ok(()) }
            }
            Notice::Tombstone { .. } => match cause {
                Cause::Answer(..) | Cause::Fail(..) => Ok(()),
                Cause::Tool(_) | Cause::Clear(_) | Cause::Hook(_) | Cause::Other => {
                    Err("a tombstone without a death".into())
                }
            },
            _ => Ok(()),
        }
    }

    /// No transition without its cause, and none more often than its guard allows.
    fn check_transition(&mut self, agent: AgentId, transition: Transition, cause: &Cause) -> Result<(), String> {
        *self.transitions.entry(transition).or_default() += 1;
        let counts = self.agents.entry(agent).or_default();
        let fail = |what: &str| Err(format!("{}: {what}", transition.code()));
        let answer = match cause {
            Cause::Answer(_, stop) => stop.as_str(),
            Cause::Fail(..) | Cause::Tool(_) | Cause::Clear(_) | Cause::Hook(_) | Cause::Other => "",
        };
        let failed = match cause {
            Cause::Fail(_, remedy) => remedy.as_str(),
            Cause::Answer(..) | Cause::Tool(_) | Cause::Clear(_) | Cause::Hook(_) | Cause::Other => "",
        };
        match transition {
            Transition::NextTurn => match cause {
                // A result may also be that of a sub-agent whose call has ended.
                // A hook's end is one when a background command has ended meanwhile.
                Cause::Tool(_) | Cause::Clear(_) | Cause::Fail(..) | Cause::Hook(_) | Cause::Other => {}
                Cause::Answer(..) => {
                    let pauses = self.memory.entry(agent).or_default().pauses;
                    if answer == "pause" && pauses > 5 && self.paused_without_calls(agent) {
                        return fail("a sixth pause in a row");
                    }
                }
            },
            Transition::CollapseDrainRetry if failed != "shrink" && answer != "full" => {
                return fail("nothing was too long");
            }
            Transition::ReactiveCompactRetry => {
                counts.reactive += 1;
                if counts.reactive > 1 {
                    return fail("a second time");
                }
            }
            Transition::MaxOutputTokensEscalate => {
                counts.escalations += 1;
                if counts.escalations > 1 || answer != "max" {
                    return fail("a second time, or without a cut");
                }
            }
            Transition::MaxOutputTokensRecovery => {
                counts.recoveries += 1;
                if counts.recoveries > 3 || answer != "max" {
                    return fail("a fourth time, or without a cut");
                }
            }
            Transition::StopHookBlocking => {
                if agent != AgentId::JOB || !matches!(cause, Cause::Hook(_)) || self.errored {
                    return fail("without a hook that objects, or after an error");
                }
            }
            Transition::TokenBudgetContinuation => {
                if !self.params.keep_working || agent != AgentId::JOB {
                    return fail("nobody asked for it");
                }
                self.continuations.push(self.play.query.ledger().used().output.0);
                let gains: Vec<u64> = self.continuations.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let little = gains.len() >= 3 && gains.iter().rev().take(2).all(|gain| *gain < 500);
                let used = self.play.query.ledger().used().counted().0;
                if little || used * 100 >= self.params.caps.tokens.0 * 90 {
                    return fail("it brings little, or the budget is nearly used");
                }
            }
            Transition::CollapseDrainRetry => {}
        }
        Ok(())
    }

    /// Whether the newest message of the job is an answer that called nothing.
    fn paused_without_calls(&self, agent: AgentId) -> bool {
        let last = self.play.query.state().messages.last();
        agent == AgentId::JOB && last.is_some_and(|message| message.role == Role::Assistant)
    }

    fn check_end(&mut self, end: Terminal) -> Result<(), String> {
        let code = end.reason.code();
        let is_error = matches!(code, "model_error" | "prompt_too_long" | "image_error");
        if end.error.is_some() != is_error {
            return Err(format!("{code}: an error where none is, or none where one is"));
        }
        if end.abort.is_some() != code.starts_with("aborted") || end.hook.is_some() != code.contains("hook") {
            return Err(format!("{code}: evidence that does not fit"));
        }
        if self.errored && code == "completed" {
            return Err("an error is reported as completed".into());
        }
        let own_accord = matches!(code, "completed" | "max_turns" | "stop_hook_prevented" | "hook_stopped");
        let all = self.started.iter().all(|input| self.completed.contains(input));
        if (own_accord && !all) || (!own_accord && !self.completed.is_empty()) {
            return Err(format!("{code}: inputs are completed that are not, or the other way round"));
        }
        if self.play.query.ledger().is_holding() {
            return Err("something is still set aside".into());
        }
        let open = self.calls.len() + self.runs.len() + usize::from(self.hook.is_some());
        if open > 0 {
            return Err(format!("{code}: {open} things still run"));
        }
        // The transcript can be gone on from.
        self.play.query.state().messages.check().map_err(|broken| format!("{code}: {broken}"))?;
        self.end = Some(end);
        Ok(())
    }
}

fn is_delicate(block: &Block) -> bool {
    match block {
        Block::Thinking { .. } => true,
        Block::ToolResult(result) => !result.media.is_empty(),
        Block::Opaque(value) => value["type"] == "redacted_thinking",
        Block::Text(_) | Block::ToolUse(_) => false,
    }
}

/// What a line of a script is, as far as the checks care.
enum Cause {
    /// An answer, with its stop.
    Answer(Option<CallId>, String),
    /// A failure, with its remedy.
    Fail(Option<CallId>, String),
    Tool(Option<ToolRunId>),
    Clear(ToolRunId),
    Hook(Option<usize>),
    Other,
}

impl Cause {
    fn of(line: &str) -> Self {
        let mut words = line.split(' ').skip(1);
        let Some((verb, at)) = words.next().map(|verb| verb.split_once('@').unwrap_or((verb, ""))) else {
            return Self::Other;
        };
        let word = words.next().unwrap_or_default();
        let call = at.parse().ok().map(CallId);
        match verb {
            "answer" => Self::Answer(call, word.into()),
            "fail" => Self::Fail(call, word.split('=').next().unwrap_or_default().into()),
            "clear" => at.parse().map_or(Self::Other, |run| Self::Clear(ToolRunId(run))),
            "tool" => Self::Tool(at.parse().ok().map(ToolRunId)),
            "hook" => Self::Hook(word.parse().ok()),
            _ => Self::Other,
        }
    }
}
