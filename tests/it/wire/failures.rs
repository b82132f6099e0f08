//! Answers that are errors, and answers that never come: what each means, and what it says.

use super::{Setup, answer, failure, inputs, retried, texts};
use crate::mock::{Answer, Mock, Script, html, json, raw, status, text};
use runner::outcome::ModelErrorKind as Kind;
use runner::query::Remedy;
use runner::units::Tokens;
use serde_json::json as value;
use std::time::Duration;

#[tokio::test]
async fn statuses_are_classified() {
    for (code, kind, expected, again) in [
        (400, "invalid_request_error", Kind::InvalidRequest, false),
        (401, "authentication_error", Kind::Auth, false),
        (402, "billing_error", Kind::Billing, false),
        (403, "permission_error", Kind::Auth, false),
        (404, "not_found_error", Kind::ModelNotFound, false),
        (408, "timeout_error", Kind::Api, true),
        (409, "conflict_error", Kind::Api, true),
        (413, "request_too_large", Kind::ContextExhausted, false),
        (429, "rate_limit_error", Kind::RateLimited, true),
        (500, "api_error", Kind::Api, true),
        (504, "timeout_error", Kind::Api, true),
        (529, "overloaded_error", Kind::Overloaded, true),
    ] {
        let failure = failure(status(code, kind, "Because.")).await;
        assert_eq!((failure.kind, retried(&failure)), (expected, again), "{code}");
        assert_eq!((failure.status, failure.request_id.as_deref()), (Some(code), Some("req_0001")));
        assert_eq!(failure.message, format!("HTTP {code} {kind}: Because."));
    }
}

#[tokio::test]
async fn b064_b065_the_wish_to_be_left_alone_is_kept() {
    let wait = async |headers: &[(&str, &str)]| {
        let answered = status(429, "rate_limit_error", "Slow down.");
        let answered = headers.iter().fold(answered, |answered, (name, value)| answered.header(name, value));
        let Remedy::Retry { after } = failure(answered).await.remedy else { panic!("no retry: {headers:?}") };
        after
    };
    assert_eq!(wait(&[("retry-after", "3600")]).await, Some(Duration::from_hours(1)));
    assert_eq!(wait(&[("Retry-After", "1.152")]).await, Some(Duration::from_millis(1152)));
    assert_eq!(wait(&[("retry-after-ms", "40")]).await, Some(Duration::from_millis(40)));
    let date = [("date", "Tue, 01 Dec 2026 00:00:00 GMT"), ("retry-after", "Tue, 01 Dec 2026 00:00:07 GMT")];
    assert_eq!(wait(&date).await, Some(Duration::from_secs(7)));
    assert_eq!(wait(&[]).await, None);
    let forbidden = status(529, "overloaded_error", "x").header("x-should-retry", "false");
    assert_eq!(failure(forbidden).await.remedy, Remedy::GiveUp);
}

#[tokio::test]
async fn b043_pages_and_empty_bodies_are_described() {
    let failed = failure(html(502, "<html><title>Bad gateway</title></html>")).await;
    assert_eq!((failed.kind, retried(&failed)), (Kind::Api, true));
    assert_eq!(failed.message, "HTTP 502: an HTML page: Bad gateway");
    let failed = failure(raw(529, "", "")).await;
    assert_eq!((failed.kind, failed.message.as_str()), (Kind::Overloaded, "HTTP 529: an empty body"));
    let failed = failure(html(413, "<h1>Request Entity Too Large</h1>")).await;
    assert_eq!(failed.kind, Kind::ContextExhausted);
    let huge = "x".repeat(10 << 20);
    assert!(failure(raw(500, "text/plain", huge)).await.message.len() < 2048);
    let moved = failure(raw(307, "", "").header("location", "https://elsewhere.test/v1/messages")).await;
    assert_eq!((moved.kind, retried(&moved)), (Kind::InvalidRequest, false));
    assert!(moved.message.contains("elsewhere.test"), "{}", moved.message);
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_taken_when_it_is_whole() {
    let whole = value!({
        "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    });
    let reply = answer(json(200, &whole)).await.unwrap();
    assert_eq!((texts(&reply), inputs(&reply)), (vec!["Hi"], vec![value!({"command": "ls"})]));
    assert_eq!((reply.usage.input, reply.usage.output), (Tokens(3), Tokens(4)));
    let failed =
        failure(json(200, &value!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}))).await;
    assert_eq!((failed.kind, retried(&failed)), (Kind::Overloaded, true));
    let failed = failure(html(200, "<html>Please log in</html>")).await;
    assert_eq!((failed.kind, retried(&failed)), (Kind::Api, false));
    assert!(failed.message.contains("text/html") && failed.message.contains("Please log in"), "{}", failed.message);
    let failed = failure(json(200, &value!({"content": []}))).await;
    assert!(failed.message.contains("in place of a stream"), "{}", failed.message);
}

#[tokio::test]
async fn a_key_is_never_repeated() {
    let mock = Mock::start(Script::made(|request| {
        let key = request.header("x-api-key").unwrap_or_default();
        let team = request.header("x-team-token").unwrap_or_default();
        status(401, "authentication_error", &format!("{key} and {team} are not known"))
    }));
    let mut setup = Setup::at(mock.url());
    setup.headers.insert("x-team-token".into(), "team-secret-1".into());
    let (failure, _) = setup.talk().call().await.unwrap_err();
    assert_eq!(failure.message, "HTTP 401 authentication_error: [redacted] and [redacted] are not known");
}

#[tokio::test]
async fn connections_that_fail_are_tried_again() {
    let failed = failure(Answer::close()).await;
    assert_eq!((failed.kind, retried(&failed)), (Kind::Stream, true), "{failed:?}");
    let mock = Mock::start(Script::calls([text("Hi.")]));
    let url = mock.url();
    drop(mock);
    let (refused, _) = Setup::at(&url).talk().call().await.unwrap_err();
    assert_eq!((refused.kind, retried(&refused)), (Kind::Stream, true));
    assert!(refused.message.starts_with(&format!("cannot connect to {url}: ")), "{}", refused.message);
}
