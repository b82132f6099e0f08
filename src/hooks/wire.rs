//! What hooks are told, in the JSON of Claude Code's. Pure.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The conversation that a hook is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSession {
    /// Names it; the same for all hooks of a job.
    pub session_id: String,
    /// Where it is written down as it goes.
    pub transcript_path: PathBuf,
    /// The sub-agent that the hook is about; `None` is the agent of the job.
    pub agent: Option<HookAgent>,
}

/// A sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAgent {
    /// Names this one.
    pub id: String,
    /// What kind it is of.
    pub kind: String,
    /// Where its own conversation is written down, if it is.
    pub transcript_path: Option<PathBuf>,
}

/// What a stop hook is told: `Stop`, and for a sub-agent `SubagentStop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopInput {
    /// The conversation.
    pub session: HookSession,
    /// The model goes on because a stop hook sent it back: a hook that objects once only looks at this.
    pub stop_hook_active: bool,
    /// What the model said last.
    pub last_assistant_message: String,
}

/// What a tool hook is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolHookInput {
    /// The conversation.
    pub session: HookSession,
    /// The tool's name.
    pub tool_name: String,
    /// What it is called with.
    pub tool_input: Map<String, Value>,
    /// Names the call.
    pub tool_use_id: String,
    /// Before or after it, and what came of it.
    pub moment: ToolHookMoment,
}

/// When a tool hook is called.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolHookMoment {
    /// Before the call: `PreToolUse`.
    Before,
    /// After a call that gave a result: `PostToolUse`.
    After {
        /// The result.
        response: Value,
        /// How long the call took.
        duration: Duration,
    },
    /// After a call that failed: `PostToolUseFailure`.
    Failed {
        /// Why.
        error: String,
        /// It was ended from outside.
        is_interrupt: bool,
    },
}

/// What every hook is told, and what its event adds.
#[derive(Serialize)]
struct Told<'a, T> {
    session_id: &'a str,
    transcript_path: String,
    cwd: String,
    hook_event_name: &'static str,
    /// Nobody is there to be asked, so nothing is.
    permission_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_type: Option<&'a str>,
    #[serde(flatten)]
    event: T,
}

#[derive(Serialize)]
struct StopFields<'a> {
    stop_hook_active: bool,
    last_assistant_message: &'a str,
    /// Always empty: neither exists here.
    background_tasks: [(); 0],
    session_crons: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_transcript_path: Option<String>,
}

#[derive(Default, Serialize)]
struct ToolFields<'a> {
    tool_name: &'a str,
    tool_input: Option<&'a Map<String, Value>>,
    tool_use_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_response: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_interrupt: Option<bool>,
}

impl StopInput {
    /// The JSON, one line.
    pub(super) fn encode(&self, cwd: &Path) -> Bytes {
        let agent = self.session.agent.as_ref();
        let name = if agent.is_some() { "SubagentStop" } else { "Stop" };
        let fields = StopFields {
            stop_hook_active: self.stop_hook_active,
            last_assistant_message: &self.last_assistant_message,
            background_tasks: [],
            session_crons: [],
            agent_transcript_path: agent.and_then(|agent| agent.transcript_path.as_deref()).map(shown),
        };
        self.session.encode(cwd, name, fields)
    }
}

impl ToolHookInput {
    /// The JSON, one line.
    pub(super) fn encode(&self, cwd: &Path) -> Bytes {
        let fields = ToolFields {
            tool_name: &self.tool_name,
            tool_input: Some(&self.tool_input),
            tool_use_id: &self.tool_use_id,
            ..ToolFields::default()
        };
        let (name, fields) = match &self.moment {
            ToolHookMoment::Before => ("PreToolUse", fields),
            ToolHookMoment::After { response, duration } => {
                let duration_ms = Some(duration.as_millis() as u64);
                ("PostToolUse", ToolFields { tool_response: Some(response), duration_ms, ..fields })
            }
            ToolHookMoment::Failed { error, is_interrupt } => {
                ("PostToolUseFailure", ToolFields { error: Some(error), is_interrupt: Some(*is_interrupt), ..fields })
            }
        };
        self.session.encode(cwd, name, fields)
    }
}

