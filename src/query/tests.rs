//! The loop by transition, from scripts: events in, the rendered effects out. A new rule is a new six-line test.

use super::*;
use crate::outcome::Terminal;
use crate::units::{Elapsed, Prices, Tokens, Turns};
use insta::assert_snapshot;
use script::Play;

mod caps;
mod ladder;
mod layers;
mod memory;
mod script;
mod simulate;
mod tape;
mod world;

/// What is known about the tools of scripts: `Read` and `Grep` only look, `Bash` is a shell, `Agent` starts sub-agents.
pub(super) const TOOLS: Usable = Usable {
    traits: |call| {
        let agent = match &call.input {
            ToolInput::Object(input) if call.name == "Agent" => Some(agent_kind(input)),
            ToolInput::Object(_) | ToolInput::Invalid { .. } => None,
        };
        let looks = matches!(call.name.as_str(), "Read" | "Grep") || agent == Some(AgentKind::Explore);
        Traits {
            concurrency: if looks { Concurrency::Shared } else { Concurrency::Alone },
            is_shell: call.name == "Bash",
            agent,
            result_limit: if agent.is_some() { None } else { Some(usize::MAX) },
        }
    },
    subject: |call| format!("({})", call.id),
};

/// A query with 5 turns, a minute, follow-ups where `inputs` says so, and as many gates as named.
pub(super) fn params(gates: &[(&str, OnRed, u32)], inputs: &[&str]) -> Params {
    let hook = |(name, on_red, max_blocks): &(&str, OnRed, u32)| HookRule {
        name: (*name).into(),
        command: format!("run {name}"),
        kind: HookRuleKind::Gate,
        max_blocks: *max_blocks,
        on_red: *on_red,
    };
    Params {
        prompt: vec!["mend it".into()],
        follow_ups: inputs.iter().map(|text| (*text).into()).collect(),
        max_turns: Turns(5),
        caps: Caps { tokens: Tokens(100_000), cost: None },
        keep_working: false,
        task_budget: None,
        models: Models { main: model("main"), fallback: None, small: None },
        overhead: Tokens(2_000),
        deadline: Elapsed::from_millis(60_000),
        patience: Patience { retries: 2, ..Patience::default() },
        loop_limit: 4,
        seed: 1,
        hooks: gates.iter().map(hook).collect(),
        tools: TOOLS,
        clear_agents: false,
        outputs: "/out".into(),
        features: Features::default(),
    }
}

pub(super) fn model(name: &str) -> ModelLimits {
    ModelLimits {
        name: name.into(),
        max_output: Tokens(8_192),
        escalated_output: None,
        context_window: Tokens(200_000),
        prices: Prices::default(),
        binds_thinking: false,
    }
}

/// Plays a script against a query and renders what it asks for, an effect a line.
pub(super) fn check(params: Params, script: &str) -> String {
    let mut play = Play::new(params);
    let mut trace = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        trace.push_str(&format!("{line}\n"));
        for effect in play.line(line) {
            if let Effect::CallModel(call) = &effect {
                call.history.check().unwrap_or_else(|broken| panic!("{broken}\n{trace}"));
            }
            render(&effect, &mut trace);
        }
    }
    trace
}

