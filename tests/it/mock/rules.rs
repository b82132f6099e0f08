//! The documented rules for one request. A breach is worded as the API words it.

use super::betas;
use super::http::Request;
use super::images;
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks a request by itself.
pub(super) fn check(request: &Request) -> Result<(), String> {
    check_head(request)?;
    let body = &request.body;
    check_fields(body)?;
    betas::check(request)?;
    check_tools(body)?;
    check_marks(body)?;
    check_messages(request.messages())
}

fn check_head(request: &Request) -> Result<(), String> {
    if request.path != "/v1/messages" {
        return Err(format!("{} is not a path of this API", request.path));
    }
    if request.header("anthropic-version").is_none() {
        return Err("anthropic-version: header is required".into());
    }
    if request.header("content-type").is_none_or(|kind| !kind.starts_with("application/json")) {
        return Err("content-type: must be application/json".into());
    }
    if request.header("x-api-key").is_some() && request.header("authorization").is_some() {
        return Err("only one of x-api-key and authorization may be sent".into());
    }
    // serde_json refuses what is no UTF-8 and lone surrogates: as strict as the API.
    serde_json::from_slice::<Value>(&request.bytes)
        .map(drop)
        .map_err(|error| format!("The request body is not valid JSON: {error}"))
}

fn check_fields(body: &Value) -> Result<(), String> {
    const KNOWN: [&str; 9] = [
        "model",
        "max_tokens",
        "stream",
        "system",
        "tools",
        "thinking",
        "output_config",
        "context_management",
        "messages",
    ];
    let fields = body.as_object().ok_or("Input should be a valid dictionary")?;
    if let Some(name) = fields.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(format!("{name}: Extra inputs are not permitted"));
    }
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("model: Field required".into());
    }
    let max_tokens =
        body["max_tokens"].as_u64().filter(|max| *max > 0).ok_or("max_tokens: Input should be greater than 0")?;
    if body["stream"] != true {
        return Err("stream: this server only streams".into());
    }
    let thinking = &body["thinking"];
    let allowed: &[&str] = match thinking["type"].as_str() {
        None if thinking.is_null() => return check_system(&body["system"]),
        Some("adaptive" | "disabled") => &["type"],
        Some("enabled") => &["type", "budget_tokens"],
        Some(_) | None => return Err("thinking.type: Input should be 'adaptive', 'enabled' or 'disabled'".into()),
    };
    check_keys("thinking", thinking, allowed)?;
    if thinking["type"] == "enabled" {
        let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
        if budget < 1024 {
            return Err("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024".into());
        }
        if budget >= max_tokens {
            return Err("`max_tokens` must be greater than `thinking.budget_tokens`".into());
        }
    }
    check_system(&body["system"])
}

fn check_system(system: &Value) -> Result<(), String> {
    for block in system.as_array().into_iter().flatten() {
        check_keys("system", block, &["type", "text", "cache_control"])?;
        if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
            return Err("system: text content blocks must be non-empty".into());
        }
    }
    Ok(())
}

fn check_tools(body: &Value) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (index, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        check_keys(&format!("tools.{index}"), tool, &["name", "description", "input_schema", "cache_control"])?;
        if name.is_empty() || name.len() > 128 || !name.bytes().all(id_byte) {
            return Err(format!("tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"));
        }
        if !names.insert(name) {
            return Err("tools: Tool names must be unique.".into());
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(format!("tools.{index}.custom.input_schema.type: Input should be 'object'"));
        }
    }
    Ok(())
}

/// At most four marks in the whole request.
fn check_marks(body: &Value) -> Result<(), String> {
    let blocks = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|message| message["content"].as_array().into_iter().flatten());
    let all = [&body["tools"], &body["system"]]
        .into_iter()
        .flat_map(|list| list.as_array().into_iter().flatten())
        .chain(blocks);
    let marks = all.filter(|block| !block["cache_control"].is_null()).count();
    if marks > 4 {
        return Err(format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}."));
    }
    Ok(())
}

