//! `transcript.jsonl`: what was said, whole and in order. First a line of `kind` `meta`, then `message`, `turn` and
//! `compaction` lines, and those of [`savepoint`](super::savepoint). It is enough to go on from, to play again, and to check.

use super::value::{self, SCHEMA, UsageValue};
use crate::query::{AgentId, Block, Message, Origin, Role, ToolInput};
use crate::units::{Elapsed, JobId, RunId, Turns, Usage, Usd};
use serde::Serialize;
use serde_json::{Value, json};

/// What a transcript says before the first message.
#[derive(Clone, Debug)]
pub struct TranscriptMeta<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The job.
    pub job: &'a JobId,
    /// The runner's version.
    pub version: &'a str,
    /// The model's name.
    pub model: &'a str,
    /// The system prompt, whole.
    pub system: &'a str,
    /// The names of the tools that were offered.
    pub tools: Vec<&'a str>,
    /// The commit that the work starts from.
    pub base: Option<&'a str>,
    /// The branch of the work.
    pub branch: Option<&'a str>,
    /// The worktree's path.
    pub worktree: Option<&'a str>,
}

#[derive(Serialize)]
struct MetaLine<'a> {
    kind: &'a str,
    schema: u32,
    run: &'a str,
    job: &'a str,
    version: &'a str,
    model: &'a str,
    base: Option<&'a str>,
    branch: Option<&'a str>,
    worktree: Option<&'a str>,
    tools: &'a [&'a str],
    system: &'a str,
}

#[derive(Serialize)]
struct MessageLine<'a> {
    kind: &'a str,
    at: f64,
    /// The sub-agent; the job's own conversation has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<u32>,
    id: u64,
    role: &'a str,
    origin: String,
    blocks: Vec<Value>,
}

#[derive(Serialize)]
struct TurnLine<'a> {
    kind: &'a str,
    at: f64,
    turn: u32,
    usage: UsageValue,
    cost_usd: f64,
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct CompactionLine<'a> {
    kind: &'a str,
    at: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<u32>,
    summary: u64,
    kept_from: Option<u64>,
}

/// The first line, without its newline.
#[must_use]
pub fn meta_line(meta: &TranscriptMeta<'_>) -> String {
    value::line(&MetaLine {
        kind: "meta",
        schema: SCHEMA,
        run: &meta.run.0,
        job: meta.job.as_str(),
        version: meta.version,
        model: meta.model,
        base: meta.base,
        branch: meta.branch,
        worktree: meta.worktree,
        tools: &meta.tools,
        system: meta.system,
    })
}

/// A message as one line, without its newline.
#[must_use]
pub fn message_line(at: Elapsed, agent: AgentId, message: &Message) -> String {
    value::line(&MessageLine {
        kind: "message",
        at: value::at(at),
        agent: (agent != AgentId::JOB).then_some(agent.0),
        id: message.id,
        role: match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        },
        origin: origin(message.origin),
        blocks: message.blocks.iter().map(block).collect(),
    })
}

/// What an accepted response used, as one line, without its newline.
#[must_use]
pub fn turn_line(at: Elapsed, turn: Turns, usage: &Usage, cost: Usd, request_id: Option<&str>) -> String {
    value::line(&TurnLine {
        kind: "turn",
        at: value::at(at),
        turn: turn.0,
        usage: usage.into(),
        cost_usd: cost.dollars(),
        request_id,
    })
}

/// A compaction, as one line, without its newline: the message with the summary takes the place of everything before `kept_from`,
/// or of everything where nothing was kept.
#[must_use]
pub fn compaction_line(at: Elapsed, agent: AgentId, summary: u64, kept_from: Option<u64>) -> String {
    value::line(&CompactionLine {
        kind: "compaction",
        at: value::at(at),
        agent: (agent != AgentId::JOB).then_some(agent.0),
        summary,
        kept_from,
    })
}