impl HookSession {
    fn encode(&self, cwd: &Path, hook_event_name: &'static str, event: impl Serialize) -> Bytes {
        let told = Told {
            session_id: &self.session_id,
            transcript_path: shown(&self.transcript_path),
            cwd: shown(cwd),
            hook_event_name,
            permission_mode: "bypassPermissions",
            agent_id: self.agent.as_ref().map(|agent| agent.id.as_str()),
            agent_type: self.agent.as_ref().map(|agent| agent.kind.as_str()),
            event,
        };
        // Text keys and plain values: there is nothing in it that could fail.
        let mut line = serde_json::to_vec(&told).unwrap_or_default();
        line.push(b'\n');
        line.into()
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn session(agent: Option<HookAgent>) -> HookSession {
        HookSession { session_id: "s1".into(), transcript_path: "/run/t.jsonl".into(), agent }
    }

    fn sub_agent() -> HookAgent {
        HookAgent { id: "a7".into(), kind: "explore".into(), transcript_path: Some("/run/a7.jsonl".into()) }
    }

    fn parsed(bytes: &Bytes) -> Value {
        let line = std::str::from_utf8(bytes).unwrap();
        assert!(line.ends_with("}\n") && line.lines().count() == 1);
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_stop_hook_is_told_all_that_claude_code_tells() {
        let mut input =
            StopInput { session: session(None), stop_hook_active: true, last_assistant_message: "done\n".into() };
        assert_eq!(
            parsed(&input.encode(Path::new("/w"))),
            json!({
                "session_id": "s1", "transcript_path": "/run/t.jsonl", "cwd": "/w", "hook_event_name": "Stop",
                "permission_mode": "bypassPermissions", "stop_hook_active": true, "last_assistant_message": "done\n",
                "background_tasks": [], "session_crons": [],
            })
        );
        input.session = session(Some(sub_agent()));
        let told = parsed(&input.encode(Path::new("/w")));
        let named = ["hook_event_name", "agent_id", "agent_type", "agent_transcript_path"].map(|key| &told[key]);
        assert_eq!(named, ["SubagentStop", "a7", "explore", "/run/a7.jsonl"]);
    }

    #[test]
    fn a_tool_hook_is_told_the_call_and_what_came_of_it() {
        let Value::Object(tool_input) = json!({"z": 1, "command": "ls"}) else { panic!() };
        let mut input = ToolHookInput {
            session: session(None),
            tool_name: "Bash".into(),
            tool_input,
            tool_use_id: "t1".into(),
            moment: ToolHookMoment::Before,
        };
        let before = json!({
            "session_id": "s1", "transcript_path": "/run/t.jsonl", "cwd": "/w", "hook_event_name": "PreToolUse",
            "permission_mode": "bypassPermissions", "tool_name": "Bash", "tool_input": {"z": 1, "command": "ls"},
            "tool_use_id": "t1",
        });
        let with = |more: Value| {
            let (Value::Object(mut all), Value::Object(more)) = (before.clone(), more) else { panic!() };
            all.extend(more);
            Value::Object(all)
        };
        assert_eq!(parsed(&input.encode(Path::new("/w"))), before);
        input.moment = ToolHookMoment::After { response: json!("out"), duration: Duration::from_millis(1500) };
        let more = json!({"hook_event_name": "PostToolUse", "tool_response": "out", "duration_ms": 1500});
        assert_eq!(parsed(&input.encode(Path::new("/w"))), with(more));
        input.moment = ToolHookMoment::Failed { error: "no".into(), is_interrupt: false };
        let more = json!({"hook_event_name": "PostToolUseFailure", "error": "no", "is_interrupt": false});
        assert_eq!(parsed(&input.encode(Path::new("/w"))), with(more));
        input.session.agent = Some(sub_agent());
        let told = parsed(&input.encode(Path::new("/w")));
        assert_eq!((&told["agent_id"], &told["agent_type"]), (&json!("a7"), &json!("explore")));
    }
}
