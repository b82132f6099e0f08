//! The server's own judgement: each of its rules can fail.

use crate::mock::{Answer, Mock, Script, message, text};
use serde_json::{Value, json as value};

#[tokio::test]
async fn the_mock_refuses_what_the_api_refuses() {
    let user = |blocks: Value| value!({"role": "user", "content": blocks});
    let assistant = |blocks: Value| value!({"role": "assistant", "content": blocks});
    let text = |text: &str| value!({"type": "text", "text": text});
    let call = |id: &str| value!({"type": "tool_use", "id": id, "name": "Bash", "input": {}});
    let result = |id: &str| value!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
    let marked = value!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let hello = user(value!([text("Hello")]));
    for (messages, words) in [
        (value!([]), "at least one message"),
        (value!([assistant(value!([text("x")]))]), "first message must use the \"user\" role"),
        (value!([hello, hello]), "roles must alternate"),
        (value!([user(value!([]))]), "non-empty content"),
        (value!([user(value!([text("")]))]), "must be non-empty"),
        (value!([user(value!([text(" \n")]))]), "non-whitespace"),
        (value!([hello, assistant(value!([text("x")]))]), "prefill"),
        (value!([hello, assistant(value!([call("a")]))]), "without `tool_result` blocks immediately after: a"),
        (
            value!([hello, assistant(value!([call("a"), call("b")])), user(value!([result("a")]))]),
            "immediately after: b",
        ),
        (
            value!([hello, assistant(value!([call("a"), call("b")])), user(value!([result("b"), result("a")]))]),
            "order of their calls",
        ),
        (value!([hello, assistant(value!([call("a")])), user(value!([text("x"), result("a")]))]), "must come first"),
        (value!([hello, assistant(value!([call("a")])), user(value!([result("a"), result("a")]))]), "single result"),
        (value!([hello, assistant(value!([call("a"), call("a")])), user(value!([result("a")]))]), "must be unique"),
        (value!([user(value!([result("z")]))]), "unexpected `tool_use_id`"),
        (
            value!([
                hello,
                assistant(value!([text("x"), {"type": "thinking", "thinking": "", "signature": "s"}])),
                hello
            ]),
            "final block in an assistant message cannot be `thinking`",
        ),
        (
            value!([
                hello,
                assistant(
                    value!([{"type": "thinking", "thinking": "", "signature": "s", "cache_control": {}}, text("x")])
                ),
                hello
            ]),
            "thinking.cache_control: Extra inputs",
        ),
        (value!([user(value!([marked, marked, marked, marked, marked]))]), "maximum of 4 blocks"),
        (value!([user(value!([call("a")]))]), "a user message has no"),
    ] {
        let mock = Mock::start(Script::calls([]));
        let body = value!({"model": "m", "max_tokens": 10, "stream": true, "messages": messages});
        let answered = post(&mock, &body).await;
        assert!(answered.contains("invalid_request_error") && mock.breaches().len() == 1, "{messages}: {answered}");
        assert!(mock.breaches()[0].contains(words), "{messages}: {:?} lacks {words:?}", mock.breaches());
    }
    let mock = Mock::start(Script::calls([]));
    post(&mock, &value!({"model": "m", "max_tokens": 10, "stream": true, "temperature": 1, "messages": [hello]})).await;
    assert!(mock.breaches()[0].contains("temperature: Extra inputs are not permitted"));
}

#[tokio::test]
async fn the_mock_sees_a_history_that_was_changed() {
    let user = |text: &str| value!({"role": "user", "content": [{"type": "text", "text": text}]});
    let thinking = |text: &str| value!({"role": "assistant", "content": [{"type": "thinking", "thinking": text, "signature": "c2ln"}, {"type": "text", "text": "Hi."}]});
    let body = |system: &str, messages: Value| value!({"model": "m", "max_tokens": 10, "stream": true, "system": [{"type": "text", "text": system}], "messages": messages});
    let after = async |system: &str, messages: Value| {
        let mock = Mock::start(Script::calls([message([]).thinking("hm", "c2ln").text("Hi.")]));
        post(&mock, &body("s", value!([user("Hello")]))).await;
        post(&mock, &body("s", value!([user("Hello"), thinking("hm"), user("Go on")]))).await;
        post(&mock, &body(system, messages)).await;
        mock.breaches()
    };
    let good = value!([user("Hello"), thinking("hm"), user("Go on"), thinking("hm"), user("More")]);
    assert_eq!(after("s", good.clone()).await, [""; 0]);
    assert!(after("other", good).await[0].contains("system or tools were changed"));
    let rewritten = value!([user("Hello"), thinking("hm"), user("Stop"), thinking("hm"), user("More")]);
    assert!(after("s", rewritten).await[0].contains("an earlier message was changed"));
    let forged = value!([user("Hello"), thinking("hm"), user("Go on"), thinking("hm!"), user("More")]);
    assert!(after("s", forged).await[0].contains("cannot be modified"));
}

