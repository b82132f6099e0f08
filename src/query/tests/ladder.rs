//! The recovery ladder, other models, early tools, hooks, budgets and sub-agents by transition.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks at the effects that it is about")]

use super::*;

/// A small window, so that a few large results fill it.
pub(super) fn small() -> Params {
    let main = ModelLimits { context_window: Tokens(40_000), escalated_output: Some(Tokens(64_000)), ..model("main") };
    Params {
        models: Models { main, fallback: None, small: None },
        max_turns: Turns(60),
        caps: Caps { tokens: Tokens(10_000_000), cost: None },
        overhead: Tokens(500),
        loop_limit: 99,
        ..params(&[], &[])
    }
}

/// A script of so many turns with a call that brings so many bytes, whose usage is told as a provider would: from what it is sent.
pub(super) fn turns(params: &Params, count: usize, tool: &str, size: usize) -> String {
    let mut play = Play::new(params.clone());
    let mut script = vec!["> start".to_owned()];
    let mut open: Option<ModelCall> = None;
    let mut turn = 0;
    loop {
        for effect in script.last().map(|line| play.line(line)).into_iter().flatten() {
            match effect {
                Effect::CallModel(call) if call.source != Source::Summary => open = Some(call),
                Effect::RunTool(run) => script.push(format!("> tool {} ok {size}", run.call.id)),
                _ => {}
            }
        }
        if script.last().is_some_and(|line| line.starts_with("> tool")) && open.is_none() {
            let line = script.last().cloned().unwrap_or_default();
            for effect in play.line(&line) {
                if let Effect::CallModel(call) = effect {
                    open = Some(call);
                }
            }
        }
        let Some(call) = open.take() else { return script.join("\n") };
        let bytes: usize = call.history.iter().map(|message| message.weight()).sum();
        let used = params.overhead.0 as usize + bytes / 3;
        if call.source == Source::Compact {
            script.push(format!("> answer end in={used} out=90 text:300"));
        } else if turn == count {
            return script.join("\n");
        } else {
            turn += 1;
            script.push(format!("> answer end in={used} out=20 {tool}:t{turn}"));
        }
    }
}

fn with_fallback(window: u64) -> Params {
    let fallback = ModelLimits { context_window: Tokens(window), ..model("fallback") };
    Params { models: Models { fallback: Some(fallback), ..params(&[], &[]).models }, ..params(&[], &[]) }
}

