//! The rules for fields that need a beta: field and header go together.

use super::http::Request;
use super::rules::check_keys;
use serde_json::Value;

/// What may stand in the header.
const KNOWN: [&str; 4] = [TASK_BUDGETS, CONTEXT_MANAGEMENT, "context-1m-2025-08-07", "compact-2026-01-12"];
const TASK_BUDGETS: &str = "task-budgets-2026-03-13";
const CONTEXT_MANAGEMENT: &str = "context-management-2025-06-27";

pub(super) fn check(request: &Request) -> Result<(), String> {
    let betas: Vec<&str> = match request.header("anthropic-beta") {
        Some(header) => header.split(',').map(str::trim).filter(|beta| !beta.is_empty()).collect(),
        None => Vec::new(),
    };
    if let Some(unknown) = betas.iter().find(|beta| !KNOWN.contains(beta)) {
        return Err(format!(
            "Unexpected value(s) `{unknown}` for the `anthropic-beta` header. \
             Please consult our documentation or try again without the header."
        ));
    }
    let (config, management) = (&request.body["output_config"], &request.body["context_management"]);
    together("output_config.task_budget", !config["task_budget"].is_null(), betas.contains(&TASK_BUDGETS))?;
    together("context_management", !management.is_null(), betas.contains(&CONTEXT_MANAGEMENT))?;
    check_budget(config)?;
    check_management(management)
}

/// The API does not mind a header without its field; our client has no reason to send one.
fn together(field: &str, is_there: bool, beta: bool) -> Result<(), String> {
    match (is_there, beta) {
        (true, false) => Err(format!("{field}: Extra inputs are not permitted")),
        (false, true) => Err(format!("the `anthropic-beta` header asks for {field}, which is not there")),
        (true, true) | (false, false) => Ok(()),
    }
}

fn check_budget(config: &Value) -> Result<(), String> {
    if config.is_null() {
        return Ok(());
    }
    check_keys("output_config", config, &["task_budget"])?;
    let budget = &config["task_budget"];
    check_keys("output_config.task_budget", budget, &["type", "total", "remaining"])?;
    if budget["type"] != "tokens" {
        return Err("output_config.task_budget.type: Input should be 'tokens'".into());
    }
    let total = budget["total"].as_u64().unwrap_or_default();
    if total < 20_000 {
        return Err("output_config.task_budget.total: Input should be greater than or equal to 20000".into());
    }
    if budget["remaining"].as_u64().is_none_or(|remaining| remaining > total) {
        return Err("output_config.task_budget.remaining: Input should be less than or equal to total".into());
    }
    Ok(())
}

fn check_management(management: &Value) -> Result<(), String> {
    if management.is_null() {
        return Ok(());
    }
    check_keys("context_management", management, &["edits"])?;
    for (at, edit) in management["edits"].as_array().into_iter().flatten().enumerate() {
        let place = format!("context_management.edits.{at}");
        check_keys(&place, edit, &["type", "trigger", "keep", "clear_at_least"])?;
        if edit["type"] != "clear_tool_uses_20250919" {
            return Err(format!("{place}.type: this server knows only 'clear_tool_uses_20250919'"));
        }
        for (name, kind) in [("trigger", "input_tokens"), ("keep", "tool_uses"), ("clear_at_least", "input_tokens")] {
            check_keys(&format!("{place}.{name}"), &edit[name], &["type", "value"])?;
            if edit[name]["type"] != kind || !edit[name]["value"].is_u64() {
                return Err(format!("{place}.{name}: Input should be a number of {kind}"));
            }
        }
    }
    Ok(())
}
