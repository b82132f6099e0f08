//! The model has finished with what it was given: the next input, the stop hooks, the token budget, the end.

use super::agent::{Agent, Phase};
use super::budget::{MIN_OUTPUT, estimate};
use super::effect::{AgentKind, Effect, Notice, QueuedInput};
use super::event::{HookResult, HookStatus};
use super::params::{HookRule, HookRuleKind, OnRed};
use super::shared::Shared;
use super::state::{BudgetProgress, State};
use super::transcript::{Block, Origin};
use super::words;
use crate::outcome::{HookEvidence, HookKind, TerminalReason, Transition};
use crate::units::Tokens;

/// Below this share of the token budget, in percent, a model that is to keep working goes on.
const BUDGET_SHARE: u64 = 90;
/// After so many continuations it may stop for want of progress.
const CONTINUATIONS: u32 = 3;
/// A continuation that brought less than this many output tokens brought little.
const LITTLE: Tokens = Tokens(500);

impl Agent {
    /// No call arrived, nothing is withheld, nothing was aborted.
    pub(super) fn conclude(&mut self, sh: &mut Shared) {
        if self.parent.is_some() {
            return self.complete(sh);
        }
        let index = self.state.inputs_taken;
        let follow_up = sh.params.follow_ups.get(index).cloned();
        if follow_up.is_none() && self.notices.is_empty() {
            return self.run_hooks(sh, 0, Vec::new());
        }
        if !self.may_turn(sh) {
            return self.out_of_turns(sh);
        }
        // Notices come first: what a background command brought may be what the model waits for.
        self.tell_notices(sh);
        if let Some(input) = follow_up {
            sh.emit(Notice::InputStarted(QueuedInput::FollowUp(index)));
            self.task.push(Block::Text(input.clone()));
            self.say(sh, Origin::FollowUp(index), input);
            let is_gate = |index: usize| sh.params.hooks.get(index).is_some_and(|rule| rule.kind == HookRuleKind::Gate);
            let blocks = &self.state.blocks;
            // A new input is a new occasion for the hooks; gates count on.
            let blocks = blocks.iter().enumerate().map(|(at, count)| if is_gate(at) { *count } else { 0 }).collect();
            self.state = State { inputs_taken: index + 1, stop_hook_active: false, blocks, ..self.taken() };
        }
        self.next_turn(sh);
    }

    fn tell_notices(&mut self, sh: &mut Shared) {
        for text in self.take_notices(sh) {
            self.say(sh, Origin::Command, text);
        }
    }

    /// Runs the next hook from `index` on, or ends with what they said.
    fn run_hooks(&mut self, sh: &mut Shared, index: usize, reds: Vec<(usize, HookResult)>) {
        let next = (index..sh.params.hooks.len()).find(|at| self.is_due(sh, *at));
        if let Some(index) = next {
            let (stop_hook_active, last_words) = (self.state.stop_hook_active, self.last_words());
            sh.out.push(Effect::RunHook { index, stop_hook_active, last_words });
            self.phase = Phase::Hooks { index, reds };
        } else if reds.is_empty() && !self.notices.is_empty() && self.may_turn(sh) {
            // A background command has ended while the hooks ran.
            self.tell_notices(sh);
            self.next_turn(sh);
        } else if reds.is_empty() {
            self.keep_working(sh);
        } else {
            self.send_back(sh, &reds);
        }
    }

    /// Whether a hook is to run: a gate always, a hook that has objected as often as it may only on a new occasion.
    fn is_due(&self, sh: &Shared, index: usize) -> bool {
        let Some(rule) = sh.params.hooks.get(index) else { return false };
        let count = self.state.blocks.get(index).copied().unwrap_or_default();
        match rule.kind {
            HookRuleKind::Gate => true,
            HookRuleKind::Hook => !self.state.stop_hook_active || count < rule.max_blocks,
        }
    }

