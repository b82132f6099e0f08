//! What only some servers and models take: budgets, clearing, images, thinking; and a second model.

use super::{Setup, Talk, inputs, texts};
use crate::mock::{Mock, Request, Script, message, status, text, tool};
use runner::model::{CallError, Http};
use runner::outcome::ModelErrorKind as Kind;
use runner::plan::Thinking;
use runner::query::{
    Block, Cleared, Clearing, History, Media, ModelCall, ModelSlot, Origin, Remedy, Reply, Role, TaskBudget, ToolResult,
};
use runner::units::Tokens;
use serde_json::json as value;
use std::sync::Arc;
use std::time::Duration;

/// A call with all extras.
async fn call_with_extras(talk: &Talk) -> Result<Reply, CallError> {
    let call = ModelCall {
        task_budget: Some(TaskBudget { total: Tokens(100_000), remaining: Tokens(60_000) }),
        clearing: Some(Clearing { trigger: Tokens(50_000), keep: 3, at_least: Tokens(5000) }),
        ..ModelCall::first(talk.history.clone())
    };
    talk.send(call).await.0
}

fn extras(request: &Request) -> (Option<&str>, bool, bool) {
    let has = |name: &str| !request.body[name].is_null();
    (request.header("anthropic-beta"), has("output_config"), has("context_management"))
}

const BOTH: &str = "task-budgets-2026-03-13,context-management-2025-06-27";
const AT_ONCE: Remedy = Remedy::Retry { after: Some(Duration::ZERO) };

