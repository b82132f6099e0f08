//! What the runner says to the model: meta messages and stand-ins for results that never came.

use super::event::{HookResult, HookStatus};
use super::params::HookRule;
use super::transcript::{ToolResult, ToolUseId};
use crate::outcome::AbortReason;
use crate::units::show_duration;
use std::sync::Arc;

/// The most of a stop hook's output that goes to the model, in bytes; its end is kept, as errors stand there.
const HOOK_TAIL: usize = 6_000;

/// Stands for the result of a call that an abort cut off.
pub(super) fn aborted_result(id: &ToolUseId) -> ToolResult {
    ToolResult::new(Arc::clone(id), "The call was stopped before it ended: the job was interrupted.", true)
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

/// What a model is told whose answer was cut at the output limit.
pub(super) const GO_ON: &str = "[Your answer was cut off at the output limit. Go on exactly where it ended: no apology, no recap. If \
                                much is left, do it in smaller pieces.]";

/// What a model is told whose work did not satisfy the stop hooks.
pub(super) fn blocked(reds: &[(&HookRule, &HookResult)]) -> String {
    let mut text = String::from("The work is not finished: ");
    text.push_str(match reds {
        [_] => "a check that must pass is red.\n",
        _ => "checks that must pass are red.\n",
    });
    for (rule, result) in reds {
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
