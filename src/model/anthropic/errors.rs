//! What went wrong with a call, and whether another try can help: statuses, error types and texts folded into a
//! [`Failure`]. Pure.

use super::refusals;
use crate::clean::clean;
use crate::model::Headers;
use crate::model::retry_after::retry_after;
use crate::model::sse::TooLarge;
use crate::outcome::ModelErrorKind as Kind;
use crate::query::{Failure, Remedy};
use serde_json::Value;

/// The longest message that a failure carries, in bytes.
const MESSAGE_CAP: usize = 2048;
/// How much of a body that is no JSON is shown, in bytes.
const EXCERPT_CAP: usize = 300;

const RETRY: Remedy = Remedy::Retry { after: None };
const SHRINK: (Kind, Remedy) = (Kind::ContextExhausted, Remedy::Shrink);

/// An answer with an error status, or one that is no stream.
pub(in crate::model) fn of_response(status: u16, headers: &Headers, body: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(body);
    let told = Told::read(&text);
    let words = if told.message.is_empty() { &*text } else { &told.message };
    let (mut kind, mut remedy) = classify(Some(status), &told, words);
    let wish = headers.get("x-should-retry").map(String::as_str);
    if status == 400 && text.trim().is_empty() && wish != Some("true") {
        (kind, remedy) = SHRINK; // Some servers say no more when the prompt is too long.
    }
    // The server's own word about the same request outranks the table, but no second try pays a bill or mends a key. With
    // another request it has nothing to do.
    match (wish, kind, remedy) {
        (Some("true"), kind, Remedy::GiveUp) if !matches!(kind, Kind::Auth | Kind::Billing) => remedy = RETRY,
        (Some("false"), _, Remedy::Retry { .. }) => remedy = Remedy::GiveUp,
        _ => {}
    }
    if let Remedy::Retry { after } = &mut remedy {
        *after = retry_after(headers);
    }
    let what = match (status, told.kind.as_str()) {
        (_, "") => format!("HTTP {status}"),
        (status, kind) => format!("HTTP {status} {kind}"),
    };
    let said = match (told.message.is_empty(), headers.get("location")) {
        (_, Some(place)) if (300..400).contains(&status) => {
            format!("the server points to {place}; set base_url to where the API is")
        }
        (true, _) => excerpt(headers, &text),
        (false, _) => told.message,
    };
    let hint = if status == 404 && told.kind.is_empty() { " (is base_url right?)" } else { "" };
    Failure {
        remedy,
        kind,
        message: worded(&format!("{what}: {said}{hint}")),
        request_id: headers.get("request-id").or_else(|| headers.get("x-request-id")).cloned().or(told.request_id),
        status: Some(status),
    }
}

/// An `error` event in a stream, or an error body under a good status: counts as the HTTP status of its type.
pub(in crate::model) fn of_event(value: &Value) -> Failure {
    let told = Told::from_value(value);
    let (kind, remedy) = classify(None, &told, &told.message);
    let name = if told.kind.is_empty() { "error" } else { &told.kind };
    let message = worded(&format!("{name} after HTTP 200: {}", told.message));
    Failure { remedy, kind, message, request_id: told.request_id, status: None }
}

/// The stream ended before its message did.
pub(in crate::model) fn cut_short(began: bool, request_id: Option<String>) -> Failure {
    let when = if began { "in the middle of the answer" } else { "before the answer began" };
    let message = format!("the stream ended {when}: it had no message_stop");
    Failure { request_id, ..stream(message) }
}

/// An event that should be JSON and is not.
pub(in crate::model) fn broken_event(event: &str, data: &str, error: &serde_json::Error) -> Failure {
    stream(format!("the stream had an event ({event}) that is not JSON: {error}: {}", start_of(data)))
}

/// An event that is too large to be one.
pub(in crate::model) fn too_large(error: TooLarge) -> Failure {
    stream(error.to_string())
}

/// A fault of the connection or the stream that another try may not meet.
pub(in crate::model) fn stream(message: impl AsRef<str>) -> Failure {
    Failure { remedy: RETRY, kind: Kind::Stream, message: worded(message.as_ref()), request_id: None, status: None }
}

/// An answer with status 200 that is neither a stream nor a message.
pub(in crate::model) fn not_a_stream(status: u16, headers: &Headers, body: &[u8]) -> Failure {
    let kind = headers.get("content-type").map_or("no content type", String::as_str);
    let shown = excerpt(headers, &String::from_utf8_lossy(body));
    Failure {
        remedy: Remedy::GiveUp,
        kind: Kind::Api,
        message: worded(&format!("HTTP {status} with {kind} in place of a stream of events: {shown}")),
        request_id: headers.get("request-id").cloned(),
        status: Some(status),
    }
}

