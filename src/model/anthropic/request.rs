//! A request body: the fixed head of the conversation and the joined bytes of its messages.

use super::encoded::Encoded;
use super::extras::Extras;
use super::joined::Joined;
use super::turns::{Mark, Turn, turns};
use crate::plan::{ModelPlan, Thinking};
use crate::query::{ModelCall, ToolDefinition};
use crate::units::Tokens;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// Makes the bodies of one conversation's requests.
#[derive(Debug)]
pub(in crate::model) struct Requests {
    /// The body up to the fields that change from call to call. Always the same bytes: the provider's cache and signed
    /// thinking both depend on it.
    head: Bytes,
    thinking: Option<Thinking>,
    encoded: Encoded,
    joined: Joined,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemBlock<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

/// The least thinking budget that the API takes, in tokens.
const LEAST_BUDGET: u64 = 1024;

impl Requests {
    /// For a conversation with this system prompt (may be blank) and these tools.
    pub(in crate::model) fn new(
        plan: &ModelPlan,
        system: &str,
        tools: &[ToolDefinition],
    ) -> Result<Self, serde_json::Error> {
        let last = tools.len().saturating_sub(1);
        let system = if system.trim().is_empty() {
            Vec::new()
        } else {
            vec![SystemBlock { kind: "text", text: system, cache_control: EPHEMERAL }]
        };
        let tools = tools
            .iter()
            .enumerate()
            .map(|(index, tool)| Tool {
                name: tool.name,
                description: tool.description,
                input_schema: &tool.input_schema,
                cache_control: (index == last).then_some(EPHEMERAL),
            })
            .collect();
        let mut head = serde_json::to_vec(&Head { model: &plan.name, stream: true, system, tools })?;
        head.pop(); // The closing brace: more fields follow.
        Ok(Self { head: head.into(), thinking: plan.thinking, encoded: Encoded::default(), joined: Joined::default() })
    }

