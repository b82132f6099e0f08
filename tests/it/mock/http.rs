//! HTTP/1.1, as much of it as a test server needs, with every byte in our hands.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Counts the requests of the server from 1.
    pub(crate) number: usize,
    /// Counts its connections from 1.
    pub(crate) connection: usize,
    /// Since the server began.
    pub(crate) at: Duration,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) bytes: Vec<u8>,
    /// Null when the bytes are no JSON.
    pub(crate) body: Value,
}

impl Request {
    /// Reads a request; `None` at the end of the connection.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let end = loop {
            if let Some(end) = find(buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        };
        let head: Vec<u8> = buffer.drain(..end).collect();
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.split("\r\n");
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while buffer.len() < length {
            if stream.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        }
        let bytes: Vec<u8> = buffer.drain(..length).collect();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Some(Self { number: 0, connection: 0, at: Duration::ZERO, path, headers, bytes, body }))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Which model is asked.
    pub(crate) fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The messages of the conversation.
    pub(crate) fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The turn that it asks for, from 1.
    pub(crate) fn turn(&self) -> usize {
        1 + self.messages().iter().filter(|message| message["role"] == "assistant").count()
    }

    /// The text of the first message.
    pub(crate) fn first_text(&self) -> String {
        self.messages().first().map(text_of).unwrap_or_default()
    }

    /// The text of the last message, without its tool results.
    pub(crate) fn last_text(&self) -> String {
        self.messages().last().map(text_of).unwrap_or_default()
    }

    /// The tool results of the last message: id, content, whether it is an error.
    pub(crate) fn results(&self) -> Vec<(String, String, bool)> {
        let blocks = self.messages().last().and_then(|message| message["content"].as_array());
        let results = blocks.into_iter().flatten().filter(|block| block["type"] == "tool_result");
        results
            .map(|block| {
                let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                let content = if block["content"].is_array() { text_of(block) } else { text("content") };
                (text("tool_use_id"), content, block["is_error"] == true)
            })
            .collect()
    }
}

fn text_of(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// The head of an answer. Without a length the body comes in chunks.
pub(super) fn head(status: u16, content_type: &str, headers: &[(String, String)], length: Option<usize>) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Because\r\n");
    if !content_type.is_empty() {
        head.extend(["content-type: ", content_type, "\r\n"]);
    }
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    match length {
        Some(length) => head.extend(["content-length: ", &length.to_string(), "\r\n\r\n"]),
        None => head.push_str("transfer-encoding: chunked\r\n\r\n"),
    }
    head.into_bytes()
}

/// A piece of a body that comes in chunks.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
