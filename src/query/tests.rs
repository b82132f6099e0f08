//! The loop by transition, from scripts: events in, the rendered effects out. A new rule is a new six-line test.

use super::*;
use crate::outcome::{AbortReason, ModelErrorKind, Terminal};
use crate::units::{Elapsed, Prices, TokenPrices, Tokens, Turns, Usage, Usd};
use insta::assert_snapshot;
use serde_json::Map;
use std::time::Duration;

mod play;

/// A query with 5 turns, a minute, two follow-ups where `inputs` says so, and as many gates as named.
pub(super) fn params(gates: &[(&str, OnRed, u32)], inputs: &[&str]) -> Params {
    let hook = |(name, on_red, max_blocks): &(&str, OnRed, u32)| HookRule {
        name: (*name).into(),
        command: format!("run {name}"),
        max_blocks: *max_blocks,
        on_red: *on_red,
    };
    Params {
        prompt: vec!["mend it".into()],
        follow_ups: inputs.iter().map(|text| (*text).into()).collect(),
        max_turns: Turns(5),
        caps: Caps { tokens: Tokens(100_000), cost: None, prices: Prices::default() },
        max_output: Tokens(8_192),
        escalated_output: None,
        context_window: Tokens(200_000),
        overhead: Tokens(2_000),
        deadline: Elapsed::from_millis(60_000),
        patience: Patience { retries: 2, ..Patience::default() },
        loop_limit: 4,
        seed: 1,
        hooks: gates.iter().map(hook).collect(),
        concurrency: |call| if call.name == "Read" { Concurrency::Shared } else { Concurrency::Alone },
    }
}

/// Plays a script against a query and renders what it asks for, an effect a line.
///
/// `> start`, `> reply text|empty|Read a Write b|cut Write c|refusal|full|max`, `> fail retry|wait SECONDS|auth|stream`,
/// `> done ID`, `> error ID`, `> hook N pass|red|late|broken`, `> cancel interrupt`, `+ SECONDS`.
pub(super) fn check(params: Params, script: &str) -> String {
    let mut query = Query::new(params);
    let mut now = Elapsed::default();
    let mut trace = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        trace.push_str(&format!("{line}\n"));
        let event = match line.split_once(' ') {
            Some(("+", seconds)) => {
                now = now.plus(Duration::from_secs_f64(seconds.parse().unwrap()));
                Event::Tick
            }
            Some((">", rest)) => parse(rest, CallId(query.model_calls())),
            _ => panic!("not a script line: {line}"),
        };
        for effect in query.step(now, event) {
            if let Effect::CallModel(call) = &effect {
                call.history.check().unwrap_or_else(|broken| panic!("{broken}\n{trace}"));
            }
            render(&effect, &mut trace);
        }
    }
    trace
}

