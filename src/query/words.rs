//! What the runner says to the model: meta messages and stand-ins for results that never came.

use super::event::{HookResult, HookStatus};
use super::params::HookRule;
use super::transcript::{ToolResult, ToolUseId};
use crate::outcome::AbortReason;
use crate::units::{Tokens, show_duration};
use std::sync::Arc;

/// The most of a stop hook's output that goes to the model, in bytes; its end is kept, as errors stand there.
const HOOK_TAIL: usize = 6_000;

/// Stands for the result of a call that an abort cut off.
pub(super) fn aborted_result(id: &ToolUseId) -> ToolResult {
    ToolResult::new(Arc::clone(id), "The call was stopped before it ended: the job was interrupted.", true)
}

/// Stands for the result of a call that was not run because a command before it failed.
pub(super) fn sibling_result(id: &ToolUseId) -> ToolResult {
    let text =
        "This was not run: a command before it in the same answer failed. Send it again if it still makes sense.";
    ToolResult::new(Arc::clone(id), text, true)
}

/// Stands for the result of a call whose answer broke off for good.
pub(super) fn crashed_result(id: &ToolUseId) -> ToolResult {
    ToolResult::new(Arc::clone(id), "The call was not finished: the model's answer broke off with an error.", true)
}

/// Stands for the result of a call when a hook ended everything.
pub(super) fn hook_stopped_result(id: &ToolUseId) -> ToolResult {
    ToolResult::new(Arc::clone(id), "The call was stopped before it ended: a hook ended the work.", true)
}

/// The last user message of an aborted query.
pub(super) fn interruption(reason: AbortReason) -> String {
    let why = match reason {
        AbortReason::Interrupt => "the run was interrupted",
        AbortReason::Timeout => "the job's time is up",
        AbortReason::CostLimit => "the job's spending cap is reached",
        AbortReason::FailFast => "another job of the run failed",
        AbortReason::Input => "a newer input came",
        AbortReason::LoopDetected => "the same call came again and again with the same result",
    };
    format!("[The work was interrupted here: {why}.]")
}

/// What a model is told that goes round in circles.
pub(super) fn repeated(count: u32) -> String {
    format!(
        "[You have made this same call {count} times in a row, each time with the same result. It will not change: look at the \
         result again, and try something else.]"
    )
}

/// What a model is told whose answer had nothing in it.
pub(super) const EMPTY: &str =
    "[Your answer was empty. If the task is not done, go on with it; if it is, say so in a sentence.]";

/// What a model is told that stops while there is budget left.
pub(super) fn budget_left(used: Tokens, total: Tokens) -> String {
    let (left, percent) = (total.minus(used), used.0.saturating_mul(100) / total.0.max(1));
    format!(
        "[{percent} % of the token budget is used, {left} of {total} tokens are left, and you are to keep working: look for what is \
         still missing, weak or untested in your work, and go on with it.]"
    )
}

/// What a model is told whose answer was cut at the output limit.
pub(super) const GO_ON: &str = "[Your answer was cut off at the output limit. Go on exactly where it ended: no apology, no recap. If \
                                much is left, do it in smaller pieces.]";

/// What a model is told whose work did not satisfy the stop hooks.
pub(super) fn blocked(reds: &[(&HookRule, &HookResult)]) -> String {
    let mut text = String::from("The work is not finished: ");
    let checks = reds.iter().filter(|(_, result)| !matches!(result.status, HookStatus::Object(_))).count();
    text.push_str(match checks {
        0 => "there is an objection.\n",
        1 => "a check that must pass is red.\n",
        _ => "checks that must pass are red.\n",
    });
    for (rule, result) in reds {
        if let HookStatus::Object(words) = &result.status {
            text.push_str(&format!("\nHook `{}` says:\n{}\n", rule.name, words.trim()));
            continue;
        }
        let how = describe(result);
        text.push_str(&format!("\nCheck `{}` (`{}`) {how}. The end of its output:\n", rule.name, rule.command));
        text.push_str("<output>\n");
        let tail = last_bytes(result.tail.trim_end(), HOOK_TAIL);
        text.push_str(if tail.trim().is_empty() { "(it printed nothing)" } else { tail });
        text.push_str("\n</output>\n");
    }
    text.push_str("\nFind the cause and mend it. The checks run again when you are done.");
    text
}

/// How a stop hook ended, as the end of a sentence.
#[must_use]
pub fn describe(result: &HookResult) -> String {
    match &result.status {
        HookStatus::Pass => "passed".into(),
        HookStatus::Object(_) => "objected".into(),
        HookStatus::Prevent(_) => "forbade going on".into(),
        HookStatus::Fail { exit_code: Some(code) } => format!("failed with exit code {code}"),
        HookStatus::Fail { exit_code: None } => "failed".into(),
        HookStatus::TimedOut => format!("did not end within {}", show_duration(result.duration)),
        HookStatus::Broken(why) => format!("could not be run: {why}"),
    }
}

/// The last bytes of a text, from the start of a line where one is near, else from a character border.
fn last_bytes(text: &str, most: usize) -> &str {
    let Some(over) = text.len().checked_sub(most).filter(|over| *over > 0) else { return text };
    let start = text.ceil_char_boundary(over);
    let rest = &text[start..];
    rest.find('\n').filter(|line_end| *line_end < 500).map_or(rest, |line_end| &rest[line_end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_tail_is_cut_at_a_line_and_never_inside_a_character() {
        let text = "é".repeat(5_000);
        let cut = last_bytes(&text, 6_001);
        assert_eq!(cut.len(), 6_000);
        let lines = (0..2_000).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let cut = last_bytes(&lines, 1_000);
        assert!(cut.starts_with("line ") && cut.ends_with("line 1999") && cut.len() <= 1_000);
    }
}
