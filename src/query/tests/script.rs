//! The language in which histories are written down: an event a line. Scripts of tests are written in it, and the simulator prints a
//! failing history in it, so that it becomes a test by pasting.
//!
//! | line | event |
//! |---|---|
//! | `> start` | the first |
//! | `> answer STOP BLOCK...` | the newest call is answered; `> answer@3 ...` call 3; `in=N`, `out=N` say its usage |
//! | `> block BLOCK` | a block of it is complete |
//! | `> fail REMEDY KIND` | it failed; `used=N` |
//! | `> told N` | it has used so many tokens |
//! | `> tool ID ok`, `err`, `stop` | the run of the call `ID` ended; `SIZE` bytes; `media`; `> tool@7 ok` run 7 |
//! | `> clear ID`, `> clear@7` | hooks let a sub-agent start |
//! | `> hook N pass`, `red`, `late`, `broken`, `object`, `prevent` | a stop hook ended |
//! | `> ended ID` | a background command ended |
//! | `> cancel REASON` | the abort signal |
//! | `> kill` | the process dies, and another one goes on from the last savepoint (the world's) |
//! | `+ SECONDS` | time passes |
//!
//! Blocks: `text`, `text:SIZE`, `blank`, `think`, `hidden`, `Tool:ID`, `Tool:ID:cut`.

use super::super::*;
use crate::outcome::{AbortReason, HookEvidence, HookKind, ModelErrorKind};
use crate::units::{Elapsed, Tokens, Usage};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A query that a script drives.
#[derive(Clone)]
pub(super) struct Play {
    pub(super) query: Query,
    pub(super) now: Elapsed,
    /// The newest run of each call.
    runs: BTreeMap<String, ToolRunId>,
}

impl Play {
    pub(super) fn new(params: Params) -> Self {
        Self { query: Query::new(params), now: Elapsed::default(), runs: BTreeMap::new() }
    }

    /// Plays one line.
    pub(super) fn line(&mut self, line: &str) -> Vec<Effect> {
        let event = match line.split_once(' ') {
            Some(("+", seconds)) => {
                self.now = self.now.plus(Duration::from_secs_f64(seconds.parse().unwrap()));
                Event::Tick
            }
            Some((">", rest)) => self.event(rest),
            _ => panic!("not a script line: {line}"),
        };
        let effects = self.query.step(self.now, event);
        for effect in &effects {
            if let Effect::RunTool(run) | Effect::ClearAgent(run) = effect {
                self.runs.insert(run.call.id.to_string(), run.id);
            }
        }
        effects
    }

    fn event(&self, text: &str) -> Event {
        let mut words = text.split_whitespace();
        let (verb, at) = words.next().map(|verb| verb.split_once('@').unwrap_or((verb, ""))).unwrap();
        let words: Vec<&str> = words.collect();
        let call = CallId(at.parse().unwrap_or_else(|_| self.query.model_calls()));
        let number = |name: &str, default: u64| {
            let found = words.iter().find_map(|word| word.strip_prefix(name));
            found.map_or(default, |number| number.parse().unwrap())
        };
        match (verb, &words[..]) {
            ("start", []) => Event::Start,
            ("answer", [stop, blocks @ ..]) => {
                let blocks = blocks.iter().filter(|word| !word.contains('=')).map(|word| block(word)).collect();
                let usage = Usage {
                    input: Tokens(number("in=", 1_000)),
                    output: Tokens(number("out=", 100)),
                    ..Usage::default()
                };
                let cleared = words.contains(&"cleared=1").then_some(Cleared { tool_results: 2, tokens: Tokens(900) });
                Event::Reply { call, reply: Reply { blocks, stop: stopped(stop), usage, cleared, request_id: None } }
            }
            ("block", [word]) => Event::BlockDone { call, block: block(word) },
            ("fail", [remedy, kind, ..]) => {
                let usage = words
                    .iter()
                    .any(|word| word.starts_with("used="))
                    .then(|| Usage { input: Tokens(number("used=", 0)), ..Usage::default() });
                let (request_id, status) = (Some("req_1".to_owned()), None);
                let (remedy, kind, message) = (remedy_of(remedy), kind_of(kind), "no luck".to_owned());
                Event::ModelFailed { call, failure: Failure { remedy, kind, message, request_id, status }, usage }
            }
            ("told", [tokens]) => {
                let usage = Usage { input: Tokens(tokens.parse().unwrap()), ..Usage::default() };
                Event::UsageTold { call, usage }
            }
            ("tool", words) => {
                let (id, words) = if at.is_empty() { (words[0], &words[1..]) } else { ("", words) };
                let run = at.parse().map(ToolRunId);
                let run = run.unwrap_or_else(|_| self.runs.get(id).copied().unwrap_or(ToolRunId(0)));
                let size = words.iter().find_map(|word| word.parse::<usize>().ok());
                let content = size.map_or_else(|| "ok".to_owned(), |size| "line of output\n".repeat(size / 15 + 1));
                let mut result = ToolResult::new(id.into(), content, words.contains(&"err"));
                if words.contains(&"media") {
                    result.media.push(Media { media_type: "image/png", data: "AAAA".into() });
                }
                let stopped = words.contains(&"stop").then(|| HookEvidence {
                    kind: HookKind::Tool,
                    name: "guard".into(),
                    tail: "not here".into(),
                    broken: false,
                });
                Event::ToolDone { run, result, stopped }
            }
            ("clear", _) => {
                let named = || self.runs.get(words[0]).copied().unwrap_or(ToolRunId(0));
                let run = at.parse().map_or_else(|_| named(), ToolRunId);
                Event::ToolCleared { run, input: input("Agent") }
            }
            ("hook", [index, how]) => {
                let status = match *how {
                    "pass" => HookStatus::Pass,
                    "red" => HookStatus::Fail { exit_code: Some(1) },
                    "late" => HookStatus::TimedOut,
                    "broken" => HookStatus::Broken("no such program".into()),
                    "object" => HookStatus::Object("one thing more".into()),
                    "prevent" => HookStatus::Prevent("enough".into()),
                    _ => panic!("no such end of a hook: {how}"),
                };
                let result = HookResult { status, tail: "left: 1".into(), duration: Duration::from_mins(10) };
                Event::HookDone { index: index.parse().unwrap(), result }
            }
            ("ended", [id]) => {
                Event::CommandEnded { id: (*id).into(), text: format!("[background command {id} has ended]") }
            }
            ("cancel", [reason]) => Event::Cancel(abort_of(reason)),
            _ => panic!("not an event: {text}"),
        }
    }
}