fn parse(text: &str, call: CallId) -> Event {
    let words: Vec<&str> = text.split(' ').collect();
    let tool = |name: &str, id: &str| {
        Block::ToolUse(ToolUse { id: id.into(), name: name.into(), input: ToolInput::Object(Map::new()) })
    };
    let usage = Usage { input: Tokens(1_000), output: Tokens(100), ..Usage::default() };
    let reply =
        |blocks, stop| Event::Reply { call, reply: Reply { blocks, stop, usage, cleared: None, request_id: None } };
    let ordinary = || Stop::Ordinary("end_turn".into());
    let fail = |remedy, kind| {
        let failure =
            Failure { remedy, kind, message: "no luck".into(), request_id: Some("req_1".into()), status: None };
        Event::ModelFailed { call, failure, usage: None }
    };
    let hook = |index: &str, status| {
        let result = HookResult { status, tail: "left: 1".into(), duration: Duration::from_mins(10) };
        Event::HookDone { index: index.parse().unwrap(), result }
    };
    match words[..] {
        ["start"] => Event::Start,
        ["reply", "text"] => reply(vec![Block::Text("done".into())], ordinary()),
        ["reply", "empty"] => reply(vec![Block::Text(" \n".into())], ordinary()),
        ["reply", "max"] => reply(vec![Block::Text("and then".into())], Stop::MaxTokens),
        ["reply", "full"] => reply(vec![Block::Text("and".into())], Stop::ContextWindow),
        ["reply", "refusal"] => reply(vec![], Stop::Refusal("policy".into())),
        ["reply", "thinking"] => {
            let thinking = || Block::Thinking { text: "hm".into(), signature: "s".into() };
            reply(vec![thinking(), Block::Text("done".into()), thinking()], ordinary())
        }
        ["reply", "cut", name, id] => {
            let input = ToolInput::Invalid { raw: "{\"a".into(), problem: "the output limit cut it".into() };
            reply(vec![Block::ToolUse(ToolUse { id: id.into(), name: name.into(), input })], Stop::MaxTokens)
        }
        ["reply", ref calls @ ..] => reply(calls.chunks(2).map(|pair| tool(pair[0], pair[1])).collect(), ordinary()),
        ["fail", "retry"] => fail(Remedy::Retry { after: None }, ModelErrorKind::Overloaded),
        ["fail", "wait", seconds] => {
            let after = Some(Duration::from_secs(seconds.parse().unwrap()));
            fail(Remedy::Retry { after }, ModelErrorKind::RateLimited)
        }
        ["fail", "auth"] => fail(Remedy::GiveUp, ModelErrorKind::Auth),
        ["done", id] => Event::ToolDone(ToolResult::new(id.into(), "ok", false)),
        ["hook", index, "pass"] => hook(index, HookStatus::Pass),
        ["hook", index, "red"] => hook(index, HookStatus::Fail { exit_code: Some(1) }),
        ["hook", index, "late"] => hook(index, HookStatus::TimedOut),
        ["hook", index, "broken"] => hook(index, HookStatus::Broken("no such program".into())),
        ["told", input] => {
            Event::UsageTold { call, usage: Usage { input: Tokens(input.parse().unwrap()), ..Usage::default() } }
        }
        ["cancel", "interrupt"] => Event::Cancel(AbortReason::Interrupt),
        ["cancel", "fail_fast"] => Event::Cancel(AbortReason::FailFast),
        _ => panic!("not an event: {text}"),
    }
}

