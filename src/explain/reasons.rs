//! What the ends of jobs mean, and what to do about each.

use super::{Explanation, explanation};
use crate::outcome::Reason;

/// Why a job ends so: `when` says what has happened, `guard` what to do.
#[must_use]
pub const fn reason(reason: Reason) -> Explanation {
    match reason {
        Reason::Completed => explanation(
            "The model finished, and every gate is green on the final tree.",
            "Look at the patch or the branch, and merge it.",
        ),
        Reason::CompletedFlaky => explanation(
            "A later try passed after an earlier one had failed.",
            "The work is good; `attempts` in result.json says what went wrong first. Where it happens often, mend the cause.",
        ),
        Reason::CompletedAtLimit => explanation(
            "A limit ended the loop, but a gate that was red on the base is green now.",
            "Look closely: the work is proven, but the model was not done.",
        ),
        Reason::GateFailed => explanation(
            "A gate is red on the final tree.",
            "Read the gate's output in the report; raise the limits or make the task clearer.",
        ),
        Reason::GateTampered => explanation(
            "The gates pass only with changes to protected paths, which were undone.",
            "Read `protected_changes`; say in the prompt that tests must not be changed.",
        ),
        Reason::NoChanges => explanation(
            "Nothing was changed.",
            "Make the task clearer, or say `require_changes = false` where nothing to do is fine.",
        ),
        Reason::MaxTurns => explanation("The turn limit was reached.", "Raise `max_turns`, or make the task smaller."),
        Reason::TokenBudget => explanation(
            "The next call could have passed the token budget.",
            "Raise `token_budget`, or make the task smaller.",
        ),
        Reason::CostLimit => explanation(
            "The next call could have passed the spending cap of the job or of the run.",
            "Raise `max_cost_usd` or `--max-cost-usd`, or take a cheaper model.",
        ),
        Reason::Timeout => explanation(
            "The time of the job or of the run was up.",
            "Raise `timeout`; the work until then is in the patch.",
        ),
        Reason::LoopDetected => explanation(
            "The model made the same call with the same result again and again.",
            "Read the evidence: often a tool or a path is missing that the task needs.",
        ),
        Reason::ContextExhausted => explanation(
            "The conversation no longer fits the model's window.",
            "Make the task smaller, or take a model with a larger window.",
        ),
        Reason::OutputTruncated => {
            explanation("The answer was cut at the output limit, again and again.", "Raise `max_output_tokens`.")
        }
        Reason::MalformedOutput => {
            explanation("The model's answers made no sense as messages.", "Try again, or take another model.")
        }
        Reason::Media => explanation(
            "An image was refused, also after all images were taken out.",
            "Leave the image out of the task.",
        ),
        Reason::Refused => {
            explanation("The model declined for reasons of policy.", "Read its words; put the task in another way.")
        }
        Reason::StopHookPrevented => explanation(
            "A gate sent the model back too often, is set to stop the job, or a hook forbade going on.",
            "Read the gate's output; raise `max_blocks`, or make the task clearer.",
        ),
        Reason::HookStopped => explanation("A hook around a tool call stopped the job.", "Read what the hook said."),
        Reason::GateNotRed => explanation(
            "A gate with `before = \"fail\"` was green on the untouched base.",
            "There is nothing to fix, or the gate does not show the bug.",
        ),
        Reason::Auth => explanation(
            "The provider refused the key.",
            "Set the variable that `api_key_env` names to a key that works.",
        ),
        Reason::Billing => explanation(
            "The provider wants money, or its own spending limit is reached.",
            "Look at the account, then `--rerun-failed last`.",
        ),
        Reason::ModelNotFound => explanation("The provider does not know the model.", "Mend `model.name`."),
        Reason::InvalidRequest => explanation(
            "The provider refused the request as malformed.",
            "Read its words; please report it if the job file is right.",
        ),
        Reason::RateLimited => explanation(
            "Too many requests, until the patience ran out.",
            "Run fewer jobs at once (`-j`), then `--rerun-failed last`.",
        ),
        Reason::Overloaded => {
            explanation("The service stayed overloaded.", "Later: `--rerun-failed last`; or name a `fallback`.")
        }
        Reason::Api => explanation("The service failed in another way.", "Read its words; `--rerun-failed last`."),
        Reason::Stream => explanation(
            "The connection or the stream kept failing.",
            "Look at the network or the proxy, then `--rerun-failed last`.",
        ),
        Reason::SetupFailed => explanation(
            "A setup command failed, or a gate with `before = \"pass\"` was red on the base.",
            "Read its output in the job's folder `tools`, and mend the commands.",
        ),
        Reason::WorktreeFailed => explanation(
            "The worktree could not be made, or was lost.",
            "Read the message: a branch that is there already, a full disk.",
        ),
        Reason::GateError => explanation(
            "A gate could not be run: its program is missing, it was killed, or it timed out.",
            "Mend the command, or raise its `timeout`.",
        ),
        Reason::HookError => explanation("A hook could not be run.", "Mend the command."),
        Reason::Internal => explanation(
            "A fault of the runner itself; this job alone is affected.",
            "Please report it, with events.jsonl.",
        ),
        Reason::Dependency => {
            explanation("A job that it needs did not pass.", "Mend that one, then `--rerun-failed last` runs both.")
        }
        Reason::AlreadyDone => explanation("It had passed in the run that this one repeats.", "Nothing."),
        Reason::FailFast => explanation("Enough other jobs had failed.", "Mend those, then `--rerun-failed last`."),
        Reason::Interrupted => explanation("A signal came.", "`runner resume` goes on where it was."),
    }
}
