//! Answers from a cassette, byte by byte through the same path as answers of a server.

use super::anthropic::{Assembler, errors, events};
use super::cassette::{Cassette, Content, Expect, ExpectedResult, Response};
use super::ids::KnownIds;
use super::progress::{Progress, report};
use super::reading::{Brought, CallError, Reading};
use crate::outcome::ModelErrorKind;
use crate::query::{Failure, History, Message, ModelCall, Remedy, Reply, Role, ToolResult};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::Sender;

/// A replayed conversation: call by call, the next response.
#[derive(Debug)]
pub struct Replay {
    cassette: Cassette,
    next: AtomicUsize,
    ids: KnownIds,
}

/// Sizes of the pieces that a stream is cut into: borders fall everywhere, inside characters too.
const CUTS: [usize; 7] = [1, 61, 7, 509, 3, 127, 31];
/// How much of a text a drift shows, in characters.
const SHOWN: usize = 300;

impl Replay {
    pub(super) fn new(cassette: Cassette) -> Self {
        Self { cassette, next: AtomicUsize::new(0), ids: KnownIds::default() }
    }

    pub(super) async fn call(&self, call: &ModelCall, progress: &Sender<Progress>) -> Result<Reply, CallError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let drifted = |problem: String| (self.drift(at + 1, &problem), None);
        let Some(response) = self.cassette.responses.get(at) else {
            let count = self.cassette.responses.len();
            return Err(drifted(format!("expected no further request, got one after the last response ({count})")));
        };
        if let Some(expect) = &response.expect {
            Newest::of(&call.history).check(expect).map_err(drifted)?;
        }
        response.play(Assembler::new(call.id, self.ids.of(&call.history)), progress).await
    }

    fn drift(&self, number: usize, problem: &str) -> Failure {
        Failure {
            remedy: Remedy::GiveUp,
            kind: ModelErrorKind::InvalidRequest,
            message: format!("the replay drifted at response {number} of {}: {problem}", self.cassette.path.display()),
            request_id: None,
            status: None,
        }
    }
}

impl Response {
    async fn play(&self, assembler: Assembler, progress: &Sender<Progress>) -> Result<Reply, CallError> {
        let stream = match &self.content {
            Content::Message(message) => stream_of(&events(message)),
            Content::Error(error) => {
                let body = json!({"type": "error", "error": error});
                if self.status != 200 {
                    return Err((errors::of_response(self.status, &self.headers, body.to_string().as_bytes()), None));
                }
                stream_of(&[body])
            }
            Content::Sse(text) => text.clone(),
        };
        let mut reading = Reading::new(assembler, self.headers.get("request-id").cloned());
        let mut shown = Vec::new();
        let mut rest = stream.as_bytes();
        for cut in CUTS.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            let brought = reading.push(piece, &mut shown);
            for shown in shown.drain(..) {
                report(progress, shown).await;
            }
            rest = after;
            if brought? == Brought::End || rest.is_empty() {
                break;
            }
        }
        let result = reading.finish(&mut shown);
        for shown in shown {
            report(progress, shown).await;
        }
        result
    }
}

/// Events as the bytes of a stream.
fn stream_of(events: &[Value]) -> String {
    let mut stream = String::new();
    for event in events {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        stream.extend(["event: ", kind, "\ndata: ", &event.to_string(), "\n\n"]);
        if kind == "message_start" {
            stream.push_str("event: ping\ndata: {\"type\": \"ping\"}\n\n");
        }
    }
    stream
}

/// What a request brings that is new: the user messages after the last answer.
struct Newest<'a> {
    results: Vec<&'a ToolResult>,
    text: String,
}

impl<'a> Newest<'a> {
    fn of(history: &'a History) -> Self {
        let mut messages: Vec<&'a Arc<Message>> = history.iter().rev().take_while(|m| m.role == Role::User).collect();
        messages.reverse();
        let texts: Vec<String> = messages.iter().map(|message| message.text()).collect();
        Self { results: messages.iter().flat_map(|message| message.tool_results()).collect(), text: texts.join("\n") }
    }

