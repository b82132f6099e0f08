//! The client on the wire, against the mock server: what is sent, and every way in which an answer can go wrong.

mod blocks;
mod extras;
mod failures;
mod judgement;
mod limits;

use crate::mock::{Answer, LineEnd, Mock, Request, Script, message, raw, stream, text, tool};
use runner::model::{CallError, Client, Http, Key, Progress, Session, Timeouts};
use runner::outcome::ModelErrorKind as Kind;
use runner::plan::{ModelPlan, Provider, Thinking};
use runner::query::{
    Block, Failure, History, Message, ModelCall, Origin, Remedy, Reply, Role, Stop, ToolDefinition, ToolInput,
    ToolResult,
};
use runner::units::{Tokens, Usage};
use serde_json::{Value, json as value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// A conversation of one client with a server.
struct Talk {
    client: Client,
    history: History,
    next: u64,
}

/// Short enough for a test to wait for, long enough for a busy machine to do its part before.
const SHORT: Duration = Duration::from_millis(300);

/// What a test may set of a talk.
struct Setup {
    base_url: String,
    key: Option<&'static str>,
    headers: BTreeMap<String, String>,
    thinking: Option<Thinking>,
    timeouts: Timeouts,
    model: &'static str,
}

impl Setup {
    fn at(base_url: impl Into<String>) -> Self {
        let (headers, timeouts) = (BTreeMap::new(), Timeouts::default());
        let (key, model) = (Some("sk-test-key-1234"), "claude-test");
        Self { base_url: base_url.into(), key, headers, thinking: None, timeouts, model }
    }

    fn client(self) -> Result<Client, String> {
        self.client_on(&Http::new(Http::CONNECT, "runner/test"))
    }

    fn client_on(self, http: &Http) -> Result<Client, String> {
        let schema = value!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
        let tools =
            ["Read", "Bash"].map(|name| ToolDefinition { name, description: "It runs.", input_schema: schema.clone() });
        let plan = ModelPlan {
            binds_thinking: false,
            fallback: None,
            small: None,
            escalated_output: None,
            provider: Provider::Anthropic {
                base_url: self.base_url,
                api_key_env: "THE_KEY".into(),
                headers: self.headers,
            },
            name: self.model.into(),
            max_output: Tokens(8192),
            thinking: self.thinking,
            context_window: Tokens(200_000),
            prices: None,
        };
        let session = Session {
            system: "You mend programs.".into(),
            tools: tools.into(),
            key: self.key.and_then(Key::new),
            timeouts: self.timeouts,
        };
        Client::new(&plan, &session, http)
    }

    fn talk(self) -> Talk {
        let talk = Talk { client: self.client().unwrap(), history: History::default(), next: 1 };
        talk.say("Mend it.")
    }
}

impl Talk {
    fn push(&mut self, role: Role, origin: Origin, blocks: Vec<Block>) {
        let message = Message { id: self.next, role, origin, blocks };
        self.next += 1;
        self.history = self.history.with(Arc::new(message));
    }

    fn say(mut self, text: &str) -> Self {
        self.push(Role::User, Origin::Prompt, vec![Block::Text(text.into())]);
        self
    }

    async fn call(&self) -> Result<Reply, CallError> {
        self.call_watched().await.0
    }

    async fn call_watched(&self) -> (Result<Reply, CallError>, Vec<Progress>) {
        self.send(ModelCall { max_output: Tokens(4096), ..ModelCall::first(self.history.clone()) }).await
    }

    async fn send(&self, call: ModelCall) -> (Result<Reply, CallError>, Vec<Progress>) {
        let (sender, mut screen) = mpsc::channel(1000);
        let call = async move { self.client.call(&call, &sender).await };
        let watch = async {
            let mut seen = Vec::new();
            while let Some(progress) = screen.recv().await {
                seen.push(progress);
            }
            seen
        };
        let (result, seen) = tokio::join!(call, watch);
        if let Ok(reply) = &result {
            assert_eq!(told(&seen), reply.blocks, "each block is told, in order");
        }
        (result, seen)
    }

    /// One turn: the answer joins the history, and each call in it gets this result.
    async fn turn(&mut self, output: &str) -> Reply {
        let reply = self.call().await.unwrap();
        if !reply.blocks.is_empty() {
            self.push(Role::Assistant, Origin::Model, reply.blocks.clone());
        }
        let results: Vec<Block> = reply
            .blocks
            .iter()
            .filter_map(|block| if let Block::ToolUse(call) = block { Some(Arc::clone(&call.id)) } else { None })
            .map(|id| Block::ToolResult(ToolResult::new(id, output, false)))
            .collect();
        if results.is_empty() {
            self.push(Role::User, Origin::Gate, vec![Block::Text("The gate is red.".into())]);
        } else {
            self.push(Role::User, Origin::ToolResults, results);
        }
        reply
    }
}

async fn answer(answer: Answer) -> Result<Reply, CallError> {
    let mock = Mock::start(Script::calls([answer]));
    let result = Setup::at(mock.url()).talk().call().await;
    assert_eq!(mock.breaches(), [""; 0]);
    result
}

async fn failure(answered: Answer) -> Failure {
    answer(answered).await.unwrap_err().0
}

const fn retried(failure: &Failure) -> bool {
    matches!(failure.remedy, Remedy::Retry { .. })
}

/// The blocks among what was told.
fn told(seen: &[Progress]) -> Vec<Block> {
    let block = |progress: &Progress| if let Progress::Block(block) = progress { Some(block.clone()) } else { None };
    seen.iter().filter_map(block).collect()
}

fn texts(reply: &Reply) -> Vec<&str> {
    reply
        .blocks
        .iter()
        .filter_map(|block| if let Block::Text(text) = block { Some(text.as_str()) } else { None })
        .collect()
}

fn inputs(reply: &Reply) -> Vec<Value> {
    let input = |block: &Block| match block {
        Block::ToolUse(call) => match &call.input {
            ToolInput::Object(map) => Some(Value::Object(map.clone())),
            ToolInput::Invalid { raw, .. } => Some(Value::String(raw.clone())),
        },
        Block::Text(_) | Block::Thinking { .. } | Block::ToolResult(_) | Block::Opaque(_) => None,
    };
    reply.blocks.iter().filter_map(input).collect()
}

// What is sent.

#[tokio::test]
async fn a_request_is_what_the_api_documents() {
    let mock = Mock::start(Script::calls([text("Hi.")]).key("sk-test-key-1234"));
    let mut setup = Setup::at(mock.url() + "/");
    setup.headers.insert("x-team".into(), "blue".into());
    setup.thinking = Some(Thinking::Adaptive);
    let talk = setup.talk();
    talk.call().await.unwrap();
    let [request] = &mock.requests()[..] else { panic!() };
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(request.header("user-agent"), Some("runner/test"));
    assert_eq!(request.body["max_tokens"], 4096);
    assert_eq!(request.body["thinking"], value!({"type": "adaptive"}));
    assert_eq!(request.first_text(), "Mend it.");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn a_conversation_keeps_every_rule_over_many_turns() {
    let mock = Mock::start(Script::each([
        message([]).thinking("Let me look.", "c2lnbmF0dXJl").text(" ").tool("Bash", value!({"command": "ls"})),
        message([])
            .thinking("One", "c2ln")
            .tool("Bash", value!({"command": "a"}))
            .thinking("", "bW9yZQ==")
            .tool("Bash", value!({"command": "b"}))
            .tool("Read", value!({})),
        message([value!({"type": "redacted_thinking", "data": "eHl6"})]).text("\n\nDone. "),
        message([]).text("").thinking("trailing", "dHJhaWw="),
        text("Done again."),
        text("Still done."),
    ]));
    let mut talk = Setup::at(mock.url()).talk();
    for turn in 1..=6 {
        let reply = talk.turn("out\u{1F680}").await;
        assert_eq!(reply.request_id, Some(format!("req_{turn:04}")));
    }
    assert_eq!(mock.breaches(), [""; 0]);
    let requests = mock.requests();
    assert_eq!(requests.len(), 6);
    assert_eq!(requests[2].results().len(), 3, "b028: all results of one answer in one message");
    assert_eq!(requests[5].turn(), 5, "the answer without content is no message of the conversation");
    assert_eq!(requests[3].last_text(), "The gate is red.");
    assert!(mock.connections() < requests.len(), "connections are used again");
}

#[tokio::test]
async fn a_key_is_sent_as_a_key_and_a_written_header_outranks_it() {
    let mock = Mock::start(Script::calls([text("Hi.")]));
    let mut setup = Setup::at(mock.url());
    setup.key = Some(" sk-test\n");
    setup.talk().call().await.unwrap();
    let mut setup = Setup::at(mock.url());
    setup.headers.insert("Authorization".into(), "Bearer token".into());
    setup.talk().call().await.unwrap();
    let mut setup = Setup::at(mock.url());
    setup.key = None;
    setup.talk().call().await.unwrap();
    let requests = mock.requests();
    let keys: Vec<_> =
        requests.iter().map(|request| (request.header("x-api-key"), request.header("authorization"))).collect();
    assert_eq!(keys, [(Some("sk-test"), None), (None, Some("Bearer token")), (None, None)]);
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn what_cannot_work_is_said_before_the_first_call() {
    let problem = |setup: Setup| setup.client().map(|_| ()).unwrap_err();
    let mut no_key = Setup::at("http://model.test");
    no_key.key = None;
    assert_eq!(problem(no_key), "THE_KEY is not set: http://model.test/v1/messages needs a key");
    let mut odd_key = Setup::at("http://model.test");
    odd_key.key = Some("sk-\nsecret");
    assert_eq!(problem(odd_key), "THE_KEY holds characters that no key has");
    assert!(problem(Setup::at("model.test")).contains("base_url \"model.test\""));
    assert!(problem(Setup::at("ftp://model.test")).contains("http://"));
    let mut header = Setup::at("http://model.test");
    header.headers.insert("bad name".into(), "x".into());
    assert!(problem(header).contains("bad name"));
    let mut header = Setup::at("http://model.test");
    header.headers.insert("x-a".into(), "secret\u{1}".into());
    assert!(!problem(header).contains("secret"));
    assert_eq!(format!("{:?}", Key::new("secret")), "Some(Key(…))");
}

// Streams.

#[tokio::test]
async fn b048_b050_b051_a_stream_means_the_same_however_it_is_written() {
    let plain =
        || text("你好🚀é ok").thinking("hmé", "c2ln").tool("Bash", value!({"command": "echo 你好🚀é", "n": [1, null]}));
    let expected = answer(plain()).await.unwrap();
    assert_eq!(texts(&expected), ["你好🚀é ok"]);
    assert_eq!(inputs(&expected), [value!({"command": "echo 你好🚀é", "n": [1, null]})]);
    for ends in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
        for pieces in [1, 7, 4096] {
            let reply = answer(plain().line_ends(ends).pieces(pieces).noise()).await.unwrap();
            assert_eq!(reply, expected, "{ends:?} in pieces of {pieces}");
        }
        assert_eq!(answer(plain().bare().line_ends(ends)).await.unwrap(), expected, "bare, {ends:?}");
    }
    assert_eq!(answer(plain().late_close()).await.unwrap(), expected, "the end is the message's, not the connection's");
}

#[tokio::test]
async fn b029_b034_interleaved_blocks_and_split_signatures_are_put_together() {
    let reply = answer(
        message([])
            .thinking("a", "signature")
            .tool("Bash", value!({"command": "one"}))
            .tool("Read", value!({"command": "two"}))
            .interleaved(),
    )
    .await
    .unwrap();
    assert_eq!(inputs(&reply), [value!({"command": "one"}), value!({"command": "two"})]);
    assert_eq!(reply.blocks[0], Block::Thinking { text: "a".into(), signature: "signature".into() });
}

#[tokio::test]
async fn b046_a_call_counts_whatever_the_stop_reason_says() {
    let reply = answer(message([]).text("").tool("Bash", value!({"command": "ls"})).stop("end_turn")).await.unwrap();
    assert_eq!((inputs(&reply).len(), reply.stop), (1, Stop::Ordinary("end_turn".into())));
}

#[tokio::test]
async fn usage_ids_refusals_and_limits_are_told() {
    let reply = answer(text("x").usage(11, 22).cache(33, 44).header("request-id", "req_mine")).await.unwrap();
    let usage = Usage { input: Tokens(11), output: Tokens(22), cache_write: Tokens(33), cache_read: Tokens(44) };
    assert_eq!((reply.usage, reply.request_id.as_deref()), (usage, Some("req_mine")));
    let reply = answer(message([]).refusal("cyber", "It looks like an attack.")).await.unwrap();
    assert_eq!(reply.stop, Stop::Refusal("It looks like an attack. (cyber)".into()));
    let reply = answer(text("cut").stop("max_tokens")).await.unwrap();
    assert_eq!(reply.stop, Stop::MaxTokens);
    assert_eq!(answer(message([])).await.unwrap().blocks, []);
}

#[tokio::test]
async fn b060_b061_a_call_that_the_limit_cut_says_so_and_can_be_answered() {
    let mock =
        Mock::start(Script::calls([message([]).text("Writing.").cut_call("Bash", "{\"command\":\"a"), text("Done.")]));
    let mut talk = Setup::at(mock.url()).talk();
    let reply = talk.turn("cut").await;
    assert_eq!(reply.stop, Stop::MaxTokens);
    let [_, Block::ToolUse(call)] = &reply.blocks[..] else { panic!("{:?}", reply.blocks) };
    let ToolInput::Invalid { raw, problem } = &call.input else { panic!("{call:?}") };
    assert_eq!(raw, "{\"command\":\"a");
    assert!(problem.contains("output limit"), "{problem}");
    talk.turn("").await;
    assert_eq!(mock.requests()[1].messages()[1]["content"][1]["input"], value!({"INVALID_JSON": "{\"command\":\"a"}));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn b028_an_id_that_comes_twice_is_replaced() {
    let twice = || {
        message([]).tool_with_id("same", "Bash", value!({"command": "a"})).tool_with_id(
            "same",
            "Bash",
            value!({"command": "b"}),
        )
    };
    let mock = Mock::start(Script::calls([twice(), twice(), text("Done.")]));
    let mut talk = Setup::at(mock.url()).talk();
    for _ in 0..3 {
        talk.turn("ok").await;
    }
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn b040_b059_arguments_that_are_broken_do_not_break_the_call() {
    let call = |arguments: &str| {
        stream([
            value!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "Bash"}}),
            value!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}}),
            value!({"type": "content_block_stop", "index": 0}),
            value!({"type": "brand_new_event", "x": 1}),
            value!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            value!({"type": "message_stop"}),
        ])
    };
    assert_eq!(inputs(&answer(call(r#"{"a":"x\ud83d"}"#)).await.unwrap()), [value!({"a": "x\u{fffd}"})]);
    assert_eq!(inputs(&answer(call(r#"{"path":"a"}}"#)).await.unwrap()), [value!(r#"{"path":"a"}}"#)]);
    for nothing in ["", "null", "\"\""] {
        assert_eq!(inputs(&answer(call(nothing)).await.unwrap()), [value!({})]);
    }
    assert_eq!(inputs(&answer(call(r#""{\"a\":1}""#)).await.unwrap()), [value!({"a": 1})]);
}

#[tokio::test]
async fn the_screen_is_told_what_happens() {
    let mock = Mock::start(Script::calls([message([]).thinking("hm", "c2ln").text("Hello").tool("Bash", value!({}))]));
    let (result, seen) = Setup::at(mock.url()).talk().call_watched().await;
    result.unwrap();
    let all = |pick: fn(&Progress) -> Option<&str>| seen.iter().filter_map(pick).collect::<String>();
    assert_eq!(all(|p| if let Progress::Text(text) = p { Some(text) } else { None }), "Hello");
    assert_eq!(all(|p| if let Progress::Thinking(text) = p { Some(text) } else { None }), "hm");
    assert!(seen.contains(&Progress::ToolCall("Bash".into())));
}

// Streams that break.

#[tokio::test]
async fn b047_b053_a_stream_that_ends_before_its_message_is_a_failed_attempt() {
    let whole = || tool("Bash", value!({"command": "touch x"})).usage(70, 5);
    for place in ["message_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"] {
        for cut in [whole().end_before(place), whole().break_before(place)] {
            let (failure, usage) = answer(cut).await.unwrap_err();
            assert_eq!((failure.kind, retried(&failure)), (Kind::Stream, true), "{place}: {failure:?}");
            assert_eq!(failure.request_id.as_deref(), Some("req_0001"), "{place}");
            assert_eq!(usage.map(|usage| usage.input), (place != "message_start").then_some(Tokens(70)), "{place}");
        }
    }
}

#[tokio::test]
async fn b027_after_a_broken_stream_the_same_request_goes_out_again() {
    let mock = Mock::start(Script::calls([
        tool("Bash", value!({"command": "a"})).break_before("message_delta"),
        tool("Bash", value!({"command": "b"})),
        text("Done."),
    ]));
    let mut talk = Setup::at(mock.url()).talk();
    talk.call().await.unwrap_err();
    assert_eq!(inputs(&talk.turn("ok").await), [value!({"command": "b"})]);
    talk.turn("").await;
    let requests = mock.requests();
    assert_eq!(requests[0].bytes, requests[1].bytes);
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn b052_an_error_in_the_stream_is_an_error_of_its_class() {
    let error = |kind: &str| value!({"type": "error", "error": {"type": kind, "message": "Because."}, "request_id": "req_body"});
    let begin = value!({"type": "message_start", "message": {"usage": {"input_tokens": 7}}});
    let some = value!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}});
    for (kind, expected, again) in [
        ("overloaded_error", Kind::Overloaded, true),
        ("api_error", Kind::Api, true),
        ("rate_limit_error", Kind::RateLimited, true),
        ("invalid_request_error", Kind::InvalidRequest, false),
        ("authentication_error", Kind::Auth, false),
    ] {
        let (failure, usage) = answer(stream([begin.clone(), some.clone(), error(kind)])).await.unwrap_err();
        assert_eq!((failure.kind, retried(&failure)), (expected, again), "{kind}");
        assert_eq!(usage.map(|usage| usage.input), Some(Tokens(7)));
        assert_eq!(failure.request_id.as_deref(), Some("req_body"));
        assert!(failure.message.contains("Because."), "{}", failure.message);
        assert_eq!(answer(stream([error(kind)])).await.unwrap_err().0.kind, expected, "as the first event");
    }
}

#[tokio::test]
async fn b051_an_endless_event_is_an_error() {
    let line = [b"data: ".to_vec(), vec![b'x'; 33 << 20]].concat();
    let failure = failure(raw(200, "text/event-stream", line)).await;
    assert_eq!((failure.kind, retried(&failure)), (Kind::Stream, true));
    assert!(failure.message.contains("32 MiB"), "{}", failure.message);
}

#[tokio::test]
async fn a_large_event_is_none() {
    let long = "é".repeat(1 << 20);
    let reply = answer(text(&long).pieces(64 << 10)).await.unwrap();
    assert_eq!(texts(&reply), [long]);
}

// Many at once.

#[tokio::test]
async fn conversations_do_not_mix() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let mock = Mock::start(
        Script::default()
            .about("job a", [tool("Bash", value!({"command": "a"})), text("a is done").after(Duration::from_millis(1))])
            .about("job b", [text("b is done")]),
    );
    let talk = |name: &str| {
        Talk { client: Setup::at(mock.url()).client().unwrap(), history: History::default(), next: 1 }.say(name)
    };
    let (mut a, mut b) = (talk("job a"), talk("job b"));
    let (first, second) = tokio::join!(a.turn("out"), b.turn(""));
    counted.fetch_add(inputs(&first).len() + texts(&second).len(), Ordering::Relaxed);
    assert_eq!(texts(&a.turn("").await), ["a is done"]);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    assert!(mock.peak() <= 2);
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn a_test_without_a_runtime_can_wait_for_a_request() {
    let mock = Mock::start(Script::made(|request: &Request| text(&format!("You said {:?}.", request.last_text()))));
    let url = mock.url();
    let caller = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Setup::at(url).talk().call())
    });
    mock.wait_for_requests(1);
    assert_eq!(texts(&caller.join().unwrap().unwrap()), ["You said \"Mend it.\"."]);
}
