//! What was said, read line by line from `transcript.jsonl`: tool calls folded, the middle left out where it is too long.

use super::door::{Html, size};
use super::lanes::seconds;
use super::money;
use crate::report::cut;
use crate::report::json::UsageValue;
use crate::units::{Usage, Usd};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;

/// A conversation while it is read.
#[derive(Debug, Default)]
pub struct Talk {
    max: usize,
    /// When the job began, in seconds since the run did.
    start: f64,
    head: Vec<Html>,
    head_size: usize,
    tail: VecDeque<Html>,
    tail_size: usize,
    left_out: usize,
    left_out_size: usize,
    /// An answer whose calls wait for their results.
    answer: Option<Answer>,
    /// Whether anything of the middle is gone, so that the beginning is closed.
    full: bool,
}

#[derive(Debug)]
struct Answer {
    at: f64,
    agent: Option<u32>,
    said: Html,
    calls: Vec<Call>,
    used: Option<String>,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    subject: String,
    input: Html,
    result: Option<(bool, Html)>,
}

#[derive(Deserialize)]
struct Line {
    kind: String,
    #[serde(default)]
    at: f64,
    agent: Option<u32>,
    #[serde(default)]
    origin: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    blocks: Vec<Block>,
    #[serde(default)]
    system: String,
    #[serde(default)]
    turn: u32,
    #[serde(default)]
    usage: UsageValue,
    #[serde(default)]
    cost_usd: f64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        #[serde(default)]
        name: String,
        input: Option<Value>,
        invalid: Option<Value>,
    },
    ToolResult {
        #[serde(default)]
        id: String,
        #[serde(default)]
        content: String,
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        media: Vec<serde::de::IgnoredAny>,
    },
    #[serde(other)]
    Other,
}

impl Talk {
    /// Below this nothing worth reading fits.
    pub(super) const LEAST: usize = 3_000;

    /// One that takes at most about so many bytes of the page, of a job that began at that second of the run.
    #[must_use]
    pub(super) fn new(max: usize, start: f64) -> Self {
        Self { max, start, ..Self::default() }
    }

    /// The most of one text in it.
    fn part(&self) -> usize {
        (self.max / 6).clamp(300, 6_000)
    }

    /// Takes note of a line. What cannot be read is passed over.
    pub fn apply(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<Line>(line) else { return };
        match line.kind.as_str() {
            "meta" => {
                let mut html = Html::default();
                html.raw("<details class=\"say\"><summary>System prompt</summary>").block(&line.system, self.part());
                html.raw("</details>");
                self.push(html);
            }
            "message" => self.message(line),
            "turn" => self.turn(&line),
            "compaction" => self.mark("The conversation before this was summarised."),
            "resumed" => {
                self.mark("The run was taken up again here; what was said after the last savepoint counts no more.");
            }
            // Savepoints, books and what a later version may add.
            _ => {}
        }
    }

    fn mark(&mut self, words: &'static str) {
        self.flush();
        let mut html = Html::default();
        html.raw("<p class=\"mark\">").raw(words).raw("</p>");
        self.push(html);
    }

    fn turn(&mut self, line: &Line) {
        let usage = Usage::from(line.usage);
        let words = format!(
            "turn {}, {} in ({} % from cache), {} out, {}",
            line.turn,
            usage.prompt(),
            money::cached(&usage).unwrap_or_default(),
            usage.output,
            Usd::from_dollars(line.cost_usd),
        );
        if let Some(answer) = &mut self.answer {
            answer.used = Some(words);
        }
    }

    fn message(&mut self, line: Line) {
        if line.role == "assistant" {
            self.flush();
            self.answer = Some(self.read_answer(line));
            return;
        }
        let mut rest = Vec::new();
        for block in line.blocks {
            match block {
                Block::ToolResult { id, content, is_error, media } => {
                    let mut html = Html::default();
                    html.block(&content, self.part() * 2 / 3);
                    if !media.is_empty() {
                        html.raw("<p class=\"dim\">").show(media.len()).raw(" image(s), not shown here</p>");
                    }
                    let call =
                        self.answer.as_mut().and_then(|answer| answer.calls.iter_mut().find(|call| call.id == id));
                    if let Some(call) = call {
                        call.result = Some((is_error, html));
                    }
                }
                Block::Text { text } => rest.push(text),
                Block::Thinking { .. } | Block::ToolUse { .. } | Block::Other => {}
            }
        }
        if rest.is_empty() {
            return;
        }
        self.flush();
        let text = rest.join("\n\n");
        let mut html = Html::default();
        let long = text.len() > 1_500;
        html.raw(if long { "<details class=\"say\"><summary>" } else { "<div class=\"say\"><p class=\"who\">" });
        html.raw(who(&line.origin)).raw(" <small>").text(&seconds(line.at - self.start)).raw("</small>");
        agent(&mut html, line.agent);
        html.raw(if long { "</summary>" } else { "</p>" }).block(&text, self.part());
        html.raw(if long { "</details>" } else { "</div>" });
        self.push(html);
    }