    /// Says what differs: what was expected, and what came.
    fn check(&self, expect: &Expect) -> Result<(), String> {
        let expected: Vec<&str> = expect.tool_results.iter().map(|result| result.id.as_str()).collect();
        let got: Vec<&str> = self.results.iter().map(|result| &*result.id).collect();
        if expected != got {
            return Err(format!("expected tool results {}, got {}", listed(&expected), listed(&got)));
        }
        for (expected, got) in expect.tool_results.iter().zip(&self.results) {
            check_result(expected, got)?;
        }
        match expect.text.iter().find(|text| !self.text.contains(text.as_str())) {
            Some(text) => Err(format!("expected the text {}, got {}", shown(text), shown(&self.text))),
            None => Ok(()),
        }
    }
}

fn check_result(expected: &ExpectedResult, got: &ToolResult) -> Result<(), String> {
    let id = &expected.id;
    if expected.is_error != got.is_error {
        let kind = |is_error| if is_error { "an error" } else { "a success" };
        let (wanted, came) = (kind(expected.is_error), kind(got.is_error));
        return Err(format!("expected {wanted} as the result of {id}, got {came}: {}", shown(&got.content)));
    }
    match expected.contains.iter().find(|text| !got.content.contains(text.as_str())) {
        Some(text) => Err(format!("expected {} in the result of {id}, got {}", shown(text), shown(&got.content))),
        None => Ok(()),
    }
}

fn listed(ids: &[&str]) -> String {
    if ids.is_empty() { "(none)".to_owned() } else { ids.join(", ") }
}