    pub(super) fn take_hook(
        &mut self,
        sh: &mut Shared,
        index: usize,
        mut reds: Vec<(usize, HookResult)>,
        result: HookResult,
    ) {
        let passed = result.status == HookStatus::Pass;
        let mut blocks = self.state.blocks.clone();
        let mut count = 0;
        if let Some(block) = blocks.get_mut(index) {
            *block = if passed { 0 } else { block.saturating_add(1) };
            count = *block;
        }
        self.state = State { blocks, ..self.taken() };
        sh.emit(Notice::HookJudged { index, passed, blocks: count });
        let Some(rule) = sh.params.hooks.get(index).cloned() else { return self.run_hooks(sh, index + 1, reds) };
        if let Some(message) = ends(&rule, &result, count) {
            let broken = matches!(result.status, HookStatus::Broken(_));
            let kind = match rule.kind {
                HookRuleKind::Gate => HookKind::Gate,
                HookRuleKind::Hook => HookKind::Stop,
            };
            let evidence = HookEvidence { kind, name: rule.name, tail: result.tail, broken };
            return self.finish(sh, TerminalReason::StopHookPrevented, message, |end| end.hook = Some(evidence));
        }
        if !passed {
            reds.push((index, result));
        }
        self.run_hooks(sh, index + 1, reds);
    }

    /// Stop hooks objected: what they said becomes a message, and the model works on.
    fn send_back(&mut self, sh: &mut Shared, reds: &[(usize, HookResult)]) {
        if !self.may_turn(sh) {
            return self.out_of_turns(sh);
        }
        let reds: Vec<_> =
            reds.iter().filter_map(|(index, result)| Some((sh.params.hooks.get(*index)?, result))).collect();
        let text = words::blocked(&reds);
        self.say(sh, Origin::Gate, text);
        self.tell_notices(sh);
        self.state = State { stop_hook_active: true, ..self.taken() };
        self.go_on(sh, Transition::StopHookBlocking);
    }

    /// Nothing objects: a model that is to use up its budget goes on, as long as that brings something.
    fn keep_working(&mut self, sh: &mut Shared) {
        let (used, total) = (sh.ledger.used().counted(), sh.params.caps.tokens);
        let BudgetProgress { continuations, output_then, gains } = self.state.budget;
        let output = sh.ledger.used().output;
        let gains = if continuations == 0 { gains } else { [output.minus(output_then), gains[0]] };
        let diminishing = continuations >= CONTINUATIONS && gains.iter().all(|gain| *gain < LITTLE);
        let spent = used.0.saturating_mul(100) >= total.0.saturating_mul(BUDGET_SHARE);
        let words = words::budget_left(used, total);
        // The work is done: a limit that only forbids more of it is no failure.
        let may = self.may_turn(sh) && self.can_afford(sh, words.len());
        if !sh.params.keep_working || self.kind != AgentKind::Job || spent || diminishing || !may {
            return self.complete(sh);
        }
        self.say(sh, Origin::Budget, words);
        let budget = BudgetProgress { continuations: continuations + 1, output_then: output, gains };
        self.state = State { budget, ..self.taken() };
        self.go_on(sh, Transition::TokenBudgetContinuation);
    }
}

impl Agent {
    /// Whether one more call with so many bytes more would fit under the caps.
    fn can_afford(&self, sh: &mut Shared, bytes: usize) -> bool {
        let prompt = self.state.view.prompt(sh.params.overhead) + estimate(bytes + 100);
        let prices = sh.limits(self.state.model).prices.clone();
        let reserved = sh.ledger.reserve(prompt, MIN_OUTPUT, &prices);
        reserved.map(|reserved| sh.ledger.release(&reserved)).is_ok()
    }
}

/// Why a hook's result ends the query; `None`: it does not.
fn ends(rule: &HookRule, result: &HookResult, count: u32) -> Option<String> {
    let what = match rule.kind {
        HookRuleKind::Gate => "gate",
        HookRuleKind::Hook => "hook",
    };
    let (name, how) = (&rule.name, words::describe(result));
    match (&result.status, rule.on_red) {
        (HookStatus::Pass, _) => None,
        (HookStatus::Broken(_), _) => Some(format!("{what} `{name}` {how}")),
        (HookStatus::Prevent(why), _) => Some(format!("{what} `{name}` forbade going on: {why}")),
        (HookStatus::Object(_) | HookStatus::Fail { .. } | HookStatus::TimedOut, OnRed::Stop) => {
            Some(format!("{what} `{name}` {how}, and it is set to stop the job"))
        }
        (HookStatus::Object(_) | HookStatus::Fail { .. } | HookStatus::TimedOut, OnRed::Block) => {
            (rule.kind == HookRuleKind::Gate && count > rule.max_blocks).then(|| {
                format!("{what} `{name}` {how}, after it had sent the model back {} times in a row", rule.max_blocks)
            })
        }
    }
}