    /// The body of one call, with these extras.
    pub(in crate::model) fn body(&self, call: &ModelCall, extras: Extras) -> Result<Vec<u8>, serde_json::Error> {
        let mut prefix = self.joined.take(&call.history);
        let newer = call.history.iter().skip(prefix.len());
        let turns = turns(self.encoded.of(newer, prefix.bytes.len())?);
        let messages: usize = turns.iter().map(Turn::len).sum();
        let mut body = Vec::with_capacity(self.head.len() + prefix.bytes.len() + messages + 1024);
        body.extend_from_slice(&self.head);
        body.extend_from_slice(format!(",\"max_tokens\":{}", call.max_output.0).as_bytes());
        if let Some(thinking) = self.thinking {
            body.extend_from_slice(thinking_field(thinking, call).as_bytes());
        }
        body.extend_from_slice(extras.fields().as_bytes());
        body.extend_from_slice(b",\"messages\":[");
        // Marks: the newest user message is written to the cache, the one before it is read from it.
        let marked: Vec<usize> =
            (0..turns.len()).rev().filter(|at| turns.get(*at).is_some_and(Turn::is_user)).take(2).collect();
        body.extend_from_slice(&prefix.bytes);
        for (index, turn) in turns.iter().enumerate() {
            if index > 0 || !prefix.bytes.is_empty() {
                body.push(b',');
            }
            turn.write(&mut body, if marked.contains(&index) { Mark::Last } else { Mark::None });
        }
        body.extend_from_slice(b"]}");
        prefix.extend(&call.history, &turns);
        self.joined.put(prefix);
        Ok(body)
    }
}

/// The `thinking` field. A budget must be less than the output cap, which a nearly spent token budget may have lowered:
/// it then shrinks to half the cap, and where even the least budget does not fit, thinking is off for that call. So it is in
/// a conversation whose thinking was taken out: models that think within a budget insist on theirs before their calls.
fn thinking_field(thinking: Thinking, call: &ModelCall) -> String {
    let cap = call.max_output.0;
    match thinking {
        Thinking::Adaptive => r#","thinking":{"type":"adaptive"}"#.to_owned(),
        Thinking::Budget(Tokens(budget)) if cap > LEAST_BUDGET && !call.thinking_stripped => {
            let budget = if budget < cap { budget } else { (cap / 2).max(LEAST_BUDGET) };
            format!(r#","thinking":{{"type":"enabled","budget_tokens":{budget}}}"#)
        }
        Thinking::Off | Thinking::Budget(_) => r#","thinking":{"type":"disabled"}"#.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::MARK;
    use super::super::extras::Refused;
    use super::*;
    use crate::plan::Provider;
    use crate::query::{Block, Clearing, History, Message, Origin, Role, TaskBudget, ToolInput, ToolResult, ToolUse};
    use serde_json::json;
    use std::sync::Arc;

    fn plan(thinking: Option<Thinking>) -> ModelPlan {
        ModelPlan {
            binds_thinking: false,
            fallback: None,
            small: None,
            escalated_output: None,
            provider: Provider::Replay { cassette: "x".into() },
            name: "claude-x".into(),
            max_output: Tokens(8192),
            thinking,
            context_window: Tokens(200_000),
            prices: None,
        }
    }

    fn user(id: u64, blocks: Vec<Block>) -> Arc<Message> {
        Arc::new(Message { id, role: Role::User, origin: Origin::Prompt, blocks })
    }

    fn calls(id: u64, ids: &[&str]) -> Arc<Message> {
        let call = |id: &&str| {
            let input = ToolInput::Object(serde_json::Map::from_iter([("command".to_owned(), json!("ls"))]));
            Block::ToolUse(ToolUse { id: (*id).into(), name: "Bash".into(), input })
        };
        Arc::new(Message { id, role: Role::Assistant, origin: Origin::Model, blocks: ids.iter().map(call).collect() })
    }

    fn result(id: &str) -> Block {
        Block::ToolResult(ToolResult::new(id.into(), "out", false))
    }

    fn body(requests: &Requests, messages: &[Arc<Message>], max_output: u64) -> Value {
        let history = messages.iter().fold(History::default(), |history, message| history.with(Arc::clone(message)));
        let call = ModelCall { max_output: Tokens(max_output), ..ModelCall::first(history) };
        serde_json::from_slice(&requests.body(&call, Extras::default()).unwrap()).unwrap()
    }

    fn tools() -> Vec<ToolDefinition> {
        let schema = json!({"type": "object", "properties": {}});
        ["Read", "Bash"].map(|name| ToolDefinition { name, description: "d", input_schema: schema.clone() }).into()
    }

    #[test]
    fn a_first_request_has_the_documented_shape() {
        let requests = Requests::new(&plan(None), "You mend.", &tools()).unwrap();
        let mark = json!({"type": "ephemeral"});
        assert_eq!(
            body(&requests, &[user(1, vec![Block::Text("Mend it".into())])], 100),
            json!({
                "model": "claude-x", "max_tokens": 100, "stream": true,
                "system": [{"type": "text", "text": "You mend.", "cache_control": mark}],
                "tools": [
                    {"name": "Read", "description": "d", "input_schema": {"type": "object", "properties": {}}},
                    {"name": "Bash", "description": "d", "input_schema": {"type": "object", "properties": {}}, "cache_control": mark},
                ],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Mend it", "cache_control": mark}]}],
            })
        );
        let bare = Requests::new(&plan(None), " ", &[]).unwrap();
        let bare = body(&bare, &[user(1, vec![Block::Text("x".into())])], 100);
        assert_eq!((bare.get("system"), bare.get("tools"), bare.get("thinking")), (None, None, None));
    }

    #[test]
    fn b028_neighbours_are_merged_results_come_first_and_two_messages_carry_marks() {
        let requests = Requests::new(&plan(None), "s", &tools()).unwrap();
        let messages = [
            user(1, vec![Block::Text("a".into())]),
            calls(2, &["t1", "t2"]),
            user(3, vec![result("t1"), result("t2")]),
            user(4, vec![Block::Text("the gate says no".into())]),
            calls(5, &["t3"]),
            user(6, vec![Block::Text("before".into()), result("t3")]),
        ];
        let body = body(&requests, &messages, 100);
        let wire = body["messages"].as_array().unwrap();
        let kinds: Vec<Vec<&str>> = wire
            .iter()
            .map(|message| message["content"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect())
            .collect();
        assert_eq!(
            kinds,
            [
                vec!["text"],
                vec!["tool_use", "tool_use"],
                vec!["tool_result", "tool_result", "text"],
                vec!["tool_use"],
                vec!["tool_result", "text"]
            ]
        );
        let marks: Vec<bool> = wire.iter().map(|message| message.to_string().contains("cache_control")).collect();
        assert_eq!(marks, [false, false, true, false, true]);
        assert_eq!(body.to_string().matches("cache_control").count(), 4);
        assert!(wire[2]["content"][2].get("cache_control").is_some());
    }

    #[test]
    fn a_prefix_keeps_its_bytes_but_for_the_marks() {
        let requests = Requests::new(&plan(None), "s", &tools()).unwrap();
        let mut messages = vec![user(1, vec![Block::Text("a".into())])];
        let mut previous = Vec::new();
        for turn in 1..6 {
            let id = format!("t{turn}");
            messages.push(calls(turn * 2, &[&id]));
            messages.push(user(turn * 2 + 1, vec![result(&id)]));
            let body = body(&requests, &messages, 100);
            let plain: Vec<String> = body["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m.to_string().replace(std::str::from_utf8(MARK).unwrap(), ""))
                .collect();
            assert_eq!(plain[..previous.len()], previous[..]);
            previous = plain;
        }
    }

    #[test]
    fn thinking_follows_the_plan_and_fits_the_cap() {
        let field = |thinking, cap| {
            let requests = Requests::new(&plan(Some(thinking)), "s", &[]).unwrap();
            body(&requests, &[user(1, vec![Block::Text("x".into())])], cap)["thinking"].clone()
        };
        assert_eq!(field(Thinking::Off, 100), json!({"type": "disabled"}));
        assert_eq!(field(Thinking::Adaptive, 100), json!({"type": "adaptive"}));
        let budget = Thinking::Budget(Tokens(4000));
        assert_eq!(field(budget, 8192), json!({"type": "enabled", "budget_tokens": 4000}));
        assert_eq!(field(budget, 3000), json!({"type": "enabled", "budget_tokens": 1500}));
        assert_eq!(field(budget, 1500), json!({"type": "enabled", "budget_tokens": 1024}));
        assert_eq!(field(budget, 1024), json!({"type": "disabled"}));
    }

    #[test]
    fn b032_without_its_thinking_a_conversation_goes_on_without_a_budget_for_it() {
        let field = |thinking| {
            let requests = Requests::new(&plan(thinking), "s", &[]).unwrap();
            let history = History::default().with(user(1, vec![Block::Text("x".into())]));
            let call = ModelCall { thinking_stripped: true, ..ModelCall::first(history) };
            let body: Value = serde_json::from_slice(&requests.body(&call, Extras::default()).unwrap()).unwrap();
            body.get("thinking").cloned()
        };
        assert_eq!(field(Some(Thinking::Budget(Tokens(4000)))), Some(json!({"type": "disabled"})));
        assert_eq!(field(Some(Thinking::Adaptive)), Some(json!({"type": "adaptive"})));
        assert_eq!(field(None), None);
    }

    #[test]
    fn extras_stand_before_the_messages_and_change_nothing_else() {
        let requests = Requests::new(&plan(None), "s", &tools()).unwrap();
        let history = History::default().with(user(1, vec![Block::Text("x".into())]));
        let call = ModelCall {
            task_budget: Some(TaskBudget { total: Tokens(50_000), remaining: Tokens(1) }),
            clearing: Some(Clearing { trigger: Tokens(9), keep: 3, at_least: Tokens(5) }),
            ..ModelCall::first(history)
        };
        let plain = String::from_utf8(requests.body(&call, Extras::default()).unwrap()).unwrap();
        let extras = Refused::default().allowed(&call);
        let full = String::from_utf8(requests.body(&call, extras).unwrap()).unwrap();
        assert_eq!(full.replace(&extras.fields(), ""), plain);
        assert!(serde_json::from_str::<Value>(&full).unwrap()["context_management"]["edits"].is_array());
    }

    #[test]
    fn an_answer_that_was_paused_and_went_on_is_one_message() {
        let requests = Requests::new(&plan(None), "s", &[]).unwrap();
        let said = |id, text: &str| {
            let blocks = vec![Block::Text(text.into())];
            Arc::new(Message { id, role: Role::Assistant, origin: Origin::Model, blocks })
        };
        let mut messages = vec![user(1, vec![Block::Text("a".into())]), said(2, "one"), said(3, "two")];
        let sent = body(&requests, &messages, 100);
        let content = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
        assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": content}));
        assert_eq!(sent["messages"].as_array().unwrap().len(), 2);
        messages.extend([calls(4, &["t"]), user(5, vec![result("t")])]);
        let sent = body(&requests, &messages, 100);
        assert_eq!(sent["messages"][1]["content"][2]["type"], "tool_use");
        assert_eq!(sent["messages"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn an_assistant_message_without_content_joins_its_neighbours() {
        let requests = Requests::new(&plan(None), "s", &[]).unwrap();
        let silent =
            Message { id: 2, role: Role::Assistant, origin: Origin::Model, blocks: vec![Block::Text(" ".into())] };
        let messages =
            [user(1, vec![Block::Text("a".into())]), Arc::new(silent), user(3, vec![Block::Text("b".into())])];
        assert_eq!(body(&requests, &messages, 100)["messages"].as_array().unwrap().len(), 1);
    }
}
