//! What the ends of a loop and its continuations mean, in words for people: when each comes, and what keeps it from coming for ever.

mod codes;
mod reasons;

pub use codes::{codes, explain, list};
pub use reasons::reason;

use crate::outcome::{TerminalReason, Transition};

/// What there is to say about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// When it comes.
    pub when: &'static str,
    /// What bounds it: how often it can come, or what it takes precedence over.
    pub guard: &'static str,
}

const fn explanation(when: &'static str, guard: &'static str) -> Explanation {
    Explanation { when, guard }
}

/// Why a loop ends so.
#[must_use]
pub const fn terminal(reason: TerminalReason) -> Explanation {
    match reason {
        TerminalReason::Completed => explanation(
            "The model finished (it called no tool) and no gate or hook objected; or the token budget is used up.",
            "An error is never reported so. Used up means that the next call could pass the budget; the gates then decide.",
        ),
        TerminalReason::MaxTurns => explanation(
            "The next call would be one turn more than `max_turns`.",
            "Turns only grow, and those of sub-agents count.",
        ),
        TerminalReason::BlockingLimit => explanation(
            "The next prompt reaches the hard limit of the window, and no compaction can help.",
            "After 3 compactions in a row that did not help, none is tried any more. Nothing is sent at the limit.",
        ),
        TerminalReason::PromptTooLong => explanation(
            "The provider refused the prompt as too long, and every recovery from it failed.",
            "Staged digests first, then one compaction in a query, itself made smaller at most 3 times. No stop hook runs.",
        ),
        TerminalReason::ImageError => explanation(
            "The provider refused an image, and taking all images out did not help or had its turn already.",
            "Images are taken out once in a query; the compaction of a prompt that was too long uses up the same try.",
        ),
        TerminalReason::ModelError => explanation(
            "The API or the model failed in a way that nothing cures, or longer than the patience lasts.",
            "Retries are bounded in number and by the job's time. No stop hook runs after an error.",
        ),
        TerminalReason::AbortedStreaming => explanation(
            "A signal, the job's time or the spending cap ended the loop while the model was asked.",
            "Every call that was shown has a result, so the conversation can be resumed.",
        ),
        TerminalReason::AbortedTools => explanation(
            "A signal, the job's time or a model that goes round in circles ended the loop while tools or gates ran.",
            "What has ended keeps its result, the rest gets a stand-in. The same call with the same result ends it at 12 in a row.",
        ),
        TerminalReason::StopHookPrevented => explanation(
            "A gate stayed red too often or could not be run, or a stop hook forbade going on.",
            "A gate may send the model back `max_blocks` times in a row (5 by default).",
        ),
        TerminalReason::HookStopped => explanation(
            "A hook around a tool call stopped the job.",
            "The other calls of that answer get stand-ins; the gates judge what was done by then.",
        ),
    }
}

/// Why a loop goes on so.
#[must_use]
pub const fn transition(transition: Transition) -> Explanation {
    match transition {
        Transition::NextTurn => explanation(
            "The tools of an answer have run, a follow-up was taken, or a background command has ended.",
            "`max_turns`, the token budget, the spending cap and the job's time.",
        ),
        Transition::CollapseDrainRetry => explanation(
            "The prompt was refused as too long, and digests of old turns were staged: they are shown now.",
            "Each staged digest is applied once; with none staged the next rung is a compaction.",
        ),
        Transition::ReactiveCompactRetry => explanation(
            "The prompt was refused as too long and has been summarised, or an image was refused and all have been taken out.",
            "Once in a query, also across the retries of stop hooks.",
        ),
        Transition::MaxOutputTokensEscalate => explanation(
            "An answer was cut at the default output limit: the same request goes out with the model's larger one.",
            "Once in a query, and not where `max_output_tokens` is set.",
        ),
        Transition::MaxOutputTokensRecovery => explanation(
            "An answer was cut at the output limit: the model goes on where it was cut off.",
            "3 times in a query. A call that was cut off is never run.",
        ),
        Transition::StopHookBlocking => explanation(
            "A gate is red or a stop hook objects: what it said goes to the model.",
            "`max_blocks` in a row for each; never after an error.",
        ),
        Transition::TokenBudgetContinuation => explanation(
            "The model stopped early, and the job says to keep working.",
            "Below 90 % of the token budget, and not after 3 continuations of which the last two brought fewer than 500 tokens each.",
        ),
    }
}