fn render(effect: &Effect, trace: &mut String) {
    let line = match effect {
        Effect::CallModel(call) => format!("call-model {} with {} messages", call.id.0, call.history.len()),
        Effect::RunTool(call) => format!("run-tool {} {}", call.name, call.id),
        Effect::RunHook { index } => format!("run-hook {index}"),
        Effect::StopAll => "stop-all".into(),
        Effect::Record(message) => {
            let blocks: Vec<_> = message.blocks.iter().map(block).collect();
            format!("record {:?}: {}", message.origin, blocks.join(", "))
        }
        Effect::Emit(Notice::ModelCalled { .. } | Notice::Turn { .. }) => return,
        Effect::Emit(Notice::Retrying { kind, until, .. }) => format!("retrying {kind:?} at {until}"),
        Effect::Emit(Notice::Continued(transition)) => format!("go on: {}", transition.code()),
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
    assert_snapshot!(check(params(&[], &[]), "> start\n> reply text"), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn next_turn_gives_results_in_the_order_of_the_calls() {
    let script = "> start\n> reply Read a Read b Write c\n> done b\n> done a\n> done c\n> reply text";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply Read a Read b Write c
      < record Model: Read a, Read b, Write c
      < run-tool Read a
      < run-tool Read b
    > done b
    > done a
      < run-tool Write c
    > done c
      < record ToolResults: a ok, b ok, c ok
      < go on: next_turn
      < call-model 2 with 3 messages
    > reply text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn stop_hook_blocking_sends_every_red_back_at_once() {
    let gates = [("fmt", OnRed::Block, 5), ("tests", OnRed::Block, 5)];
    let script = "> start\n> reply text\n> hook 0 red\n> hook 1 late\n> reply text\n> hook 0 pass\n> hook 1 pass";
    assert_snapshot!(check(params(&gates, &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply text
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
    > reply text
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
    let script = "> start\n> reply text\n> hook 0 red\n> reply text\n> hook 0 red\n> reply text\n> hook 0 red";
    let trace = check(params(&[("tests", OnRed::Block, 2)], &[]), script);
    assert_snapshot!(trace.lines().last().unwrap(), @"  < finish stop_hook_prevented: gate `tests` failed with exit code 1, after it had sent the model back 2 times in a row");
    assert_eq!(trace.matches("call-model").count(), 3);
}

#[test]
fn a_green_in_between_starts_the_count_anew() {
    let gates = [("a", OnRed::Block, 1), ("b", OnRed::Block, 1)];
    let script = "> start\n> reply text\n> hook 0 red\n> hook 1 pass\n> reply text\n> hook 0 pass\n> hook 1 red\n> reply text\n> hook 0 red\n> hook 1 pass";
    let trace = check(params(&gates, &[]), script);
    assert_eq!(trace.matches("go on: stop_hook_blocking").count(), 3);
}

#[test]
fn stop_hook_prevented_at_once_when_it_is_set_to_stop_or_cannot_be_run() {
    let stopped = check(params(&[("tests", OnRed::Stop, 5)], &[]), "> start\n> reply text\n> hook 0 red");
    assert_snapshot!(stopped.lines().last().unwrap(), @"  < finish stop_hook_prevented: gate `tests` failed with exit code 1, and it is set to stop the job");
    let broken = check(params(&[("tests", OnRed::Block, 5)], &[]), "> start\n> reply text\n> hook 0 broken");
    assert_snapshot!(broken.lines().last().unwrap(), @"  < finish stop_hook_prevented: gate `tests` could not be run: no such program");
}

#[test]
fn max_turns_counts_accepted_responses_and_retries_do_not_count() {
    let limit = Params { max_turns: Turns(2), ..params(&[("tests", OnRed::Block, 9)], &[]) };
    let script = "> start\n> fail retry\n+ 2\n> reply Read a\n> done a\n> reply Read b\n> done b";
    assert_snapshot!(check(limit.clone(), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > fail retry
      < retrying Overloaded at 0.8s
    + 2
      < call-model 2 with 1 messages
    > reply Read a
      < record Model: Read a
      < run-tool Read a
    > done a
      < record ToolResults: a ok
      < go on: next_turn
      < call-model 3 with 3 messages
    > reply Read b
      < record Model: Read b
      < run-tool Read b
    > done b
      < record ToolResults: b ok
      < LimitReached("the turn limit was reached: 2 of 2 turns")
      < finish max_turns: the turn limit was reached: 2 of 2 turns
    "#);
    let by_gate = check(limit, "> start\n> reply text\n> hook 0 red\n> reply text\n> hook 0 red");
    assert_snapshot!(by_gate.lines().last().unwrap(), @"  < finish max_turns: the turn limit was reached: 2 of 2 turns");
}

#[test]
fn model_error_never_runs_a_gate() {
    let gates = [("tests", OnRed::Block, 5)];
    for (script, end) in [
        ("> start\n> fail auth", "finish model_error: no luck"),
        ("> start\n> reply refusal", "finish model_error: policy"),
        ("> start\n> reply full", "finish model_error: the answer reached the end of the model's context window"),
        ("> start\n> reply Read a\n> done a\n> reply Read a", "uses the id of an earlier call again: a"),
        ("> start\n> fail retry\n+ 1\n> fail retry\n+ 3\n> fail retry", "(given up after 3 tries)"),
        ("> start\n> fail wait 3600", "after the end of the job's time)"),
    ] {
        let trace = check(params(&gates, &[]), script);
        assert!(trace.trim_end().ends_with(end), "{trace}");
        assert!(!trace.contains("run-hook"), "{trace}");
    }
}

#[test]
fn b064_a_wish_of_the_provider_is_waited_for() {
    let trace = check(params(&[], &[]), "> start\n> fail wait 10\n+ 9.9\n+ 2\n> reply text");
    assert_snapshot!(trace, @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > fail wait 10
      < retrying RateLimited at 10.9s
    + 9.9
    + 2
      < call-model 2 with 1 messages
    > reply text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn b060_a_cut_call_is_never_run_and_the_model_is_told() {
    assert_snapshot!(check(params(&[], &[]), "> start\n> reply cut Write a\n> reply text"), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply cut Write a
      < record Model: Write a
      < record ToolResults: a failed: Write was not run: the output limit cut it
      < go on: next_turn
      < call-model 2 with 3 messages
    > reply text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn aborted_streaming_keeps_nothing_of_the_answer() {
    assert_snapshot!(check(params(&[], &[]), "> start\n> cancel interrupt\n> reply text\n+ 100"), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > cancel interrupt
      < stop-all
      < record Interruption: [The work was interrupted here: the run was interrupted.]
      < finish aborted_streaming (interrupt): interrupted by a signal
    > reply text
    + 100
    "#);
}

#[test]
fn aborted_tools_keeps_what_has_ended_and_answers_for_the_rest() {
    let script = "> start\n> reply Read a Read b Write c\n> done a\n> cancel fail_fast\n> done b";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply Read a Read b Write c
      < record Model: Read a, Read b, Write c
      < run-tool Read a
      < run-tool Read b
    > done a
    > cancel fail_fast
      < stop-all
      < record ToolResults: a ok, b failed: The call was stopped before it ended: the job was interrupted., c failed: The call was stopped before it ended: the job was interrupted.
      < record Interruption: [The work was interrupted here: another job of the run failed.]
      < finish aborted_tools (fail_fast): stopped because another job failed
    > done b
    "#);
}

#[test]
fn what_a_call_had_used_is_booked_when_it_is_given_up() {
    let used = |script: &[&str]| {
        let mut query = Query::new(params(&[], &[]));
        for line in script {
            let call = CallId(query.model_calls());
            query.step(Elapsed::default(), parse(line, call));
        }
        query.ledger().used().input
    };
    assert_eq!(used(&["start", "told 700", "cancel interrupt"]), Tokens(700));
    assert_eq!(used(&["start", "told 700", "fail auth"]), Tokens(700));
    assert_eq!(used(&["start", "told 700", "reply text"]), Tokens(1_000));
    assert_eq!(used(&["start", "cancel interrupt"]), Tokens(0));
}

#[test]
fn the_jobs_time_ends_every_phase() {
    for (script, code) in [
        ("> start\n+ 60", "aborted_streaming (timeout)"),
        ("> start\n> fail wait 30\n+ 60", "aborted_streaming (timeout)"),
        ("> start\n> reply Write a\n+ 60", "aborted_tools (timeout)"),
        ("> start\n> reply text\n+ 60", "aborted_tools (timeout)"),
    ] {
        let trace = check(params(&[("tests", OnRed::Block, 5)], &[]), script);
        assert!(trace.trim_end().lines().last().unwrap().contains(code), "{trace}");
    }
}

#[test]
fn a_cut_answer_is_asked_for_again_with_a_larger_limit_once() {
    let larger = Params { escalated_output: Some(Tokens(64_000)), ..params(&[], &[]) };
    let larger = Params { caps: Caps { tokens: Tokens(1_000_000), ..larger.caps.clone() }, ..larger };
    let mut query = Query::new(larger.clone());
    let mut caps = Vec::new();
    for line in ["start", "reply max", "reply Read a", "done a", "reply text"] {
        let call = CallId(query.model_calls());
        for effect in query.step(Elapsed::default(), parse(line, call)) {
            if let Effect::CallModel(call) = effect {
                caps.push((call.max_output.0, call.history.len()));
            }
        }
    }
    assert_eq!(caps, [(8_192, 1), (64_000, 1), (8_192, 3)]);
    let trace = check(larger, "> start\n> reply cut Write a\n> reply cut Write a\n> reply text");
    assert!(trace.contains("go on: max_output_tokens_escalate"), "{trace}");
    assert!(trace.contains("record ToolResults: a failed"), "{trace}");
}

#[test]
fn a_cut_answer_is_kept_and_gone_on_with_three_times() {
    let script = "> start\n> reply max\n> reply text";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply max
      < record Model: and then
      < record Recovery: [Your answer was cut off at the output limit. Go on exactly where it ended: no apology, no recap. If much is left, do it in smaller pieces.]
      < go on: max_output_tokens_recovery
      < call-model 2 with 3 messages
    > reply text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
    let limits = Params { max_turns: Turns(50), ..params(&[("tests", OnRed::Block, 5)], &[]) };
    let trace = check(limits, "> start\n> reply max\n> reply max\n> reply max\n> reply max");
    assert!(
        trace.trim_end().ends_with("finish model_error: the answer was cut at the output limit of 8192 tokens"),
        "{trace}"
    );
    assert_eq!(trace.matches("go on: max_output_tokens_recovery").count(), 3);
    assert!(!trace.contains("run-hook"));
}

#[test]
fn b082_a_model_that_goes_round_in_circles_is_told_and_then_stopped() {
    let limits = Params { max_turns: Turns(50), ..params(&[("tests", OnRed::Block, 5)], &[]) };
    let script: String =
        (1..=6).fold("> start".to_owned(), |script, n| format!("{script}\n> reply Read r{n}\n> done r{n}"));
    let trace = check(limits.clone(), &script);
    assert!(trace.contains("record ToolResults: r3 ok, [You have made this same call 3 times in a row"), "{trace}");
    let end = "finish aborted_tools (loop_detected): the model made the same call of Read with the same result 4 times in a row";
    assert!(trace.contains(end), "{trace}");
    assert_eq!(trace.matches("call-model").count(), 4);
    let varied = (1..=6).fold("> start".to_owned(), |script, n| {
        let tool = if n % 3 == 0 { "Write" } else { "Read" };
        format!("{script}\n> reply {tool} r{n}\n> done r{n}")
    });
    assert!(!check(limits, &varied).contains("loop_detected"));
}

#[test]
fn follow_ups_are_taken_one_by_one_and_completed_only_by_an_end_of_its_own_accord() {
    let script = "> start\n> reply text\n> reply text\n> hook 0 pass";
    assert_snapshot!(check(params(&[("tests", OnRed::Block, 5)], &["now a test"]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > reply text
      < record Model: done
      < InputStarted(0)
      < record FollowUp(0): now a test
      < go on: next_turn
      < call-model 2 with 3 messages
    > reply text
      < record Model: done
      < run-hook 0
    > hook 0 pass
      < HookJudged { index: 0, passed: true, blocks: 0 }
      < InputCompleted(0)
      < finish completed: the model finished and nothing objected
    "#);
    let failed = check(params(&[], &["now a test"]), "> start\n> reply text\n> fail auth");
    assert!(failed.contains("InputStarted(0)") && !failed.contains("InputCompleted"), "{failed}");
}

#[test]
fn an_empty_answer_never_enters_the_history() {
    let trace = check(params(&[("tests", OnRed::Block, 5)], &[]), "> start\n> reply empty\n> hook 0 red\n> reply text");
    assert!(!trace.contains("record Model: \n"), "{trace}");
    assert!(trace.contains("call-model 2 with 2 messages"), "{trace}");
}

#[test]
fn thinking_never_ends_a_message() {
    let trace = check(params(&[], &[]), "> start\n> reply thinking");
    assert!(trace.contains("record Model: thinking, done\n"), "{trace}");
}

#[test]
fn b085_the_token_budget_stops_before_the_call_that_could_pass_it() {
    let caps = Caps { tokens: Tokens(4_000), cost: None, prices: Prices::default() };
    let trace =
        check(Params { caps, ..params(&[], &[]) }, "> start\n> reply Read a\n> done a\n> reply Read b\n> done b");
    assert!(trace.contains("finish completed: the token budget is used up: 2200 of 4000 tokens"), "{trace}");
    assert_eq!(trace.matches("call-model").count(), 2);
}

#[test]
fn b086_the_spending_cap_stops_before_the_call_that_could_pass_it() {
    let base = TokenPrices { input: Usd::per_token(2.0), output: Usd::per_token(10.0), ..TokenPrices::default() };
    let caps = Caps {
        tokens: Tokens(u64::MAX),
        cost: Some(Usd::from_dollars(0.02)),
        prices: Prices { base, tiers: Vec::new() },
    };
    let trace = check(
        Params { caps, ..params(&[], &[]) },
        "> start\n> reply Read a\n> done a\n> reply Read b\n> done b\n> reply Read c\n> done c",
    );
    let last = trace.trim_end().lines().last().unwrap();
    assert!(last.contains("aborted_streaming (cost_limit)"), "{trace}");
}