fn render(effect: &Effect, trace: &mut String) {
    let whose = |agent: AgentId| if agent == AgentId::JOB { String::new() } else { format!(" of agent {}", agent.0) };
    let line = match effect {
        Effect::CallModel(call) => {
            let source = if call.source == Source::Job { "" } else { call.source.code() };
            let model = if call.model == ModelSlot::Main { "" } else { " fallback" };
            let about = format!("{} with {} messages", call.id.0, call.history.len());
            format!("call-model {source} {about}{model}").replace("  ", " ")
        }
        Effect::RunTool(run) => format!("run-tool {} {}{}", run.call.name, run.call.id, whose(run.agent)),
        Effect::ClearAgent(run) => format!("clear {} {}", run.call.name, run.call.id),
        Effect::RunHook { index, .. } => format!("run-hook {index}"),
        Effect::StopAll => "stop-all".into(),
        Effect::StopCall(call) => format!("stop-call {}", call.0),
        Effect::StopTool(run) => format!("stop-tool {}", run.0),
        Effect::KeepResult { file, content } => format!("keep {file} ({} bytes)", content.len()),
        Effect::Record { agent, message } => {
            let blocks: Vec<_> = message.blocks.iter().map(block).collect();
            format!("record {:?}{}: {}", message.origin, whose(*agent), blocks.join(", "))
        }
        Effect::Emit(
            Notice::ModelCalled { .. } | Notice::Turn { .. } | Notice::Compacted { .. } | Notice::Savepoint { .. },
        ) => return,
        Effect::Emit(Notice::Retrying { kind, until, .. }) => format!("retrying {kind:?} at {until}"),
        Effect::Emit(Notice::Continued { transition, .. }) => format!("go on: {}", transition.code()),
        Effect::Emit(Notice::ContextBoundary { layer, count, .. }) => format!("boundary {} of {count}", layer.code()),
        Effect::Emit(notice) => format!("{notice:?}"),
        Effect::Finish(end) => finish(end),
    };
    trace.push_str(&format!("  < {line}\n"));
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => text.lines().next().unwrap_or_default().to_owned(),
        Block::Thinking { .. } => "thinking".into(),
        Block::ToolUse(call) => format!("{} {}", call.name, call.id),
        Block::ToolResult(result) if result.is_error => format!("{} failed: {}", result.id, result.content),
        Block::ToolResult(result) => format!("{} ok", result.id),
        Block::Opaque(_) => "opaque".into(),
    }
}

fn finish(end: &Terminal) -> String {
    let abort = end.abort.map(|reason| format!(" ({})", reason.code())).unwrap_or_default();
    format!("finish {}{abort}: {}", end.reason.code(), end.message)
}

