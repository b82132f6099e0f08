//! A recorded conversation: JSON lines, a header and then the responses in order.
//!
//! A response may say what the request that it answers must hold (`expect`), so that a replay that has drifted from its
//! recording says so, in place of going on with answers to other questions.

use super::Headers;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A cassette that was read and checked.
#[derive(Debug)]
pub(super) struct Cassette {
    pub(super) path: PathBuf,
    pub(super) responses: Vec<Response>,
}

/// One response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) expect: Option<Expect>,
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) content: Content,
}

/// What the response brings.
#[derive(Debug)]
pub(super) enum Content {
    /// A whole message.
    Message(Value),
    /// An error: under its status, or, with status 200, in the stream.
    Error(Value),
    /// The bytes of a stream.
    Sse(String),
}

/// What the newest user messages of the request must hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// All tool results, no more and no fewer.
    #[serde(default)]
    pub(super) tool_results: Vec<ExpectedResult>,
    /// Text that must occur.
    #[serde(default)]
    pub(super) text: Vec<String>,
}

/// A tool result that must be there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedResult {
    pub(super) id: String,
    #[serde(default)]
    pub(super) is_error: bool,
    /// Text that must occur in it.
    #[serde(default)]
    pub(super) contains: Vec<String>,
}

/// The first line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    cassette: u32,
    provider: String,
    #[serde(rename = "model", default)]
    _model: String,
    #[serde(rename = "note", default)]
    _note: String,
}

/// A line after the first, as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    expect: Option<Expect>,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: Headers,
    message: Option<Value>,
    error: Option<Value>,
    sse: Option<String>,
}

const fn ok() -> u16 {
    200
}

/// The format that is read here.
const VERSION: u32 = 1;

impl Cassette {
    /// Reads a cassette.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(path, &text)
    }

    /// Reads the text of a cassette; blank lines count for nothing.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let at = |number: usize, problem: &str| format!("{}:{number}: {problem}", path.display());
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines =
            text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim().is_empty());
        let (number, header) = lines.next().ok_or_else(|| at(1, "the cassette is empty"))?;
        let header: Header = serde_json::from_str(header).map_err(|error| at(number, &in_line(&error)))?;
        if header.cassette != VERSION {
            return Err(at(number, &format!("cassette version {} is not known, only {VERSION}", header.cassette)));
        }
        if header.provider != "anthropic" {
            return Err(at(number, &format!("provider {:?} is not known, only \"anthropic\"", header.provider)));
        }
        let responses = lines.map(|(number, line)| {
            let line: Line = serde_json::from_str(line).map_err(|error| at(number, &in_line(&error)))?;
            line.check().map_err(|problem| at(number, &problem))
        });
        Ok(Self { path: path.to_owned(), responses: responses.collect::<Result<_, _>>()? })
    }
}

impl Line {
    fn check(self) -> Result<Response, String> {
        let content = match (self.message, self.error, self.sse) {
            (Some(message), None, None) => Content::Message(check_message(message)?),
            (None, Some(error), None) => {
                let kind = error.get("type").and_then(Value::as_str);
                kind.ok_or("the error has no type")?;
                Content::Error(error)
            }
            (None, None, Some(sse)) => Content::Sse(sse),
            _ => return Err("a response has one of message, error and sse".into()),
        };
        if self.status != 200 && !matches!(content, Content::Error(_)) {
            return Err(format!("a response with status {} is an error", self.status));
        }
        let headers = self.headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        Ok(Response { expect: self.expect, status: self.status, headers, content })
    }
}

fn check_message(message: Value) -> Result<Value, String> {
    let blocks = message.get("content").and_then(Value::as_array).ok_or("the message has no content array")?;
    for (index, block) in blocks.iter().enumerate() {
        let has = |name: &str| block.get(name).is_some_and(Value::is_string);
        let fault = match block.get("type").and_then(Value::as_str) {
            None => Some("no type"),
            Some("text") if !has("text") => Some("no text"),
            Some("tool_use") if !has("id") || !has("name") => Some("no id or no name"),
            Some("tool_use") if !block.get("input").is_some_and(Value::is_object) => Some("no input object"),
            Some(_) => None,
        };
        if let Some(fault) = fault {
            return Err(format!("block {index} of the message has {fault}"));
        }
    }
    if !message.get("stop_reason").is_some_and(Value::is_string) {
        return Err("the message has no stop_reason".into());
    }
    Ok(message)
}

/// The reader's words without its line number, which is always 1.
fn in_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"cassette":1,"provider":"anthropic","model":"claude-x","note":"n"}"#;
    const MESSAGE: &str = r#"{"message":{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}}"#;

    fn problem(lines: &[&str]) -> String {
        Cassette::parse(Path::new("x.jsonl"), &lines.join("\n")).map(|_| ()).unwrap_err()
    }

    #[test]
    fn a_cassette_is_read_line_by_line() {
        let error = r#"{"status":529,"headers":{"Request-Id":"r"},"error":{"type":"overloaded_error","message":"m"}}"#;
        let text = [HEADER, "", MESSAGE, error, r#"{"expect":{"text":["x"]},"sse":"data: {}\n\n"}"#].join("\r\n");
        let cassette = Cassette::parse(Path::new("x"), &text).unwrap();
        assert_eq!(cassette.responses.len(), 3);
        assert_eq!(cassette.responses[1].headers["request-id"], "r");
        assert!(cassette.responses[0].expect.is_none() && cassette.responses[2].expect.is_some());
    }

    #[test]
    fn faults_name_file_and_line() {
        assert_eq!(problem(&[]), "x.jsonl:1: the cassette is empty");
        assert_eq!(
            problem(&[r#"{"cassette":2,"provider":"anthropic"}"#]),
            "x.jsonl:1: cassette version 2 is not known, only 1"
        );
        assert_eq!(
            problem(&[r#"{"cassette":1,"provider":"other"}"#]),
            "x.jsonl:1: provider \"other\" is not known, only \"anthropic\""
        );
        assert_eq!(problem(&[HEADER, MESSAGE, "", "{}"]), "x.jsonl:4: a response has one of message, error and sse");
        assert!(problem(&[HEADER, "{\"message\":"]).starts_with("x.jsonl:2: EOF while parsing a value at column 11"));
        assert!(problem(&[HEADER, r#"{"mesage":{}}"#]).starts_with("x.jsonl:2: unknown field `mesage`"));
        assert_eq!(problem(&[HEADER, r#"{"message":{}}"#]), "x.jsonl:2: the message has no content array");
        assert_eq!(
            problem(&[
                HEADER,
                r#"{"message":{"content":[{"type":"tool_use","id":"a","name":"b"}],"stop_reason":"x"}}"#
            ]),
            "x.jsonl:2: block 0 of the message has no input object"
        );
        assert_eq!(problem(&[HEADER, r#"{"message":{"content":[]}}"#]), "x.jsonl:2: the message has no stop_reason");
        assert_eq!(
            problem(&[HEADER, r#"{"status":500,"sse":"x"}"#]),
            "x.jsonl:2: a response with status 500 is an error"
        );
        assert_eq!(problem(&[HEADER, r#"{"error":{}}"#]), "x.jsonl:2: the error has no type");
    }
}