fn check_messages(messages: &[Value]) -> Result<(), String> {
    if messages.is_empty() {
        return Err("messages: at least one message is required".into());
    }
    if messages[0]["role"] != "user" {
        return Err("messages: first message must use the \"user\" role".into());
    }
    let mut used = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        check_keys(&format!("messages.{index}"), message, &["role", "content"])?;
        let role = message["role"].as_str().unwrap_or_default();
        if index > 0 && messages[index - 1]["role"] == role {
            return Err(format!(
                "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"{role}\" roles in a row"
            ));
        }
        let blocks = message["content"]
            .as_array()
            .ok_or_else(|| format!("messages.{index}.content: Input should be a valid list"))?;
        if blocks.is_empty() {
            return Err(format!("messages.{index}: all messages must have non-empty content"));
        }
        for (place, block) in blocks.iter().enumerate() {
            check_block(role, &format!("messages.{index}.content.{place}"), block)?;
        }
        match role {
            "user" => check_results(index, blocks, &std::mem::take(&mut open))?,
            "assistant" => {
                let last = blocks.last().and_then(|block| block["type"].as_str());
                if matches!(last, Some("thinking" | "redacted_thinking")) {
                    return Err(format!(
                        "messages.{index}: The final block in an assistant message cannot be `thinking`."
                    ));
                }
                for (place, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == "tool_use") {
                    let id = block["id"].as_str().unwrap_or_default();
                    if !used.insert(id) {
                        return Err(format!("messages.{index}.content.{place}: `tool_use` ids must be unique"));
                    }
                    open.push(id.to_owned());
                }
            }
            _ => return Err(format!("messages.{index}.role: Input should be 'user' or 'assistant'")),
        }
    }
    if !open.is_empty() {
        return Err(without_results(messages.len() - 1, &open));
    }
    Ok(())
}

/// All results of the calls before, each once, in the order of the calls, and first.
fn check_results(index: usize, blocks: &[Value], open: &[String]) -> Result<(), String> {
    let mut seen = Vec::new();
    for (place, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == "tool_result") {
        let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
        if !open.contains(&id) {
            return Err(format!(
                "messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. \
                 Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            ));
        }
        if seen.contains(&id) {
            return Err(format!(
                "messages.{index}.content.{place}: each tool_use must have a single result. \
                 Found multiple `tool_result` blocks with id: {id}"
            ));
        }
        if place != seen.len() {
            return Err(format!("messages.{index}.content.{place}: `tool_result` blocks must come first"));
        }
        seen.push(id);
    }
    let missing: Vec<String> = open.iter().filter(|id| !seen.contains(id)).cloned().collect();
    if !missing.is_empty() {
        return Err(without_results(index - 1, &missing));
    }
    if seen != open {
        return Err(format!("messages.{index}: the results do not come in the order of their calls"));
    }
    Ok(())
}

fn without_results(index: usize, ids: &[String]) -> String {
    format!(
        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. \
         Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    )
}

fn check_block(role: &str, place: &str, block: &Value) -> Result<(), String> {
    let kind = block["type"].as_str().unwrap_or_default();
    let filled = |name: &str| block[name].as_str().is_some_and(|text| !text.trim().is_empty());
    let id = |name: &str| block[name].as_str().is_some_and(|id| !id.is_empty() && id.bytes().all(id_byte));
    match (role, kind) {
        (_, "text") => {
            check_keys(place, block, &["type", "text", "cache_control"])?;
            match block["text"].as_str() {
                Some("") => Err("messages: text content blocks must be non-empty".into()),
                Some(text) if text.trim().is_empty() => {
                    Err("messages: text content blocks must contain non-whitespace text".into())
                }
                Some(_) => Ok(()),
                None => Err(format!("{place}.text.text: Field required")),
            }
        }
        ("user", "tool_result") => {
            check_keys(place, block, &["type", "tool_use_id", "content", "is_error", "cache_control"])?;
            let content = match block["content"].as_array() {
                Some(blocks) => images::check(place, blocks, block["is_error"] == true)?,
                None => filled("content"),
            };
            if !id("tool_use_id") || !content || !(block["is_error"].is_null() || block["is_error"].is_boolean()) {
                return Err(format!(
                    "{place}.tool_result: it needs an id, a content that is not blank, and a Boolean is_error"
                ));
            }
            Ok(())
        }
        ("assistant", "tool_use") => {
            check_keys(place, block, &["type", "id", "name", "input", "cache_control"])?;
            if !id("id") {
                return Err(format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
            }
            if !filled("name") || !block["input"].is_object() {
                return Err(format!("{place}.tool_use.input: Input should be a valid dictionary"));
            }
            Ok(())
        }
        ("assistant", "thinking") => {
            check_keys(&format!("{place}.thinking"), block, &["type", "thinking", "signature"])?;
            if block["signature"].is_string() && block["thinking"].is_string() {
                Ok(())
            } else {
                Err(format!("{place}.thinking.signature: Field required"))
            }
        }
        ("assistant", "redacted_thinking") => {
            check_keys(&format!("{place}.redacted_thinking"), block, &["type", "data"])
        }
        ("assistant", "") | ("user", _) => Err(format!("{place}.type: a {role} message has no {kind:?}")),
        _ => Ok(()),
    }
}

pub(super) fn check_keys(place: &str, object: &Value, known: &[&str]) -> Result<(), String> {
    match object.as_object().into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("{place}.{name}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

const fn id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