#[test]
fn completed_without_gates() {
    assert_snapshot!(check(params(&[], &[]), "> start\n> answer end text"), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn next_turn_gives_results_in_the_order_of_the_calls() {
    let script =
        "> start\n> answer end Read:a Read:b Write:c\n> tool b ok\n> tool a ok\n> tool c ok\n> answer end text";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer end Read:a Read:b Write:c
      < record Model: Read a, Read b, Write c
      < run-tool Read a
      < run-tool Read b
    > tool b ok
    > tool a ok
      < run-tool Write c
    > tool c ok
      < record ToolResults: a ok, b ok, c ok
      < go on: next_turn
      < call-model 2 with 3 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn stop_hook_blocking_sends_every_red_back_at_once() {
    let gates = [("fmt", OnRed::Block, 5), ("tests", OnRed::Block, 5)];
    let script =
        "> start\n> answer end text\n> hook 0 red\n> hook 1 late\n> answer end text\n> hook 0 pass\n> hook 1 pass";
    assert_snapshot!(check(params(&gates, &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer end text
      < record Model: done
      < run-hook 0
    > hook 0 red
      < HookJudged { index: 0, passed: false, blocks: 1 }
      < run-hook 1
    > hook 1 late
      < HookJudged { index: 1, passed: false, blocks: 1 }
      < record Gate: The work is not finished: checks that must pass are red.
      < go on: stop_hook_blocking
      < call-model 2 with 3 messages
    > answer end text
      < record Model: done
      < run-hook 0
    > hook 0 pass
      < HookJudged { index: 0, passed: true, blocks: 0 }
      < run-hook 1
    > hook 1 pass
      < HookJudged { index: 1, passed: true, blocks: 0 }
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn stop_hook_prevented_after_max_blocks_in_a_row() {
    let script =
        "> start\n> answer end text\n> hook 0 red\n> answer end text\n> hook 0 red\n> answer end text\n> hook 0 red";
    let trace = check(params(&[("tests", OnRed::Block, 2)], &[]), script);
    assert_snapshot!(trace.lines().last().unwrap(), @"  < finish stop_hook_prevented: gate `tests` failed with exit code 1, after it had sent the model back 2 times in a row");
    assert_eq!(trace.matches("call-model").count(), 3);
}

#[test]
fn a_green_in_between_starts_the_count_anew() {
    let gates = [("a", OnRed::Block, 1), ("b", OnRed::Block, 1)];
    let script = "> start\n> answer end text\n> hook 0 red\n> hook 1 pass\n> answer end text\n> hook 0 pass\n> hook 1 red\n> answer end text\n> hook 0 red\n> hook 1 pass";
    let trace = check(params(&gates, &[]), script);
    assert_eq!(trace.matches("go on: stop_hook_blocking").count(), 3);
}

#[test]
fn stop_hook_prevented_at_once_when_it_is_set_to_stop_or_cannot_be_run() {
    let stopped = check(params(&[("tests", OnRed::Stop, 5)], &[]), "> start\n> answer end text\n> hook 0 red");
    assert_snapshot!(stopped.lines().last().unwrap(), @"  < finish stop_hook_prevented: gate `tests` failed with exit code 1, and it is set to stop the job");
    let broken = check(params(&[("tests", OnRed::Block, 5)], &[]), "> start\n> answer end text\n> hook 0 broken");
    assert_snapshot!(broken.lines().last().unwrap(), @"  < finish stop_hook_prevented: gate `tests` could not be run: no such program");
}

#[test]
fn max_turns_counts_accepted_responses_and_retries_do_not_count() {
    let limit = Params { max_turns: Turns(2), ..params(&[("tests", OnRed::Block, 9)], &[]) };
    let script =
        "> start\n> fail retry overloaded\n+ 2\n> answer end Read:a\n> tool a ok\n> answer end Read:b\n> tool b ok";
    assert_snapshot!(check(limit.clone(), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > fail retry overloaded
      < retrying Overloaded at 0.8s
    + 2
      < call-model 2 with 1 messages
    > answer end Read:a
      < record Model: Read a
      < run-tool Read a
    > tool a ok
      < record ToolResults: a ok
      < go on: next_turn
      < call-model 3 with 3 messages
    > answer end Read:b
      < record Model: Read b
      < run-tool Read b
    > tool b ok
      < record ToolResults: b ok
      < LimitReached("the turn limit was reached: 2 of 2 turns")
      < finish max_turns: the turn limit was reached: 2 of 2 turns
    "#);
    let by_gate = check(limit, "> start\n> answer end text\n> hook 0 red\n> answer end text\n> hook 0 red");
    assert_snapshot!(by_gate.lines().last().unwrap(), @"  < finish max_turns: the turn limit was reached: 2 of 2 turns");
}

#[test]
fn model_error_never_runs_a_gate() {
    let gates = [("tests", OnRed::Block, 5)];
    for (script, end) in [
        ("> start\n> fail giveup auth", "finish model_error: no luck"),
        ("> start\n> answer refusal", "finish model_error: policy"),
        (
            "> start\n> answer full text",
            "finish prompt_too_long: the answer reached the end of the model's context window",
        ),
        (
            "> start\n> answer end Read:a\n> tool a ok\n> answer end Read:a\n> answer end Read:a\n> answer end Read:a",
            "uses the id of an earlier call again: a",
        ),
        (
            "> start\n> fail retry overloaded\n+ 1\n> fail retry overloaded\n+ 3\n> fail retry overloaded",
            "(given up after 3 tries)",
        ),
        ("> start\n> fail retry=3600 rate", "after the end of the job's time)"),
    ] {
        let trace = check(params(&gates, &[]), script);
        assert!(trace.trim_end().ends_with(end), "{trace}");
        assert!(!trace.contains("run-hook"), "{trace}");
    }
}

#[test]
fn b064_a_wish_of_the_provider_is_waited_for() {
    let trace = check(params(&[], &[]), "> start\n> fail retry=10 rate\n+ 9.9\n+ 2\n> answer end text");
    assert_snapshot!(trace, @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > fail retry=10 rate
      < retrying RateLimited at 10.9s
    + 9.9
    + 2
      < call-model 2 with 1 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn b060_a_cut_call_is_never_run_and_the_model_is_told() {
    assert_snapshot!(check(params(&[], &[]), "> start\n> answer max Write:a:cut\n> answer end text"), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer max Write:a:cut
      < record Model: Write a
      < record ToolResults: a failed: Write was not run: the output limit cut it
      < go on: next_turn
      < call-model 2 with 3 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn aborted_streaming_keeps_nothing_of_the_answer() {
    assert_snapshot!(check(params(&[], &[]), "> start\n> cancel interrupt\n> answer end text\n+ 100"), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > cancel interrupt
      < stop-all
      < record Interruption: [The work was interrupted here: the run was interrupted.]
      < finish aborted_streaming (interrupt): interrupted by a signal
    > answer end text
    + 100
    "#);
}

#[test]
fn aborted_tools_keeps_what_has_ended_and_answers_for_the_rest() {
    let script = "> start\n> answer end Read:a Read:b Write:c\n> tool a ok\n> cancel fail_fast\n> tool b ok";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer end Read:a Read:b Write:c
      < record Model: Read a, Read b, Write c
      < run-tool Read a
      < run-tool Read b
    > tool a ok
    > cancel fail_fast
      < stop-all
      < record ToolResults: a ok, b failed: The call was stopped before it ended: the job was interrupted., c failed: The call was stopped before it ended: the job was interrupted.
      < record Interruption: [The work was interrupted here: another job of the run failed.]
      < finish aborted_tools (fail_fast): stopped because another job failed
    > tool b ok
    "#);
}

#[test]
fn what_a_call_had_used_is_booked_when_it_is_given_up() {
    let used = |script: &[&str]| {
        let mut play = Play::new(params(&[], &[]));
        for line in script {
            play.line(line);
        }
        play.query.ledger().used().input
    };
    assert_eq!(used(&["> start", "> told 700", "> cancel interrupt"]), Tokens(700));
    assert_eq!(used(&["> start", "> told 700", "> fail giveup auth"]), Tokens(700));
    assert_eq!(used(&["> start", "> told 700", "> answer end text"]), Tokens(1_000));
    assert_eq!(used(&["> start", "> cancel interrupt"]), Tokens(0));
}

#[test]
fn the_jobs_time_ends_every_phase() {
    for (script, code) in [
        ("> start\n+ 60", "aborted_streaming (timeout)"),
        ("> start\n> fail retry=30 rate\n+ 60", "aborted_streaming (timeout)"),
        ("> start\n> answer end Write:a\n+ 60", "aborted_tools (timeout)"),
        ("> start\n> answer end text\n+ 60", "aborted_tools (timeout)"),
    ] {
        let trace = check(params(&[("tests", OnRed::Block, 5)], &[]), script);
        assert!(trace.trim_end().lines().last().unwrap().contains(code), "{trace}");
    }
}

#[test]
fn a_cut_answer_is_asked_for_again_with_a_larger_limit_once() {
    let main = ModelLimits { escalated_output: Some(Tokens(64_000)), ..model("main") };
    let models = Models { main, fallback: None, small: None };
    let caps = Caps { tokens: Tokens(1_000_000), cost: None };
    let larger = Params { caps, models, ..params(&[], &[]) };
    let mut play = Play::new(larger.clone());
    let mut caps = Vec::new();
    for line in ["> start", "> answer max text", "> answer end Read:a", "> tool a ok", "> answer end text"] {
        for effect in play.line(line) {
            if let Effect::CallModel(call) = effect {
                caps.push((call.max_output.0, call.history.len()));
            }
        }
    }
    assert_eq!(caps, [(8_192, 1), (64_000, 1), (8_192, 3)]);
    let trace = check(larger, "> start\n> answer max Write:a:cut\n> answer max Write:a:cut\n> answer end text");
    assert!(trace.contains("go on: max_output_tokens_escalate"), "{trace}");
    assert!(trace.contains("record ToolResults: a failed"), "{trace}");
}

#[test]
fn a_cut_answer_is_kept_and_gone_on_with_three_times() {
    let script = "> start\n> answer max text\n> answer end text";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer max text
      < record Model: done
      < record Recovery: [Your answer was cut off at the output limit. Go on exactly where it ended: no apology, no recap. If much is left, do it in smaller pieces.]
      < go on: max_output_tokens_recovery
      < call-model 2 with 3 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
    let limits = Params { max_turns: Turns(50), ..params(&[("tests", OnRed::Block, 5)], &[]) };
    let trace = check(limits, "> start\n> answer max text\n> answer max text\n> answer max text\n> answer max text");
    assert!(
        trace
            .trim_end()
            .ends_with("finish model_error: the answer was cut at the output limit again, after 3 recoveries"),
        "{trace}"
    );
    assert_eq!(trace.matches("go on: max_output_tokens_recovery").count(), 3);
    assert!(!trace.contains("run-hook"));
}

#[test]
fn b082_a_model_that_goes_round_in_circles_is_told_and_then_stopped() {
    let limits = Params { max_turns: Turns(50), ..params(&[("tests", OnRed::Block, 5)], &[]) };
    let script: String =
        (1..=6).fold("> start".to_owned(), |script, n| format!("{script}\n> answer end Read:r{n}\n> tool r{n} ok"));
    let trace = check(limits.clone(), &script);
    assert!(trace.contains("record ToolResults: r3 ok, [You have made this same call 3 times in a row"), "{trace}");
    let end = "finish aborted_tools (loop_detected): the model went round in circles: the same call of Read with the same result came 4 times in a row";
    assert!(trace.contains(end), "{trace}");
    assert_eq!(trace.matches("call-model").count(), 4);
    let varied = (1..=6).fold("> start".to_owned(), |script, n| {
        let tool = if n % 3 == 0 { "Write" } else { "Read" };
        format!("{script}\n> answer end {tool}:r{n}\n> tool r{n} ok")
    });
    assert!(!check(limits, &varied).contains("loop_detected"));
}

#[test]
fn follow_ups_are_taken_one_by_one_and_completed_only_by_an_end_of_its_own_accord() {
    let script = "> start\n> answer end text\n> answer end text\n> hook 0 pass";
    assert_snapshot!(check(params(&[("tests", OnRed::Block, 5)], &["now a test"]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer end text
      < record Model: done
      < InputStarted(FollowUp(0))
      < record FollowUp(0): now a test
      < go on: next_turn
      < call-model 2 with 3 messages
    > answer end text
      < record Model: done
      < run-hook 0
    > hook 0 pass
      < HookJudged { index: 0, passed: true, blocks: 0 }
      < InputCompleted(FollowUp(0))
      < finish completed: the model finished and nothing objected
    "#);
    let failed = check(params(&[], &["now a test"]), "> start\n> answer end text\n> fail giveup auth");
    assert!(failed.contains("InputStarted(FollowUp(0))") && !failed.contains("InputCompleted"), "{failed}");
}

#[test]
fn an_empty_answer_never_enters_the_history() {
    let trace = check(
        params(&[("tests", OnRed::Block, 5)], &[]),
        "> start\n> answer end blank\n> hook 0 red\n> answer end text",
    );
    assert!(!trace.contains("record Model: \n"), "{trace}");
    assert!(trace.contains("call-model 2 with 2 messages"), "{trace}");
}

#[test]
fn thinking_never_ends_a_message() {
    let trace = check(params(&[], &[]), "> start\n> answer end think text think");
    assert!(trace.contains("record Model: thinking, done\n"), "{trace}");
}
