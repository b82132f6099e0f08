//! The layers of context management, in the loop.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks at the effects that it is about")]

use super::ladder::{small, turns};
use super::*;

/// What the last request of a history was made of.
fn last_request(params: Params, script: &str) -> History {
    let mut play = Play::new(params);
    let mut last = History::default();
    for line in script.lines() {
        for effect in play.line(line) {
            if let Effect::CallModel(call) = effect {
                call.history.check().unwrap();
                last = call.history;
            }
        }
    }
    last
}

fn acted(trace: &str, layer: &str) -> usize {
    trace.matches(&format!("boundary {layer} ")).count()
}

#[test]
fn a_large_result_goes_to_a_file_and_its_ends_to_the_model() {
    let history = last_request(small(), &turns(&small(), 1, "Read", 50_000));
    let result = history.iter().flat_map(|message| message.tool_results()).next().unwrap();
    assert!(result.content.len() < 6_000 && result.content.contains("the whole result is in /out/result-1.txt"));
    let trace = check(small(), &turns(&small(), 1, "Read", 50_000));
    assert!(trace.contains("keep result-1.txt (50"), "{trace}");
}

#[test]
fn b077_the_results_of_one_turn_never_fill_the_window() {
    let calls = (1..=8).map(|n| format!("Read:t{n}")).collect::<Vec<_>>().join(" ");
    let results = (1..=8).map(|n| format!("> tool t{n} ok 30000")).collect::<Vec<_>>().join("\n");
    let history = last_request(small(), &format!("> start\n> answer end in=600 out=20 {calls}\n{results}"));
    let bytes: usize = history.iter().map(|message| message.weight()).sum();
    assert!(estimate(bytes) < Tokens(7_000), "{bytes}");
}

#[test]
fn b073_nothing_happens_while_there_is_room() {
    let roomy = Params { max_turns: Turns(60), loop_limit: 99, ..params(&[], &[]) };
    let trace = check(roomy.clone(), &turns(&roomy, 20, "Read", 600));
    for layer in Layer::ALL {
        assert_eq!(acted(&trace, layer.code()), 0, "{}", layer.code());
    }
}

#[test]
fn old_results_are_cleared_and_the_last_three_turns_are_not() {
    let history = last_request(small(), &turns(&small(), 8, "Bash", 1_500));
    let results: Vec<&ToolResult> = history.iter().flat_map(|message| message.tool_results()).collect();
    let cleared = results.iter().filter(|result| result.content.starts_with("[old result cleared: Bash")).count();
    assert!(cleared >= 3, "{cleared} of {}", results.len());
    assert!(results.iter().rev().take(3).all(|result| !result.content.contains("cleared")));
}

#[test]
fn a_cleared_result_is_the_same_message_in_every_request() {
    let (seven, eight) = (
        last_request(small(), &turns(&small(), 8, "Read", 1_500)),
        last_request(small(), &turns(&small(), 9, "Read", 1_500)),
    );
    let ids = |history: &History| history.iter().map(|message| message.text()).collect::<Vec<_>>();
    assert_eq!(ids(&seven)[..5], ids(&eight)[..5]);
}

#[test]
fn turns_that_only_looked_are_left_out_once_they_are_cleared() {
    let trace = check(small(), &turns(&small(), 24, "Read", 1_200));
    assert!(acted(&trace, "snip") > 0 && acted(&trace, "micro_compact") > 0, "{trace}");
    let history = last_request(small(), &turns(&small(), 24, "Read", 1_200));
    assert!(history.len() < 2 * 24, "{}", history.len());
    assert_eq!(history.get(0).unwrap().text(), "mend it");
}

#[test]
fn a_compaction_keeps_the_task_word_for_word_and_the_last_turns() {
    let mut script = turns(&small(), 3, "Read", 400);
    script.push_str("\n> answer end in=9000 out=20 Write:w1\n> tool w1 ok 900");
    let trace = check(small(), &format!("{script}\n> answer end text:600"));
    assert!(trace.contains("call-model compact") && acted(&trace, "auto_compact") == 1, "{trace}");
    assert!(trace.contains("record Summary: mend it, [The conversation so far"), "{trace}");
    let history = last_request(small(), &format!("{script}\n> answer end text:600"));
    assert!(history.iter().flat_map(|message| message.tool_uses()).any(|call| &*call.id == "w1"));
}

#[test]
fn b072_a_compactor_that_frees_nothing_is_asked_three_times_in_a_row_and_then_never() {
    let mut play = Play::new(small());
    let (mut compactions, mut turn, mut end) = (0, 0, None);
    let mut line = "> start".to_owned();
    while end.is_none() {
        let effects = play.line(&line);
        for effect in effects {
            match effect {
                Effect::CallModel(call) if call.source == Source::Compact => {
                    compactions += 1;
                    line = "> answer end in=9000 out=9 text:20000".into();
                }
                Effect::CallModel(_) => {
                    turn += 1;
                    line = format!("> answer end in={} out=20 Write:t{turn}", 8_000 + turn * 1_000);
                }
                Effect::RunTool(run) => line = format!("> tool {} ok 800", run.call.id),
                Effect::Finish(terminal) => end = Some(terminal.reason.code()),
                _ => {}
            }
        }
    }
    assert_eq!((compactions, end), (3, Some("blocking_limit")));
}

#[test]
fn blocking_limit_without_a_call_where_nothing_can_be_compacted() {
    let huge = Params { prompt: vec!["x".repeat(60_000)], ..small() };
    let trace = check(huge, "> start");
    assert!(trace.contains("finish blocking_limit") && !trace.contains("call-model"), "{trace}");
    assert!(trace.contains("the task itself fills it"), "{trace}");
    let off = Params { features: Features { auto_compact: false, ..Features::default() }, ..small() };
    let trace = check(off, "> start\n> answer end in=16900 out=20 Write:a\n> tool a ok 900");
    assert!(trace.contains("finish blocking_limit") && trace.contains("compaction is switched off"), "{trace}");
}

#[test]
fn bound_thinking_is_never_shown_after_a_change_before_it() {
    let main = ModelLimits { binds_thinking: true, ..small().models.main };
    let bound = Params { models: Models { main, ..small().models }, ..small() };
    let mut script = "> start".to_owned();
    for turn in 1..=24 {
        let known = 700 + turn * 300;
        script.push_str(&format!("\n> answer end in={known} out=20 think Read:t{turn}\n> tool t{turn} ok 900"));
    }
    let mut play = Play::new(bound);
    let mut previous = History::default();
    let mut cleared_by_provider = false;
    for line in script.lines() {
        for effect in play.line(line) {
            let Effect::CallModel(call) = effect else { continue };
            cleared_by_provider |= call.clearing.is_some();
            if call.source == Source::Compact {
                continue;
            }
            let same = previous.iter().zip(call.history.iter()).take_while(|(a, b)| a == b).count();
            let thinks = |message: &Message| message.blocks.iter().any(|block| matches!(block, Block::Thinking { .. }));
            if same < previous.len() {
                let later = call.history.iter().skip(same).filter(|message| thinks(message)).count();
                assert_eq!(later, 0, "thinking after a changed message");
            }
            previous = call.history;
        }
    }
    assert!(cleared_by_provider);
}