/// What an error body says.
#[derive(Debug, Default)]
struct Told {
    kind: String,
    code: String,
    message: String,
    request_id: Option<String>,
}

impl Told {
    fn read(text: &str) -> Self {
        serde_json::from_str(text).map(|value| Self::from_value(&value)).unwrap_or_default()
    }

    /// Anthropic's shape, and those that gateways put in its place.
    fn from_value(value: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let error = value.get("error");
        let inner = error.filter(|error| error.is_object()).unwrap_or(value);
        let first = |names: &[&str]| {
            names.iter().map(|name| text(inner.get(*name))).find(|text| !text.trim().is_empty()).unwrap_or_default()
        };
        let kind = first(&["type"]);
        Self {
            kind: if kind == "error" { String::new() } else { kind },
            code: text(inner.get("details").and_then(|details| details.get("error_code"))) + &text(inner.get("code")),
            message: match error {
                Some(Value::String(message)) => message.clone(),
                _ => first(&["message", "detail", "error"]),
            },
            request_id: value.get("request_id").and_then(Value::as_str).map(ToOwned::to_owned),
        }
    }
}

/// The table of the API's errors. A known type outranks the status that carried it. The words are the message, or what
/// came in its place.
fn classify(status: Option<u16>, told: &Told, words: &str) -> (Kind, Remedy) {
    let message = words.to_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    let overflow = told.kind == "exceed_context_size_error" || told.code.contains("context_length_exceeded");
    let busy = matches!(told.kind.as_str(), "rate_limit_error" | "overloaded_error");
    let about_request = overflow || (!busy && matches!(status, None | Some(400 | 413 | 422)));
    if let Some(cure) = refusals::cure(&message).filter(|_| about_request) {
        return cure;
    }
    // 413 comes from the edge, where the body may be anything.
    if overflow || status == Some(413) || told.kind == "request_too_large" {
        return SHRINK;
    }
    let spent = told.code.contains("enforced_spend_limit_reached")
        || told.code.contains("insufficient_quota")
        || says(&["api usage limits", "spend limit", "spending limit", "credit balance is too low"]);
    if told.kind == "billing_error" || status == Some(402) || (spent && !matches!(status, Some(500..))) {
        return (Kind::Billing, Remedy::GiveUp);
    }
    match told.kind.as_str() {
        "authentication_error" | "permission_error" => return (Kind::Auth, Remedy::GiveUp),
        "not_found_error" => return (Kind::ModelNotFound, Remedy::GiveUp),
        "rate_limit_error" => return (Kind::RateLimited, RETRY),
        "overloaded_error" => return (Kind::Overloaded, RETRY),
        "api_error" | "timeout_error" | "conflict_error" if status.is_none() => return (Kind::Api, RETRY),
        "invalid_request_error" if status.is_none() => return (Kind::InvalidRequest, Remedy::GiveUp),
        _ => {}
    }
    match status {
        // None: an error event of a type that we do not know.
        None | Some(408 | 409 | 425 | 500..=502 | 504..=528 | 530..) => (Kind::Api, RETRY),
        Some(401 | 403) => (Kind::Auth, Remedy::GiveUp),
        Some(404) => (Kind::ModelNotFound, Remedy::GiveUp),
        Some(429) => (Kind::RateLimited, RETRY),
        Some(503 | 529) => (Kind::Overloaded, RETRY),
        Some(_) => (Kind::InvalidRequest, Remedy::GiveUp),
    }
}

/// The start of a body that says nothing in a form that we know.
fn excerpt(headers: &Headers, body: &str) -> String {
    let html = headers.get("content-type").is_some_and(|kind| kind.contains("html"));
    let text = body.trim_start();
    if text.is_empty() {
        return "an empty body".to_owned();
    }
    if html || text.starts_with('<') {
        return format!("an HTML page: {}", start_of(&without_tags(text)));
    }
    start_of(text)
}

/// The text of a page, roughly: for a report, not for a browser.
fn without_tags(html: &str) -> String {
    let mut rest = html;
    let mut text = String::new();
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        text.push(' ');
        let hidden = ["style", "script"]
            .into_iter()
            .find(|name| tag.get(..name.len()).is_some_and(|t| t.eq_ignore_ascii_case(name)));
        let end = hidden.map_or(Some(0), |name| tag.find(&format!("</{name}")));
        rest = end.and_then(|end| tag.get(end..)).unwrap_or_default().split_once('>').map_or("", |(_, after)| after);
    }
    text + rest
}