    fn read_answer(&self, line: Line) -> Answer {
        let mut answer =
            Answer { at: line.at, agent: line.agent, said: Html::default(), calls: Vec::new(), used: None };
        for block in line.blocks {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    answer.said.raw("<div class=\"words\">").block(&text, self.part()).raw("</div>");
                }
                Block::Thinking { text } if !text.trim().is_empty() => {
                    answer.said.raw("<details class=\"think\"><summary>thinking</summary>");
                    answer.said.block(&text, self.part() / 2).raw("</details>");
                }
                Block::ToolUse { id, name, input, invalid } => {
                    let value = input.or(invalid).unwrap_or_default();
                    let mut html = Html::default();
                    arguments(&mut html, &value, self.part() / 2);
                    answer.calls.push(Call { id, name, subject: subject(&value), input: html, result: None });
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::ToolResult { .. } | Block::Other => {}
            }
        }
        answer
    }

    fn flush(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let mut html = Html::default();
        html.raw("<div class=\"say model\"><p class=\"who\">model <small>").text(&seconds(answer.at - self.start));
        if let Some(used) = &answer.used {
            html.raw(" · ").text(used);
        }
        html.raw("</small>");
        agent(&mut html, answer.agent);
        html.raw("</p>").add(&answer.said);
        for call in &answer.calls {
            html.raw("<details class=\"call\"><summary><b>")
                .line(&call.name, 100)
                .raw("</b> <code>")
                .text(&call.subject);
            html.raw("</code>").raw(match &call.result {
                Some((true, _)) => " <span class=\"failed\">✕ error</span>",
                Some((false, _)) => "",
                None => " <span class=\"dim\">no result</span>",
            });
            html.raw("</summary>").add(&call.input);
            if let Some((_, result)) = &call.result {
                html.raw("<p class=\"who\">result</p>").add(result);
            }
            html.raw("</details>");
        }
        html.raw("</div>");
        self.push(html);
    }

    /// A quarter of the room is for the beginning; the end has what it needs of the rest.
    fn push(&mut self, html: Html) {
        let size = html.len();
        if !self.full && self.head_size + size <= self.max / 4 {
            self.head_size += size;
            self.head.push(html);
            return;
        }
        self.full = true;
        self.tail_size += size;
        self.tail.push_back(html);
        while self.tail_size > self.max - self.head_size.min(self.max) && self.tail.len() > 1 {
            let gone = self.tail.pop_front().map_or(0, |html| html.len());
            self.tail_size -= gone;
            self.left_out += 1;
            self.left_out_size += gone;
        }
    }

    /// What was said; nothing where there is nothing.
    pub(super) fn draw(mut self, html: &mut Html, open: bool) {
        self.flush();
        if self.head.is_empty() && self.tail.is_empty() {
            return;
        }
        html.raw(if open { "<details open class=\"talk\">" } else { "<details class=\"talk\">" });
        html.raw("<summary><h3>Transcript</h3></summary>");
        for part in &self.head {
            html.add(part);
        }
        if self.left_out > 0 {
            html.raw("<p class=\"cut\">").show(self.left_out).raw(" entries (").text(&size(self.left_out_size));
            html.raw(") are left out here; the transcript has them.</p>");
        }
        for part in &self.tail {
            html.add(part);
        }
        html.raw("</details>");
    }
}

fn agent(html: &mut Html, agent: Option<u32>) {
    if let Some(number) = agent {
        html.raw(" <small class=\"flag\">sub-agent ").show(number).raw("</small>");
    }
}

fn who(origin: &str) -> &'static str {
    match origin {
        "prompt" => "prompt",
        "gate" => "gates",
        "budget" => "budget",
        "command" => "background command",
        "summary" => "summary",
        "digest" => "digest",
        "recovery" => "recovery",
        "interruption" => "interruption",
        origin if origin.starts_with("follow_up") => "follow-up",
        _ => "user",
    }
}

