//! How things end: the [`Terminal`] of a query, and the [`Outcome`] of a job that follows from it and from the gates.
//!
//! Everything that tells a person or a program how a job ended (exit code, `JUnit`, `result.json`, events, summary, table) is
//! derived from the one [`Outcome`] value. Its enums are matched without a wildcard, so a new reason breaks each
//! reporter until it is handled. Codes are a contract: they may be added, never renamed.

mod reason;

pub use reason::{Fault, Reason, Verdict};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why the query loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TerminalReason {
    /// The model finished and nothing objected, or the token budget ran out.
    Completed,
    /// The turn limit was reached.
    MaxTurns,
    /// The context is at the hard limit, and no automatic compaction can help.
    BlockingLimit,
    /// Every recovery from a prompt that is too long failed.
    PromptTooLong,
    /// An image was refused, also after all images were taken out.
    ImageError,
    /// A gate blocked too often or could not be run, or a stop hook forbade going on.
    StopHookPrevented,
    /// A tool hook stopped the query.
    HookStopped,
    /// An API or model error without recovery.
    ModelError,
    /// Aborted while the model streamed, or between turns.
    AbortedStreaming,
    /// Aborted while tools or gates ran.
    AbortedTools,
}

impl TerminalReason {
    /// All of them, for generated documents and tests.
    pub const ALL: [Self; 10] = [
        Self::Completed,
        Self::MaxTurns,
        Self::BlockingLimit,
        Self::PromptTooLong,
        Self::ImageError,
        Self::ModelError,
        Self::AbortedStreaming,
        Self::AbortedTools,
        Self::StopHookPrevented,
        Self::HookStopped,
    ];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxTurns => "max_turns",
            Self::BlockingLimit => "blocking_limit",
            Self::PromptTooLong => "prompt_too_long",
            Self::ImageError => "image_error",
            Self::StopHookPrevented => "stop_hook_prevented",
            Self::HookStopped => "hook_stopped",
            Self::ModelError => "model_error",
            Self::AbortedStreaming => "aborted_streaming",
            Self::AbortedTools => "aborted_tools",
        }
    }
}

/// Why the loop went on instead of ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// Tools ran, or a queued input was taken: the model is asked again.
    NextTurn,
    /// The prompt was too long: old parts of the conversation that were set aside for it are shown as digests now.
    CollapseDrainRetry,
    /// The prompt was too long, or an image was refused: the conversation was summarised, or its images taken out.
    ReactiveCompactRetry,
    /// The answer was cut at the default output limit: the same request again with a larger one.
    MaxOutputTokensEscalate,
    /// The answer was cut at the output limit: the model goes on where it was cut off.
    MaxOutputTokensRecovery,
    /// A gate or a stop hook objected: what it said goes to the model.
    StopHookBlocking,
    /// The model stopped early, and the job says to keep working while there is budget.
    TokenBudgetContinuation,
}

impl Transition {
    /// All of them, for generated documents and tests.
    pub const ALL: [Self; 7] = [
        Self::NextTurn,
        Self::CollapseDrainRetry,
        Self::ReactiveCompactRetry,
        Self::MaxOutputTokensEscalate,
        Self::MaxOutputTokensRecovery,
        Self::StopHookBlocking,
        Self::TokenBudgetContinuation,
    ];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NextTurn => "next_turn",
            Self::CollapseDrainRetry => "collapse_drain_retry",
            Self::ReactiveCompactRetry => "reactive_compact_retry",
            Self::StopHookBlocking => "stop_hook_blocking",
            Self::TokenBudgetContinuation => "token_budget_continuation",
            Self::MaxOutputTokensEscalate => "max_output_tokens_escalate",
            Self::MaxOutputTokensRecovery => "max_output_tokens_recovery",
        }
    }
}

/// Who pulled the abort signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AbortReason {
    /// Ctrl-C or SIGTERM.
    Interrupt,
    /// The job's wall clock ran out.
    Timeout,
    /// The next call could have passed the spending cap.
    CostLimit,
    /// Another job failed and the run was told to stop then.
    FailFast,
    /// The model made the same call with the same result too often in a row.
    LoopDetected,
    /// A newer input replaces the turn.
    Input,
}