#[tokio::test]
async fn extras_go_out_with_their_betas_and_come_back_as_numbers() {
    let mock = Mock::start(Script::each([text("Hi.").cleared(4, 9000)]));
    let talk = Setup::at(mock.url()).talk();
    let reply = call_with_extras(&talk).await.unwrap();
    assert_eq!(reply.cleared, Some(Cleared { tool_results: 4, tokens: Tokens(9000) }));
    for (written, expected) in [
        ("context-1m-2025-08-07", "context-1m-2025-08-07,task-budgets-2026-03-13,context-management-2025-06-27"),
        (
            " context-management-2025-06-27, context-1m-2025-08-07",
            "context-management-2025-06-27,context-1m-2025-08-07,task-budgets-2026-03-13",
        ),
    ] {
        let mut setup = Setup::at(mock.url());
        setup.headers.insert("Anthropic-Beta".into(), written.into());
        call_with_extras(&setup.talk()).await.unwrap();
        assert_eq!(extras(mock.requests().last().unwrap()), (Some(expected), true, true));
    }
    talk.call().await.unwrap();
    let requests = mock.requests();
    assert_eq!(extras(&requests[0]), (Some(BOTH), true, true));
    assert_eq!(extras(&requests[3]), (None, false, false));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn an_extra_that_was_refused_is_not_sent_again() {
    let refused = |words: &str| status(400, "invalid_request_error", words);
    let mock = Mock::start(Script::calls([
        refused("context_management: Extra inputs are not permitted"),
        refused("Unexpected value(s) `task-budgets-2026-03-13` for the `anthropic-beta` header."),
        refused("Unexpected value(s) `task-budgets-2026-03-13` for the `anthropic-beta` header."),
        text("Hi."),
    ]));
    let talk = Setup::at(mock.url()).talk();
    for expected in [AT_ONCE, AT_ONCE, Remedy::GiveUp] {
        let (failure, _) = call_with_extras(&talk).await.unwrap_err();
        assert_eq!((failure.kind, failure.status, failure.remedy), (Kind::InvalidRequest, Some(400), expected));
    }
    call_with_extras(&talk).await.unwrap();
    let requests = mock.requests();
    let sent: Vec<_> = requests.iter().map(extras).collect();
    let budget = (Some("task-budgets-2026-03-13"), true, false);
    assert_eq!(sent, [(Some(BOTH), true, true), budget, (None, false, false), (None, false, false)]);
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn images_of_a_result_are_sent_after_its_text() {
    let mock = Mock::start(Script::calls([tool("Read", value!({"command": "a.png"})), text("A cat.")]));
    let mut talk = Setup::at(mock.url()).talk();
    let reply = talk.call().await.unwrap();
    let [Block::ToolUse(call)] = &reply.blocks[..] else { panic!("{reply:?}") };
    let mut result = ToolResult::new(Arc::clone(&call.id), "a.png, 1 × 1", false);
    result.media.push(Media { media_type: "image/png", data: "iVBORw0KGgo=".into() });
    talk.push(Role::Assistant, Origin::Model, reply.blocks.clone());
    talk.push(Role::User, Origin::ToolResults, vec![Block::ToolResult(result)]);
    assert_eq!(texts(&talk.call().await.unwrap()), ["A cat."]);
    let requests = mock.requests();
    assert_eq!(requests[1].results()[0].1, "a.png, 1 × 1");
    let image = &requests[1].messages()[2]["content"][0]["content"][1];
    let source = value!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    assert_eq!(*image, value!({"type": "image", "source": source}));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn refusals_say_what_to_leave_out() {
    for (words, kind, remedy) in [
        ("prompt is too long: 211180 tokens > 200000 maximum", Kind::ContextExhausted, Remedy::Shrink),
        ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", Kind::Media, Remedy::StripMedia),
        ("messages.1.content.0: Invalid `signature` in `thinking` block.", Kind::InvalidRequest, Remedy::StripThinking),
    ] {
        let mock = Mock::start(Script::calls([status(400, "invalid_request_error", words)]));
        let (failure, _) = Setup::at(mock.url()).talk().call().await.unwrap_err();
        assert_eq!((failure.kind, failure.remedy), (kind, remedy), "{words}");
    }
}

/// A conversation without its thinking.
fn stripped(history: &History) -> History {
    history.iter().fold(History::default(), |stripped, message| {
        let mut blocks = message.blocks.clone();
        blocks.retain(|block| !matches!(block, Block::Thinking { .. }));
        stripped.with(Arc::new(runner::query::Message {
            id: message.id + 100,
            role: message.role,
            origin: message.origin,
            blocks,
        }))
    })
}

#[tokio::test]
async fn b032_after_a_refusal_of_thinking_the_conversation_goes_on_without_it() {
    let mock = Mock::start(Script::calls([
        message([]).thinking("hm", "c2ln").tool("Bash", value!({"command": "a"})),
        status(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block."),
        text("Done."),
    ]));
    let mut setup = Setup::at(mock.url());
    setup.thinking = Some(Thinking::Budget(Tokens(2000)));
    let mut talk = setup.talk();
    talk.turn("ok").await;
    assert_eq!(talk.call().await.unwrap_err().0.remedy, Remedy::StripThinking);
    let call = ModelCall { thinking_stripped: true, ..ModelCall::first(stripped(&talk.history)) };
    talk.send(call).await.0.unwrap();
    assert_eq!(mock.requests()[2].body["thinking"], value!({"type": "disabled"}));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn b036_two_models_share_their_connections_and_no_thinking() {
    let mock = Mock::start(
        Script::default()
            .model(
                "claude-main",
                [
                    message([]).thinking("hm", "c2ln").tool("Bash", value!({"command": "a"})),
                    status(529, "overloaded_error", "Overloaded"),
                ],
            )
            .model("claude-other", [tool("Bash", value!({"command": "b"})), text("Done.")]),
    );
    let http = Http::new(Http::CONNECT, "runner/test");
    let client = |model: &'static str| {
        let mut setup = Setup::at(mock.url());
        setup.model = model;
        setup.client_on(&http).unwrap()
    };
    let mut main = Talk { client: client("claude-main"), history: History::default(), next: 1 }.say("Mend it.");
    main.turn("ok").await;
    assert_eq!(main.call().await.unwrap_err().0.kind, Kind::Overloaded);
    let mut other = Talk { client: client("claude-other"), history: stripped(&main.history), next: 500 };
    let call = ModelCall { model: ModelSlot::Fallback, ..ModelCall::first(other.history.clone()) };
    assert_eq!(inputs(&other.send(call).await.0.unwrap()), [value!({"command": "b"})]);
    other.turn("ok").await;
    assert_eq!(mock.models(), ["claude-main", "claude-main", "claude-other", "claude-other"]);
    assert_eq!(mock.connections(), 1, "one pool serves both");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn messages_that_were_replaced_are_a_breach_unless_the_test_allows_it() {
    let rewritten = async |script: Script| {
        let mock = Mock::start(script);
        let mut talk = Setup::at(mock.url()).talk();
        talk.turn("ok").await;
        talk.turn("ok").await;
        let mut messages: Vec<_> = talk.history.iter().cloned().collect();
        let blocks = vec![Block::Text("A summary.".into())];
        messages[2] = Arc::new(runner::query::Message { id: 900, role: Role::User, origin: Origin::Gate, blocks });
        talk.history = messages.into_iter().fold(History::default(), |history, message| history.with(message));
        drop(talk.call().await);
        mock.breaches().len()
    };
    assert_eq!(rewritten(Script::calls([text("Hi.")])).await, 1);
    assert_eq!(rewritten(Script::calls([text("Hi.")]).rewrites()).await, 0);
}