/// What a call is about, in one line.
fn subject(input: &Value) -> String {
    const KEYS: [&str; 8] = ["command", "file_path", "pattern", "path", "description", "task_id", "query", "url"];
    let named = KEYS.iter().find_map(|key| input.get(key).and_then(Value::as_str));
    let first = || input.as_object().and_then(|map| map.values().find_map(Value::as_str));
    cut::one_line(named.or_else(first).unwrap_or_default(), 160)
}

/// The arguments of a call, a block each; those of an edit as what goes and what comes.
fn arguments(html: &mut Html, input: &Value, max: usize) {
    let Some(map) = input.as_object() else {
        if !input.is_null() {
            html.block(&input.to_string(), max);
        }
        return;
    };
    html.raw("<dl class=\"args\">");
    for (shown, (key, value)) in map.iter().enumerate() {
        if shown == 20 {
            html.raw("<dt class=\"cut\">").show(map.len() - shown).raw(" more are left out here</dt>");
            break;
        }
        html.raw("<dt>").line(key, 100).raw("</dt><dd");
        html.raw(match key.as_str() {
            "old_string" => " class=\"old\">",
            "new_string" => " class=\"new\">",
            _ => ">",
        });
        match value {
            Value::String(text) => html.block(text, max),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                html.block(&value.to_string(), max)
            }
        };
        html.raw("</dd>");
    }
    html.raw("</dl>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn html(max: usize, lines: &[Value]) -> String {
        let mut talk = Talk::new(max, 0.0);
        for line in lines {
            talk.apply(&line.to_string());
        }
        let mut html = Html::default();
        talk.draw(&mut html, false);
        html.into_string()
    }

    fn said(blocks: &Value) -> Value {
        json!({"kind": "message", "at": 1.0, "id": 1, "role": "assistant", "origin": "model", "blocks": blocks})
    }

    fn told(origin: &str, blocks: &Value) -> Value {
        json!({"kind": "message", "at": 2.0, "id": 2, "role": "user", "origin": origin, "blocks": blocks})
    }

    #[test]
    fn a_call_is_folded_with_its_result() {
        let text = html(
            50_000,
            &[
                json!({"kind": "meta", "schema": 1, "system": "You <fix> things."}),
                told("prompt", &json!([{"type": "text", "text": "Fix it."}])),
                said(
                    &json!([{"type": "text", "text": "Look:"}, {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "a.rs", "old_string": "<a>", "new_string": "b"}}]),
                ),
                json!({"kind": "turn", "at": 1.5, "turn": 1, "usage": {"input_tokens": 100, "cache_read_tokens": 900, "cache_write_tokens": 0, "output_tokens": 7}, "cost_usd": 0.5}),
                told(
                    "tool_results",
                    &json!([{"type": "tool_result", "id": "t1", "content": "no match", "is_error": true, "media": [{"data": "AAAA"}]}]),
                ),
                json!({"kind": "savepoint", "saved": {}}),
                said(&json!([{"type": "opaque", "value": 1}, {"type": "unheard_of"}])),
            ],
        );
        assert!(
            text.contains("<summary><b>Edit</b> <code>a.rs</code> <span class=\"failed\">✕ error</span></summary>"),
            "{text}"
        );
        assert!(text.contains("<dt>old_string</dt><dd class=\"old\"><pre>&lt;a&gt;</pre>"), "{text}");
        assert!(text.contains("turn 1, 1.0k in (90 % from cache), 7 out, $0.5000"), "{text}");
        assert!(text.contains("no match") && text.contains("1 image(s)") && text.contains("You &lt;fix&gt;"), "{text}");
    }

    #[test]
    fn the_beginning_and_the_end_of_a_long_one_stay() {
        let mut lines = vec![told("prompt", &json!([{"type": "text", "text": "the very first"}]))];
        for n in 0..500 {
            lines.push(said(&json!([{"type": "text", "text": format!("answer {n} {}", "words ".repeat(2_000))}])));
        }
        for max in [Talk::LEAST, 20_000, 120_000] {
            let text = html(max, &lines);
            assert!(text.len() < max + 4_000, "{max}: {}", text.len());
            assert!(
                text.contains("the very first") && text.contains("answer 499") && text.contains("entries ("),
                "{max}"
            );
        }
        assert_eq!(html(1_000, &[]), "");
    }
}