/// What the mock says about a body with these fields besides those that it needs, sent with this `anthropic-beta`.
async fn breach(betas: &str, fields: Value) -> Vec<String> {
    let mut body = value!({"model": "m", "max_tokens": 10, "stream": true, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    let mock = Mock::start(Script::calls([text("Hi.")]));
    post_with(&mock, &format!("anthropic-beta: {betas}\r\n"), &body).await;
    mock.breaches()
}

#[tokio::test]
async fn the_mock_refuses_extras_without_their_betas() {
    const BUDGETS: &str = "task-budgets-2026-03-13";
    const MANAGEMENT: &str = "context-management-2025-06-27";
    let budget = |total: u64, remaining: u64| value!({"output_config": {"task_budget": {"type": "tokens", "total": total, "remaining": remaining}}});
    let edits = |edit: Value| value!({"context_management": {"edits": [edit]}});
    let tokens = |value: u64| value!({"type": "input_tokens", "value": value});
    let clear = edits(
        value!({"type": "clear_tool_uses_20250919", "trigger": tokens(9), "keep": {"type": "tool_uses", "value": 3}, "clear_at_least": tokens(5)}),
    );
    assert_eq!(breach(BUDGETS, budget(20_000, 20_000)).await, [""; 0]);
    assert_eq!(breach(MANAGEMENT, clear.clone()).await, [""; 0]);
    for (betas, fields, words) in [
        ("context-1m-2025-08-07", budget(20_000, 0), "output_config.task_budget: Extra inputs are not permitted"),
        (BUDGETS, budget(19_999, 0), "greater than or equal to 20000"),
        (BUDGETS, budget(20_000, 20_001), "less than or equal to total"),
        (BUDGETS, value!({}), "which is not there"),
        (BUDGETS, value!({"output_config": {"task_budget": {"type": "tokens", "used": 1}}}), "used: Extra inputs"),
        ("context-1m-2025-08-07", clear, "context_management: Extra inputs are not permitted"),
        (MANAGEMENT, edits(value!({"type": "clear_tool_uses_20250919", "trigger": 9})), "trigger"),
        (MANAGEMENT, edits(value!({"type": "compact_20260112"})), "knows only"),
        (
            "sparkles-2026-01-01",
            value!({}),
            "Unexpected value(s) `sparkles-2026-01-01` for the `anthropic-beta` header",
        ),
    ] {
        let breaches = breach(betas, fields.clone()).await;
        assert!(breaches.len() == 1 && breaches[0].contains(words), "{fields}: {breaches:?} lacks {words:?}");
    }
}

#[tokio::test]
async fn the_mock_refuses_images_that_the_api_refuses() {
    let image = |media_type: &str, data: &str| value!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}});
    let judged = async |blocks: Value, is_error: bool| {
        let result = value!({"type": "tool_result", "tool_use_id": "a", "content": blocks, "is_error": is_error});
        let messages = value!([
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
            {"role": "user", "content": [result]},
        ]);
        breach("", value!({"messages": messages})).await
    };
    let words = value!({"type": "text", "text": "a.png"});
    assert_eq!(judged(value!([words, image("image/png", "aGk=")]), false).await, [""; 0]);
    let large = "AAAA".repeat((5 << 18) + 1);
    for (blocks, is_error, expected) in [
        (value!([words, image("image/png", "aGk")]), false, "Invalid base64 data"),
        (value!([words, image("image/png", "a-k=")]), false, "Invalid base64 data"),
        (value!([words, image("image/tiff", "aGk=")]), false, "media_type"),
        (value!([words, image("image/png", &large)]), false, "image exceeds 5 MB maximum"),
        (value!([words, image("image/png", "aGk=")]), true, "must be type \"text\""),
        (value!([{"type": "text", "text": " "}]), false, "non-whitespace"),
        (value!([]), false, "content that is not blank"),
        (value!([{"type": "tool_use"}]), false, "a tool result has no"),
    ] {
        let breaches = judged(blocks, is_error).await;
        assert!(breaches.len() == 1 && breaches[0].contains(expected), "{breaches:?} lacks {expected:?}");
    }
}

#[tokio::test]
async fn the_mock_knows_whose_thinking_it_is_and_when_it_may_go() {
    let user = |text: &str| value!({"role": "user", "content": [{"type": "text", "text": text}]});
    let thinking = value!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let hi = value!({"type": "text", "text": "Hi."});
    let after = async |first: Answer, model: &str, answer: Value| {
        let mock = Mock::start(Script::calls([first.clone(), first]));
        let body = |model: &str, messages: Value| value!({"model": model, "max_tokens": 10, "stream": true, "messages": messages});
        post(&mock, &body("m", value!([user("Hello")]))).await;
        post(&mock, &body(model, value!([user("Hello"), {"role": "assistant", "content": answer}, user("Go on")])))
            .await;
        mock.breaches()
    };
    let said = || message([]).thinking("hm", "c2ln").text("Hi.");
    assert_eq!(after(said(), "m", value!([thinking, hi])).await, [""; 0]);
    assert_eq!(after(said(), "other", value!([hi])).await, [""; 0]);
    assert!(after(said(), "other", value!([thinking, hi])).await[0].contains("another model made this thinking"));
    assert!(after(said(), "m", value!([hi])).await[0].contains("is not what the server sent"));
}

/// Sends a body as it is.
async fn post(mock: &Mock, body: &Value) -> String {
    post_with(mock, "", body).await
}

async fn post_with(mock: &Mock, headers: &str, body: &Value) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = mock.url().replace("http://", "");
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let body = body.to_string();
    let head = "POST /v1/messages HTTP/1.1\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n";
    stream.write_all(format!("{head}{headers}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") || answer.len() < 200 {
        match stream.read(&mut piece).await.unwrap() {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}