fn shown(text: &str) -> String {
    let mut start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Block, Origin, ToolInput, ToolUse};
    use crate::units::{Tokens, Usage};
    use std::path::Path;
    use tokio::sync::mpsc;

    fn replay(lines: &[&str]) -> Replay {
        let header = r#"{"cassette":1,"provider":"anthropic"}"#;
        let text = [&[header], lines].concat().join("\n");
        Replay::new(Cassette::parse(Path::new("x.jsonl"), &text).unwrap())
    }

    fn ask(replay: &Replay, blocks: Vec<Block>) -> Result<Reply, CallError> {
        let message = Message { id: 1, role: Role::User, origin: Origin::Prompt, blocks };
        let history = History::default().with(Arc::new(message));
        let (sender, mut screen) = mpsc::channel(100);
        let call = ModelCall { max_output: Tokens(100), ..ModelCall::first(history) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(replay.call(&call, &sender))?;
        drop(sender);
        let shown = std::iter::from_fn(|| screen.try_recv().ok());
        let blocks = shown.filter_map(|shown| if let Progress::Block(block) = shown { Some(block) } else { None });
        assert_eq!(blocks.collect::<Vec<_>>(), answer.blocks, "each block is told");
        Ok(answer)
    }

    fn text(text: &str) -> Vec<Block> {
        vec![Block::Text(text.into())]
    }

    fn result(id: &str, content: &str, is_error: bool) -> Block {
        Block::ToolResult(ToolResult::new(id.into(), content, is_error))
    }

    fn drift(expect: &str, blocks: Vec<Block>) -> String {
        let line = format!(r#"{{"expect":{expect},"message":{{"content":[],"stop_reason":"end_turn"}}}}"#);
        let (failure, usage) = ask(&replay(&[&line]), blocks).unwrap_err();
        assert_eq!((failure.remedy, failure.kind, usage), (Remedy::GiveUp, ModelErrorKind::InvalidRequest, None));
        failure.message
    }

    #[test]
    fn a_message_comes_back_as_it_was_written() {
        let message = json!({
            "content": [
                {"type": "thinking", "thinking": "hm… 你好🚀", "signature": "c2ln".repeat(40)},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "One\r\ntwo\u{0}é"},
                {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"old": "a\"\n", "b": [1, {"c": 1.5}], "a": null}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 6},
        });
        let line = json!({"headers": {"request-id": "req_1"}, "message": message}).to_string();
        let reply = ask(&replay(&[&line]), text("x")).unwrap();
        let Value::Object(input) = message["content"][3]["input"].clone() else { panic!() };
        let usage = Usage { input: Tokens(3), cache_write: Tokens(4), cache_read: Tokens(5), output: Tokens(6) };
        assert_eq!(reply.usage, usage);
        assert_eq!(reply.request_id.as_deref(), Some("req_1"));
        assert_eq!(
            reply.blocks,
            [
                Block::Thinking { text: "hm… 你好🚀".into(), signature: "c2ln".repeat(40) },
                Block::Opaque(json!({"type": "redacted_thinking", "data": "x"})),
                Block::Text("One\r\ntwo\u{0}é".into()),
                Block::ToolUse(ToolUse { id: "toolu_1".into(), name: "Edit".into(), input: ToolInput::Object(input) }),
            ]
        );
    }

    #[test]
    fn errors_and_streams_mean_what_they_mean_from_a_server() {
        let replay = replay(&[
            r#"{"status":429,"headers":{"retry-after":"2","request-id":"r1"},"error":{"type":"rate_limit_error","message":"slow down"}}"#,
            r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            r#"{"sse":"event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n"}"#,
        ]);
        let (failure, _) = ask(&replay, text("x")).unwrap_err();
        assert_eq!((failure.kind, failure.status), (ModelErrorKind::RateLimited, Some(429)));
        assert_eq!(failure.remedy, Remedy::Retry { after: Some(std::time::Duration::from_secs(2)) });
        assert_eq!(failure.request_id.as_deref(), Some("r1"));
        let (failure, _) = ask(&replay, text("x")).unwrap_err();
        assert_eq!((failure.kind, failure.status), (ModelErrorKind::Overloaded, None));
        let (failure, usage) = ask(&replay, text("x")).unwrap_err();
        assert_eq!((failure.kind, usage.map(|usage| usage.input)), (ModelErrorKind::Stream, Some(Tokens(3))));
        let (failure, _) = ask(&replay, text("x")).unwrap_err();
        assert_eq!(
            failure.message,
            "the replay drifted at response 4 of x.jsonl: expected no further request, got one after the last response (3)"
        );
    }

    #[test]
    fn what_was_expected_and_came_is_answered() {
        let line = r#"{"expect":{"tool_results":[{"id":"a","contains":["one","two"]},{"id":"b","is_error":true}],"text":["gate"]},"message":{"content":[],"stop_reason":"end_turn"}}"#;
        let blocks =
            vec![result("a", "two and one", false), result("b", "bad", true), Block::Text("the gate is red".into())];
        assert!(ask(&replay(&[line]), blocks).is_ok());
    }

    #[test]
    fn every_kind_of_drift_says_what_differs() {
        let drifted = |rest: &str| format!("the replay drifted at response 1 of x.jsonl: {rest}");
        assert_eq!(
            drift(r#"{"tool_results":[{"id":"a"},{"id":"b"}]}"#, vec![result("a", "x", false)]),
            drifted("expected tool results a, b, got a")
        );
        assert_eq!(drift("{}", vec![result("a", "x", false)]), drifted("expected tool results (none), got a"));
        assert_eq!(
            drift(r#"{"tool_results":[{"id":"a"}]}"#, vec![result("a", "no such file", true)]),
            drifted("expected a success as the result of a, got an error: \"no such file\"")
        );
        assert_eq!(
            drift(r#"{"tool_results":[{"id":"a","contains":["3 passed"]}]}"#, vec![result("a", "2 passed", false)]),
            drifted("expected \"3 passed\" in the result of a, got \"2 passed\"")
        );
        assert_eq!(drift(r#"{"text":["mend"]}"#, text("break")), drifted("expected the text \"mend\", got \"break\""));
        assert!(drift(r#"{"text":["mend"]}"#, text(&"é".repeat(9000))).len() < 800);
    }
}