fn origin(origin: Origin) -> String {
    match origin {
        Origin::Prompt => "prompt".into(),
        Origin::FollowUp(index) => format!("follow_up:{index}"),
        Origin::Model => "model".into(),
        Origin::ToolResults => "tool_results".into(),
        Origin::Budget => "budget".into(),
        Origin::Command => "command".into(),
        Origin::Summary => "summary".into(),
        Origin::Digest => "digest".into(),
        Origin::Gate => "gate".into(),
        Origin::Recovery => "recovery".into(),
        Origin::Interruption => "interruption".into(),
    }
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Thinking { text, signature } => json!({ "type": "thinking", "text": text, "signature": signature }),
        Block::ToolUse(call) => match &call.input {
            ToolInput::Object(input) => {
                json!({ "type": "tool_use", "id": &*call.id, "name": call.name, "input": input })
            }
            ToolInput::Invalid { raw, problem } => {
                json!({ "type": "tool_use", "id": &*call.id, "name": call.name, "invalid": { "raw": raw, "problem": problem } })
            }
        },
        Block::ToolResult(result) => {
            let mut value = json!({
                "type": "tool_result", "id": &*result.id, "content": result.content, "is_error": result.is_error
            });
            if !result.media.is_empty() {
                let media =
                    result.media.iter().map(|media| json!({ "media_type": media.media_type, "data": &*media.data }));
                value["media"] = media.collect();
            }
            value
        }
        Block::Opaque(value) => json!({ "type": "opaque", "value": value }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::*;
    use crate::query::{ToolResult, ToolUse};
    use insta::assert_snapshot;

    fn call(id: &str, input: ToolInput) -> Block {
        Block::ToolUse(ToolUse { id: id.into(), name: "Read".into(), input })
    }

    #[test]
    fn a_message_keeps_every_block_and_the_order_of_arguments() {
        let input: serde_json::Map<_, _> = serde_json::from_str(r#"{"z":1,"a":"line\nbreak"}"#).unwrap();
        let blocks = vec![
            Block::Thinking { text: String::new(), signature: "sig==".into() },
            Block::Text("Reading.".into()),
            call("t1", ToolInput::Object(input)),
            call("t2", ToolInput::Invalid { raw: "{\"a\":".into(), problem: "cut off".into() }),
            Block::Opaque(json!({ "type": "redacted_thinking", "data": "x" })),
        ];
        let said = Message { id: 3, role: Role::Assistant, origin: Origin::Model, blocks };
        let results = Message {
            id: 4,
            role: Role::User,
            origin: Origin::ToolResults,
            blocks: vec![Block::ToolResult(ToolResult::new("t1".into(), "", true))],
        };
        let at = Elapsed::from_millis(1_500);
        let text = [message_line(at, AgentId::JOB, &said), message_line(at, AgentId::JOB, &results)].join("\n");
        assert_snapshot!(text, @r#"
        {"kind":"message","at":1.5,"id":3,"role":"assistant","origin":"model","blocks":[{"type":"thinking","text":"","signature":"sig=="},{"type":"text","text":"Reading."},{"type":"tool_use","id":"t1","name":"Read","input":{"z":1,"a":"line\nbreak"}},{"type":"tool_use","id":"t2","name":"Read","invalid":{"raw":"{\"a\":","problem":"cut off"}},{"type":"opaque","value":{"type":"redacted_thinking","data":"x"}}]}
        {"kind":"message","at":1.5,"id":4,"role":"user","origin":"tool_results","blocks":[{"type":"tool_result","id":"t1","content":"(no output)","is_error":true}]}
        "#);
    }

    #[test]
    fn the_first_line_says_what_the_conversation_was_about() {
        let meta = TranscriptMeta {
            run: &RunId("r1".into()),
            job: &sample::id("a"),
            version: "0.1.0",
            model: "claude-x",
            system: "You fix things.",
            tools: vec!["Read", "Bash"],
            base: Some("1111111"),
            branch: Some("runner/r1/a"),
            worktree: None,
        };
        assert_snapshot!(meta_line(&meta), @r#"{"kind":"meta","schema":1,"run":"r1","job":"a","version":"0.1.0","model":"claude-x","base":"1111111","branch":"runner/r1/a","worktree":null,"tools":["Read","Bash"],"system":"You fix things."}"#);
        let usage = Usage::default();
        assert_snapshot!(turn_line(Elapsed::from_millis(1), Turns(2), &usage, Usd::from_dollars(0.5), None), @r#"{"kind":"turn","at":0.001,"turn":2,"usage":{"input_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":0},"cost_usd":0.5,"request_id":null}"#);
    }
}