impl AbortReason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Interrupt, Self::Timeout, Self::CostLimit, Self::FailFast, Self::LoopDetected, Self::Input];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Timeout => "timeout",
            Self::CostLimit => "cost_limit",
            Self::FailFast => "fail_fast",
            Self::LoopDetected => "loop_detected",
            Self::Input => "input",
        }
    }
}

/// What kind of model error ended a query: the part of it that a job's reason needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelErrorKind {
    /// The key was refused, is missing, or lacks the right.
    Auth,
    /// No money, or the provider's own spending limit.
    Billing,
    /// The provider does not know the model.
    ModelNotFound,
    /// The provider refused the request as malformed.
    InvalidRequest,
    /// The prompt no longer fits the model's window.
    ContextExhausted,
    /// The answer was cut at the output limit.
    OutputTruncated,
    /// An image was refused: too large, too many, or not readable.
    Media,
    /// The model declined for reasons of policy.
    Refused,
    /// The answer made no sense as a message.
    MalformedOutput,
    /// Too many requests, until the patience ran out.
    RateLimited,
    /// The service was overloaded, until the patience ran out.
    Overloaded,
    /// Another error of the service.
    Api,
    /// The connection or the stream failed, until the patience ran out.
    Stream,
}

impl ModelErrorKind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Auth,
        Self::Billing,
        Self::ModelNotFound,
        Self::InvalidRequest,
        Self::ContextExhausted,
        Self::OutputTruncated,
        Self::Media,
        Self::Refused,
        Self::MalformedOutput,
        Self::RateLimited,
        Self::Overloaded,
        Self::Api,
        Self::Stream,
    ];

    /// The stable code: that of the reason that a job with this error carries.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.reason().code()
    }

    /// The reason that a job with this error carries.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Auth => Reason::Auth,
            Self::Billing => Reason::Billing,
            Self::ModelNotFound => Reason::ModelNotFound,
            Self::InvalidRequest => Reason::InvalidRequest,
            Self::ContextExhausted => Reason::ContextExhausted,
            Self::OutputTruncated => Reason::OutputTruncated,
            Self::Media => Reason::Media,
            Self::Refused => Reason::Refused,
            Self::MalformedOutput => Reason::MalformedOutput,
            Self::RateLimited => Reason::RateLimited,
            Self::Overloaded => Reason::Overloaded,
            Self::Api => Reason::Api,
            Self::Stream => Reason::Stream,
        }
    }
}

/// The end of a query, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Why it ended.
    pub reason: TerminalReason,
    /// One line in plain words.
    pub message: String,
    /// Set for the two aborted reasons.
    pub abort: Option<AbortReason>,
    /// Set for `model_error`, `prompt_too_long` and `image_error`.
    pub error: Option<ModelError>,
    /// Set for `stop_hook_prevented` and `hook_stopped`: the gate or hook that decided.
    pub hook: Option<HookEvidence>,
    /// The token budget ended the query (reason `completed`).
    pub budget_exhausted: bool,
}

/// A model error as a terminal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// What kind.
    pub kind: ModelErrorKind,
    /// The provider's words, or ours, without secrets.
    pub message: String,
    /// The provider's id of the failed request, for its support.
    pub request_id: Option<String>,
    /// The HTTP status, where there was an answer.
    pub status: Option<u16>,
}

/// The gate or hook that ended a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEvidence {
    /// What it is.
    pub kind: HookKind,
    /// Its name.
    pub name: String,
    /// The end of its output, or its own words.
    pub tail: String,
    /// It could not be run at all, so that its end means nothing.
    pub broken: bool,
}

/// What may end a query besides the model and the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// A gate: its exit code judges the work.
    Gate,
    /// A stop hook that is no gate.
    Stop,
    /// A hook around tool calls.
    Tool,
}

impl HookKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gate, Self::Stop, Self::Tool];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Stop => "stop",
            Self::Tool => "tool",
        }
    }
}

/// How a job ended: the one value that every report is derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why; verdict and fault follow from it.
    pub reason: Reason,
    /// One line in plain words.
    pub message: String,
    /// More evidence, of several lines: a tail of output, an error's causes. May be empty.
    pub detail: String,
    /// How the loop ended, where it ran.
    pub terminal: Option<Terminal>,
}

impl Outcome {
    /// An outcome of a job whose loop never ran.
    #[must_use]
    pub fn without_loop(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), detail: String::new(), terminal: None }
    }

    /// With more evidence.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// What was found.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.reason.fault()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.verdict().code(), self.reason.code(), self.message)
    }
}