fn start_of(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().find(|(at, c)| at + c.len_utf8() > EXCERPT_CAP) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Fit for a report: one line, no control characters, bounded.
fn worded(text: &str) -> String {
    const ELLIPSIS: char = '…';
    let mut text = one_line(text);
    if text.len() > MESSAGE_CAP {
        let mut end = MESSAGE_CAP - ELLIPSIS.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push(ELLIPSIS);
    }
    text
}

fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn of(status: u16, kind: &str, message: &str) -> (Kind, bool) {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_b"});
        let failure = of_response(status, &Headers::new(), body.to_string().as_bytes());
        assert_eq!((failure.status, failure.request_id.as_deref()), (Some(status), Some("req_b")));
        (failure.kind, matches!(failure.remedy, Remedy::Retry { .. }))
    }

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_table_of_the_api() {
        assert_eq!(of(400, "invalid_request_error", "max_tokens: required"), (Kind::InvalidRequest, false));
        assert_eq!(of(401, "authentication_error", "invalid x-api-key"), (Kind::Auth, false));
        assert_eq!(of(402, "billing_error", "no"), (Kind::Billing, false));
        assert_eq!(of(403, "permission_error", "no"), (Kind::Auth, false));
        assert_eq!(of(404, "not_found_error", "model: claude-9"), (Kind::ModelNotFound, false));
        assert_eq!(of(408, "", "x"), (Kind::Api, true));
        assert_eq!(of(409, "conflict_error", "x"), (Kind::Api, true));
        assert_eq!(of(413, "request_too_large", "Request exceeds the maximum size"), (Kind::ContextExhausted, false));
        assert_eq!(of(422, "", "x"), (Kind::InvalidRequest, false));
        assert_eq!(of(429, "rate_limit_error", "slow down"), (Kind::RateLimited, true));
        assert_eq!(of(500, "api_error", "x"), (Kind::Api, true));
        assert_eq!(of(502, "", "x"), (Kind::Api, true));
        assert_eq!(of(503, "", "x"), (Kind::Overloaded, true));
        assert_eq!(of(504, "timeout_error", "x"), (Kind::Api, true));
        assert_eq!(of(520, "", "x"), (Kind::Api, true));
        assert_eq!(of(529, "overloaded_error", "Overloaded"), (Kind::Overloaded, true));
        assert_eq!(of(500, "overloaded_error", "Overloaded"), (Kind::Overloaded, true));
    }

    #[test]
    fn a_spent_balance_is_never_tried_again() {
        assert_eq!(
            of(
                400,
                "invalid_request_error",
                "You have reached your specified API usage limits. You will regain access on 2026-12-01."
            ),
            (Kind::Billing, false)
        );
        assert_eq!(
            of(400, "invalid_request_error", "Your credit balance is too low to access the API."),
            (Kind::Billing, false)
        );
        let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "limit", "details": {"error_code": "enforced_spend_limit_reached"}}});
        let failure = of_response(429, &headers(&[("x-should-retry", "true")]), body.to_string().as_bytes());
        assert_eq!((failure.kind, failure.remedy), (Kind::Billing, Remedy::GiveUp));
        let failure = of_response(401, &headers(&[("x-should-retry", "true")]), b"");
        assert_eq!((failure.kind, failure.remedy), (Kind::Auth, Remedy::GiveUp));
    }

    #[test]
    fn a_refused_request_says_how_it_is_cured() {
        let remedy = |status: u16, body: &str, pairs: &[(&str, &str)]| {
            let failure = of_response(status, &headers(pairs), body.as_bytes());
            (failure.kind, failure.remedy)
        };
        let saying = |message: &str| {
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).to_string()
        };
        let long = saying("prompt is too long: 211180 tokens > 200000 maximum");
        let image = saying("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes");
        let thinking = saying("messages.1.content.0: Invalid `signature` in `thinking` block.");
        for pairs in [&[][..], &[("x-should-retry", "false")], &[("x-should-retry", "true")]] {
            assert_eq!(remedy(400, &long, pairs), SHRINK, "{pairs:?}: sent again as it is, it fits no better");
            assert_eq!(remedy(400, &image, pairs), (Kind::Media, Remedy::StripMedia));
            assert_eq!(remedy(400, &thinking, pairs), (Kind::InvalidRequest, Remedy::StripThinking));
            assert_eq!(remedy(413, "<html>413</html>", pairs), SHRINK);
        }
        assert_eq!(remedy(400, " \n", &[]), SHRINK);
        assert_eq!(remedy(413, "", &[]), SHRINK);
        assert_eq!(remedy(400, "Input is too long for requested model.", &[]), SHRINK, "no JSON");
        assert_eq!(remedy(400, r#"{"errors":[{"text":"prompt too long"}]}"#, &[]), SHRINK, "a shape that nobody knows");
        assert_eq!(remedy(400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, &[]), SHRINK);
        assert_eq!(remedy(500, r#"{"error":{"type":"exceed_context_size_error"}}"#, &[]), SHRINK);
        assert_eq!(remedy(200, "", &[]).1, Remedy::GiveUp);
        let hurried = saying("Too many requests: reduce the length of the messages");
        assert_eq!(remedy(400, &hurried, &[]), (Kind::InvalidRequest, Remedy::GiveUp));
        let event = of_event(&serde_json::from_str(&image).unwrap());
        assert_eq!((event.kind, event.remedy), (Kind::Media, Remedy::StripMedia));
        assert_eq!(of(429, "rate_limit_error", "prompt is too long for this minute"), (Kind::RateLimited, true));
        assert_eq!(of(500, "api_error", "the input is too long a story"), (Kind::Api, true));
    }

    #[test]
    fn b043_html_and_empty_bodies_are_described() {
        let page = b"<html><head><title>413 Request Entity Too Large</title><style>b { color: red }</style></head>\r\n<body>nginx</body></html>";
        let failure = of_response(413, &headers(&[("content-type", "text/html")]), page);
        assert_eq!(failure.kind, Kind::ContextExhausted);
        assert_eq!(failure.message, "HTTP 413: an HTML page: 413 Request Entity Too Large nginx");
        assert_eq!(of_response(529, &Headers::new(), b"").message, "HTTP 529: an empty body");
        assert_eq!(
            of_response(404, &Headers::new(), b"no such page").message,
            "HTTP 404: no such page (is base_url right?)"
        );
        let moved = of_response(301, &headers(&[("location", "https://x.test/")]), b"");
        assert_eq!((moved.kind, moved.remedy), (Kind::InvalidRequest, Remedy::GiveUp));
        assert!(moved.message.contains("https://x.test/"));
        assert_eq!(
            of_response(500, &Headers::new(), br#"{"error":"model crashed"}"#).message,
            "HTTP 500: model crashed"
        );
        assert_eq!(of_response(422, &Headers::new(), br#"{"detail":"bad field"}"#).message, "HTTP 422: bad field");
    }

    #[test]
    fn b064_headers_say_whether_and_when() {
        let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}).to_string();
        let failure = of_response(429, &headers(&[("retry-after", "3600"), ("request-id", "req_h")]), body.as_bytes());
        assert_eq!(failure.remedy, Remedy::Retry { after: Some(Duration::from_hours(1)) });
        assert_eq!(failure.request_id.as_deref(), Some("req_h"));
        assert_eq!(of_response(429, &headers(&[("x-should-retry", "false")]), body.as_bytes()).remedy, Remedy::GiveUp);
        assert_eq!(of_response(400, &headers(&[("x-should-retry", "true")]), b"").remedy, RETRY);
    }

    #[test]
    fn b052_an_error_event_counts_as_its_status() {
        let event = |kind: &str, message: &str| {
            let failure =
                of_event(&json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}));
            assert_eq!(failure.request_id.as_deref(), Some("r"));
            (failure.kind, matches!(failure.remedy, Remedy::Retry { .. }))
        };
        assert_eq!(event("overloaded_error", "Overloaded"), (Kind::Overloaded, true));
        assert_eq!(event("api_error", "x"), (Kind::Api, true));
        assert_eq!(event("rate_limit_error", "x"), (Kind::RateLimited, true));
        assert_eq!(event("invalid_request_error", "x"), (Kind::InvalidRequest, false));
        assert_eq!(event("invalid_request_error", "prompt is too long: 1 > 0"), (Kind::ContextExhausted, false));
        assert_eq!(event("rate_limit_error", "prompt is too long for this minute"), (Kind::RateLimited, true));
        assert_eq!(event("authentication_error", "x"), (Kind::Auth, false));
        assert_eq!(event("billing_error", "x"), (Kind::Billing, false));
        assert_eq!(event("new_error", "x"), (Kind::Api, true));
        assert_eq!(of_event(&json!({"type": "error"})).kind, Kind::Api);
    }

    #[test]
    fn messages_are_clean_and_bounded() {
        let long = format!("a\u{1b}[31mred\u{1b}[0m\n\0{}", "é".repeat(5000));
        let body = json!({"error": {"type": "api_error", "message": long}}).to_string();
        let message = of_response(500, &Headers::new(), body.as_bytes()).message;
        assert!(message.starts_with("HTTP 500 api_error: ared é"), "{message}");
        assert!(message.len() <= MESSAGE_CAP && message.ends_with('…'));
    }
}