#[test]
fn reactive_compact_retry_once_and_then_prompt_too_long() {
    let script = "> start\n> answer end Read:a\n> tool a ok 3000\n> fail shrink context\n> answer end text:500\n> fail shrink context";
    let trace = check(params(&[("tests", OnRed::Block, 5)], &[]), script);
    assert_snapshot!(trace.split("> fail shrink").skip(1).collect::<String>(), @r"
     context
      < call-model compact 3 with 4 messages
    > answer end text:500
      < record Summary: mend it, [The conversation so far was too long and has been replaced by this summary of it, which you wrote. Go on with the task from here.]
      < boundary auto_compact of 3
      < go on: reactive_compact_retry
      < call-model 4 with 1 messages
     context
      < finish prompt_too_long: no luck
    ");
}

#[test]
fn collapse_drain_retry_comes_before_a_compaction() {
    // Spans are staged for some turns before they would be applied.
    let traces = (8..30).map(|count| {
        let script = turns(&small(), count, "Write", 500);
        check(small(), &format!("{script}\n> fail shrink context\n> answer end text"))
    });
    let drained: Vec<String> = traces.filter(|trace| trace.contains("collapse_drain_retry")).collect();
    assert!(!drained.is_empty());
    for trace in drained {
        let after = trace.split("> fail shrink context").last().unwrap();
        assert!(after.starts_with("\n  < boundary collapse of"), "{after}");
        assert!(!after.contains("call-model compact"), "{after}");
    }
}

#[test]
fn a_compaction_that_is_too_long_itself_gets_smaller_with_each_try() {
    let roomy = Params { models: params(&[], &[]).models, ..small() };
    let script = format!("{}\n> fail shrink context", turns(&roomy, 40, "Write", 300));
    let script = format!(
        "{script}\n> fail shrink context\n> fail shrink context\n> fail shrink context\n> fail shrink context\n> fail shrink context"
    );
    let trace = check(roomy, &script);
    let asked: Vec<usize> = trace
        .lines()
        .filter_map(|line| line.split("call-model compact ").nth(1)?.split(' ').nth(2)?.parse().ok())
        .collect();
    assert!(asked.len() == 4 && asked.windows(2).all(|pair| pair[1] < pair[0]), "{asked:?}\n{trace}");
    assert!(trace.contains("finish prompt_too_long"), "{trace}");
}

#[test]
fn image_error_after_the_images_were_taken_out_once() {
    let script = "> start\n> answer end Read:a\n> tool a ok media\n> fail media media\n> fail media media";
    let trace = check(params(&[], &[]), script);
    assert!(trace.contains("go on: reactive_compact_retry"), "{trace}");
    assert!(trace.trim_end().ends_with("finish image_error: no luck"), "{trace}");
    let mut play = Play::new(params(&[], &[]));
    let mut pictures = Vec::new();
    for line in script.lines().chain(["> answer end text"]) {
        for effect in play.line(line) {
            if let Effect::CallModel(call) = effect {
                pictures.push(call.history.iter().flat_map(|m| m.tool_results()).map(|r| r.media.len()).sum::<usize>());
            }
        }
    }
    assert_eq!(pictures, [0, 1, 0]);
}

#[test]
fn b032_refused_thinking_is_left_out_once() {
    let script = "> start\n> answer end think Read:a\n> tool a ok\n> fail thinking invalid\n> fail thinking invalid";
    let mut play = Play::new(params(&[], &[]));
    let mut thoughts = Vec::new();
    let mut end = String::new();
    for line in script.lines() {
        for effect in play.line(line) {
            match effect {
                Effect::CallModel(call) => {
                    let blocks = call.history.iter().flat_map(|message| &message.blocks);
                    let thinks = blocks.filter(|block| matches!(block, Block::Thinking { .. })).count();
                    thoughts.push((thinks, call.thinking_stripped));
                }
                Effect::Finish(terminal) => end = terminal.reason.code().into(),
                _ => {}
            }
        }
    }
    assert_eq!((thoughts, end.as_str()), (vec![(0, false), (1, false), (0, true)], "model_error"));
}

#[test]
fn b067_the_fallback_model_is_asked_after_three_overloads_in_a_row() {
    let patient = Params { patience: Patience { retries: 9, ..Patience::default() }, ..with_fallback(200_000) };
    let script = "> start\n> answer end think Read:a\n> tool a ok\n> block think\n> fail retry overloaded\n+ 2\n> fail retry stream\n+ 3\n> fail retry overloaded\n> answer end text";
    let trace = check(patient.clone(), script);
    assert!(trace.contains("Tombstone { call: CallId(2), blocks: 1 }"), "{trace}");
    assert!(trace.contains("ModelFallback { agent: AgentId(0), from: \"main\", to: \"fallback\""), "{trace}");
    assert!(trace.contains("call-model 5 with 3 messages fallback"), "{trace}");
    // B069: one overload changes nothing.
    assert!(
        !check(patient.clone(), "> start\n> fail retry overloaded\n+ 2\n> answer end text").contains("ModelFallback")
    );
    // B068: a model that is not there is no reason to wait.
    let unknown = check(patient, "> start\n> fail giveup model\n> answer end text");
    assert!(unknown.contains("call-model 2 with 1 messages fallback"), "{unknown}");
}

#[test]
fn b069_the_main_model_is_tried_again_later() {
    let down = "> start\n> fail retry overloaded\n+ 2\n> fail retry overloaded\n+ 3\n> fail retry overloaded";
    let script = (1..=6).fold(down.to_owned(), |script, turn| {
        format!("{script}\n> answer end Read:t{turn}\n> tool t{turn} ok {turn}00")
    });
    let patience = Patience { retries: 9, ..Patience::default() };
    let trace = check(Params { max_turns: Turns(9), loop_limit: 99, patience, ..with_fallback(200_000) }, &script);
    assert!(trace.contains("call-model 8 with 9 messages fallback"), "{trace}");
    assert!(trace.contains("call-model 9 with 11 messages\n"), "{trace}");
    // One that is not there at all is not asked again.
    let gone = script.replace(down, "> start\n> fail giveup model");
    let trace = check(Params { max_turns: Turns(9), loop_limit: 99, ..with_fallback(200_000) }, &gone);
    assert!(trace.contains("call-model 8 with 13 messages fallback"), "{trace}");
}

#[test]
fn a_reader_starts_while_the_answer_streams_and_is_not_run_again() {
    let script = "> start\n> block Read:a\n> block Write:b\n> tool a ok\n> answer end Read:a Write:b\n> tool b ok\n> answer end text";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > block Read:a
      < run-tool Read a
    > block Write:b
    > tool a ok
    > answer end Read:a Write:b
      < record Model: Read a, Write b
      < run-tool Write b
    > tool b ok
      < record ToolResults: a ok, b ok
      < go on: next_turn
      < call-model 2 with 3 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn b027_a_stream_that_dies_after_blocks_is_void_and_so_is_what_they_started() {
    let script = "> start\n> block Read:a\n> fail retry stream\n> tool a ok\n+ 2\n> answer end Read:a\n> tool a ok\n> answer end text";
    assert_snapshot!(check(params(&[], &[]), script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > block Read:a
      < run-tool Read a
    > fail retry stream
      < stop-tool 1
      < Tombstone { call: CallId(1), blocks: 1 }
      < retrying Stream at 0.8s
    > tool a ok
    + 2
      < call-model 2 with 1 messages
    > answer end Read:a
      < record Model: Read a
      < run-tool Read a
    > tool a ok
      < record ToolResults: a ok
      < go on: next_turn
      < call-model 3 with 3 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn aborted_streaming_keeps_what_was_whole() {
    let script = "> start\n> block text\n> block Read:a\n> block Read:b\n> tool a ok\n> cancel interrupt";
    assert_snapshot!(check(params(&[], &[]), script).split("> cancel").last().unwrap(), @r#"
     interrupt
      < stop-all
      < record Model: done, Read a, Read b
      < record ToolResults: a ok, b failed: The call was stopped before it ended: the job was interrupted.
      < record Interruption: [The work was interrupted here: the run was interrupted.]
      < finish aborted_streaming (interrupt): interrupted by a signal
    "#);
    let replaced = check(params(&[], &[]), "> start\n> answer end Read:a\n> cancel input");
    assert!(!replaced.contains("Interruption") && replaced.contains("a failed"), "{replaced}");
}

#[test]
fn hook_stopped_by_a_tool_hook_at_any_time() {
    for script in ["> start\n> answer end Read:a Read:b\n> tool a stop", "> start\n> block Read:a\n> tool a stop"] {
        let trace = check(params(&[("tests", OnRed::Block, 5)], &[]), script);
        assert!(trace.trim_end().ends_with("finish hook_stopped: hook `guard` stopped the work: not here"), "{trace}");
        assert!(!trace.contains("run-hook"), "{trace}");
    }
}

#[test]
fn a_one_shot_hook_is_not_asked_again_in_the_retry_and_a_gate_is() {
    let mut both = params(&[("lint", OnRed::Block, 1), ("tests", OnRed::Block, 5)], &["more"]);
    both.hooks[0].kind = HookRuleKind::Hook;
    let script = "> start\n> answer end text\n> answer end text\n> hook 0 object\n> hook 1 pass\n> answer end text\n> hook 1 pass";
    let trace = check(both.clone(), script);
    assert!(trace.trim_end().ends_with("finish completed: the model finished and nothing objected"), "{trace}");
    assert_eq!(trace.matches("run-hook 0").count(), 1, "{trace}");
    let prevented = check(both, "> start\n> answer end text\n> answer end text\n> hook 0 prevent");
    assert!(prevented.contains("finish stop_hook_prevented: hook `lint` forbade going on: enough"), "{prevented}");
}

#[test]
fn token_budget_continuation_until_nine_tenths_or_little_comes() {
    let eager = Params { keep_working: true, max_turns: Turns(40), ..params(&[], &[]) };
    let little = "\n> answer end out=50 text".repeat(8);
    let trace = check(eager.clone(), &format!("> start{little}"));
    assert_eq!(trace.matches("go on: token_budget_continuation").count(), 3, "{trace}");
    assert!(
        trace.contains("record Budget: [1 % of the token budget is used, 99.0k of 100.0k tokens are left"),
        "{trace}"
    );
    let much = "\n> answer end in=9000 out=2000 text".repeat(12);
    let trace = check(eager, &format!("> start{much}"));
    // After eight answers 88 % are used, and another could pass the cap: the work is done, and no limit ended it.
    assert_eq!(trace.matches("go on: token_budget_continuation").count(), 7, "{trace}");
    assert!(trace.contains("finish completed: the model finished"), "{trace}");
}

#[test]
fn an_empty_answer_to_results_is_asked_about_twice() {
    let empty = "\n> answer end blank".repeat(3);
    let trace = check(
        Params { max_turns: Turns(9), ..params(&[], &[]) },
        &format!("> start\n> answer end Read:a\n> tool a ok{empty}"),
    );
    assert_eq!(trace.matches("record Recovery: [Your answer was empty").count(), 2, "{trace}");
    assert!(trace.contains("finish completed"), "{trace}");
}

#[test]
fn a_paused_answer_goes_back_as_it_is() {
    let trace = check(params(&[], &[]), "> start\n> answer pause text\n> answer end text");
    assert!(trace.contains("call-model 2 with 2 messages") && trace.contains("finish completed"), "{trace}");
    let on_and_on = "\n> answer pause text".repeat(9);
    let trace = check(Params { max_turns: Turns(30), ..params(&[], &[]) }, &format!("> start{on_and_on}"));
    assert_eq!(trace.matches("call-model").count(), 6, "{trace}");
}

#[test]
fn a_full_window_with_whole_calls_goes_on_and_without_any_is_too_long() {
    let trace = check(params(&[], &[]), "> start\n> answer full Read:a\n> tool a ok\n> answer end text");
    assert!(trace.contains("finish completed"), "{trace}");
}

#[test]
fn sub_agents_run_side_by_side_and_their_last_words_are_the_results() {
    let script = "> start\n> answer end Agent:a Agent:b Write:c\n> answer@3 end Read:x\n> answer@2 end text\n> tool x ok\n> answer@4 end text:40\n> tool c ok\n> answer end text";
    let roomy = Params { max_turns: Turns(20), ..params(&[], &[]) };
    assert_snapshot!(check(roomy, script), @r#"
    > start
      < record Prompt: mend it
      < call-model 1 with 1 messages
    > answer end Agent:a Agent:b Write:c
      < record Model: Agent a, Agent b, Write c
      < AgentStarted { agent: AgentId(1), kind: Explore, description: "look" }
      < record Prompt of agent 1: look around
      < call-model subagent 2 with 1 messages
      < AgentStarted { agent: AgentId(2), kind: Explore, description: "look" }
      < record Prompt of agent 2: look around
      < call-model subagent 3 with 1 messages
    > answer@3 end Read:x
      < record Model of agent 2: Read x
      < run-tool Read x of agent 2
    > answer@2 end text
      < record Model of agent 1: done
      < AgentFinished { agent: AgentId(1), terminal: "completed", turns: Turns(1) }
    > tool x ok
      < record ToolResults of agent 2: x ok
      < go on: next_turn
      < call-model subagent 4 with 3 messages
    > answer@4 end text:40
      < record Model of agent 2: some words some words some words some words 
      < AgentFinished { agent: AgentId(2), terminal: "completed", turns: Turns(2) }
      < run-tool Write c
    > tool c ok
      < record ToolResults: a ok, b ok, c ok
      < go on: next_turn
      < call-model 5 with 3 messages
    > answer end text
      < record Model: done
      < finish completed: the model finished and nothing objected
    "#);
}

#[test]
fn sub_agents_do_not_start_others_share_the_turns_and_end_with_the_job() {
    let roomy = Params { max_turns: Turns(20), ..params(&[], &[]) };
    let nested = check(roomy.clone(), "> start\n> answer end Agent:a\n> answer@2 end Agent:x");
    assert!(nested.contains("run-tool Agent x of agent 1") && !nested.contains("AgentId(2)"), "{nested}");
    let aborted = check(roomy, "> start\n> answer end Agent:a\n> cancel interrupt\n> answer@2 end text");
    assert!(aborted.contains("a failed: The call was stopped"), "{aborted}");
    let short = Params { max_turns: Turns(3), ..params(&[], &[]) };
    let trace = check(short, "> start\n> answer end Agent:a\n> answer@2 end Read:x\n> tool x ok\n> answer@3 end text");
    assert!(trace.contains("AgentFinished { agent: AgentId(1), terminal: \"max_turns\", turns: Turns(1) }"), "{trace}");
    assert!(trace.contains("finish completed"), "{trace}");
}

#[test]
fn a_sub_agent_that_finds_no_room_waits_for_the_others() {
    let tight = Params { caps: Caps { tokens: Tokens(17_000), cost: None }, max_turns: Turns(20), ..params(&[], &[]) };
    let script = "> start\n> answer end in=500 out=100 Agent:a Agent:b Agent:c\n> answer@2 end in=100 out=10 text\n> answer@3 end in=100 out=10 text\n> answer@4 end in=100 out=10 text\n> answer end text";
    let trace = check(tight, script);
    assert_eq!(trace.matches("AgentStarted").count(), 3, "{trace}");
    assert_eq!(trace.matches("terminal: \"completed\"").count(), 3, "{trace}");
    assert!(trace.contains("finish completed: the model finished"), "{trace}");
}

#[test]
fn the_end_of_a_background_command_is_told_with_the_next_results_or_as_an_input() {
    let script = "> start\n> answer end Read:a\n> ended bash_1\n> tool a ok\n> ended bash_2\n> answer end text\n> answer end text";
    let trace = check(params(&[], &[]), script);
    assert!(trace.contains("record ToolResults: a ok, [background command bash_1 has ended]"), "{trace}");
    assert!(trace.contains("record Command: [background command bash_2 has ended]"), "{trace}");
    assert!(trace.contains("InputCompleted(Command(\"bash_2\"))"), "{trace}");
}

#[test]
fn a_summary_is_asked_for_beside_the_next_answer_and_nothing_waits_for_it() {
    let small = Models { small: Some(model("small")), ..params(&[], &[]).models };
    let with = Params { models: small, ..params(&[], &[]) };
    let script = "> start\n> answer end Read:a\n> tool a ok\n> answer@2 end text:20";
    let trace = check(with.clone(), &format!("{script}\n> answer@3 end text"));
    assert!(trace.contains("call-model summary 2 with 1 messages") && trace.contains("ToolSummary"), "{trace}");
    let never = check(with, "> start\n> answer end Read:a\n> tool a ok\n> answer@3 end text");
    assert!(never.contains("stop-call 2") && never.contains("finish completed"), "{never}");
}

#[test]
fn what_a_compaction_replaced_is_taken_off_the_task_budget() {
    let budget = Params { task_budget: Some(Tokens(50_000)), ..params(&[], &[]) };
    let mut play = Play::new(budget);
    let mut remaining = Vec::new();
    for line in [
        "> start",
        "> answer end in=9000 out=100 Read:a",
        "> tool a ok",
        "> fail shrink context",
        "> answer end text:80",
    ] {
        for effect in play.line(line) {
            if let Effect::CallModel(call) = effect {
                remaining.push(call.task_budget.map(|budget| (budget.total.0, budget.remaining.0 / 1_000)));
            }
        }
    }
    assert_eq!(remaining, [Some((50_000, 50)), Some((50_000, 50)), None, Some((50_000, 40))]);
}