fn stopped(word: &str) -> Stop {
    match word {
        "end" => Stop::Ordinary("end_turn".into()),
        "tools" => Stop::Ordinary("tool_use".into()),
        "max" => Stop::MaxTokens,
        "full" => Stop::ContextWindow,
        "pause" => Stop::Pause,
        "refusal" => Stop::Refusal("policy".into()),
        _ => panic!("no such stop: {word}"),
    }
}

fn block(word: &str) -> Block {
    let parts: Vec<&str> = word.split(':').collect();
    match parts[..] {
        ["text"] => Block::Text("done".into()),
        ["text", size] => Block::Text("some words ".repeat(size.parse::<usize>().unwrap() / 11 + 1)),
        ["blank"] => Block::Text(" \n".into()),
        ["think"] => Block::Thinking { text: "hm".into(), signature: "s".into() },
        ["hidden"] => Block::Opaque(json!({"type": "redacted_thinking", "data": "x"})),
        [name, id] => {
            Block::ToolUse(ToolUse { id: id.into(), name: tool_name(name), input: ToolInput::Object(input(name)) })
        }
        [name, id, "cut"] => {
            let input = ToolInput::Invalid { raw: "{\"a".into(), problem: "the output limit cut it".into() };
            Block::ToolUse(ToolUse { id: id.into(), name: tool_name(name), input })
        }
        _ => panic!("no such block: {word}"),
    }
}

fn tool_name(name: &str) -> String {
    if name == "General" { "Agent".into() } else { name.into() }
}

fn input(name: &str) -> Map<String, Value> {
    let value = match name {
        "Agent" => json!({"description": "look", "prompt": "look around"}),
        "General" => json!({"description": "do", "prompt": "do it", "subagent_type": "general"}),
        "Write" => json!({"file_path": "a", "content": "x".repeat(200)}),
        _ => json!({"file_path": "a"}),
    };
    let Value::Object(map) = value else { unreachable!() };
    map
}

fn remedy_of(word: &str) -> Remedy {
    match word.split_once('=') {
        Some(("retry", seconds)) => Remedy::Retry { after: Some(Duration::from_secs_f64(seconds.parse().unwrap())) },
        _ => match word {
            "retry" => Remedy::Retry { after: None },
            "shrink" => Remedy::Shrink,
            "media" => Remedy::StripMedia,
            "thinking" => Remedy::StripThinking,
            "giveup" => Remedy::GiveUp,
            _ => panic!("no such remedy: {word}"),
        },
    }
}

fn kind_of(word: &str) -> ModelErrorKind {
    match word {
        "overloaded" => ModelErrorKind::Overloaded,
        "stream" => ModelErrorKind::Stream,
        "rate" => ModelErrorKind::RateLimited,
        "auth" => ModelErrorKind::Auth,
        "model" => ModelErrorKind::ModelNotFound,
        "context" => ModelErrorKind::ContextExhausted,
        "media" => ModelErrorKind::Media,
        "invalid" => ModelErrorKind::InvalidRequest,
        _ => panic!("no such kind: {word}"),
    }
}

fn abort_of(word: &str) -> AbortReason {
    match word {
        "interrupt" => AbortReason::Interrupt,
        "timeout" => AbortReason::Timeout,
        "cost_limit" => AbortReason::CostLimit,
        "fail_fast" => AbortReason::FailFast,
        "loop_detected" => AbortReason::LoopDetected,
        "input" => AbortReason::Input,
        _ => panic!("no such reason: {word}"),
    }
}
