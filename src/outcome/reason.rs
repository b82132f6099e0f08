//! The reasons that a job can end for, each with its verdict and its fault: one list that everything shown is derived from.

/// What was found about a job: the first thing that a person reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The work was done, as far as the gates can tell.
    Passed,
    /// The work was not done.
    Failed,
    /// It could not be judged, or could not be tried.
    Error,
    /// It was never started.
    Skipped,
    /// It was stopped from outside.
    Cancelled,
}

impl Verdict {
    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Whose fault it is that a job did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The model's.
    Model,
    /// A gate's.
    Gate,
    /// A limit that was set.
    Limit,
    /// The machine's, the network's or the provider's.
    Infra,
    /// The person's: key, balance, job file.
    User,
}

impl Fault {
    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Gate => "gate",
            Self::Limit => "limit",
            Self::Infra => "infra",
            Self::User => "user",
        }
    }
}

/// Declares [`Reason`] once: variant, code, verdict, fault.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $verdict:ident, $fault:expr;)*) => {
        /// Why a job ended as it did. The code is what reports carry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// All of them, for generated documents and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The verdict that follows from it.
            #[must_use]
            pub const fn verdict(self) -> Verdict {
                match self { $(Self::$name => Verdict::$verdict,)* }
            }

            /// Whose fault it is; `None` where nothing went wrong.
            #[must_use]
            pub const fn fault(self) -> Option<Fault> {
                match self { $(Self::$name => $fault,)* }
            }
        }
    };
}

reasons! {
    /// The model finished, and every gate is green on the final tree.
    Completed = "completed", Passed, None;
    /// As `completed`, but on a later try: an earlier one had failed.
    CompletedFlaky = "completed_flaky", Passed, None;
    /// A limit ended the loop, but a gate that proved red on the base is green now.
    CompletedAtLimit = "completed_at_limit", Passed, None;
    /// A gate is red on the final tree.
    GateFailed = "gate_failed", Failed, Some(Fault::Model);
    /// The gates pass only with changes to protected paths.
    GateTampered = "gate_tampered", Failed, Some(Fault::Model);
    /// Nothing was changed, and the job requires changes.
    NoChanges = "no_changes", Failed, Some(Fault::Model);
    /// The turn limit was reached.
    MaxTurns = "max_turns", Failed, Some(Fault::Limit);
    /// The token budget was reached.
    TokenBudget = "token_budget", Failed, Some(Fault::Limit);
    /// The spending cap was reached.
    CostLimit = "cost_limit", Failed, Some(Fault::Limit);
    /// The wall clock of the job ran out.
    Timeout = "timeout", Failed, Some(Fault::Limit);
    /// The model made the same call with the same result, again and again.
    LoopDetected = "loop_detected", Failed, Some(Fault::Model);
    /// The context no longer fits the model's window.
    ContextExhausted = "context_exhausted", Failed, Some(Fault::Limit);
    /// The answer was cut at the output limit.
    OutputTruncated = "output_truncated", Failed, Some(Fault::Limit);
    /// The model's answer made no sense as a message.
    MalformedOutput = "malformed_output", Failed, Some(Fault::Model);
    /// An image was refused, also after all images were taken out of the conversation.
    Media = "media", Failed, Some(Fault::Model);
    /// The model declined for reasons of policy.
    Refused = "refused", Failed, Some(Fault::Model);
    /// A gate blocked more often than `max_blocks`, its `on_fail = "stop"` ended the loop, or a stop hook forbade going on.
    StopHookPrevented = "stop_hook_prevented", Failed, Some(Fault::Gate);
    /// A tool hook stopped the loop.
    HookStopped = "hook_stopped", Failed, Some(Fault::Gate);
    /// A `before = "fail"` gate was green on the untouched base: there is nothing to fix.
    GateNotRed = "gate_not_red", Failed, Some(Fault::Gate);
    /// The provider refused the key.
    Auth = "auth", Error, Some(Fault::User);
    /// The provider wants money, or its spending limit is reached.
    Billing = "billing", Error, Some(Fault::User);
    /// The provider does not know the model.
    ModelNotFound = "model_not_found", Error, Some(Fault::User);
    /// The provider refused the request as malformed.
    InvalidRequest = "invalid_request", Error, Some(Fault::Infra);
    /// Too many requests, until the patience ran out.
    RateLimited = "rate_limited", Error, Some(Fault::Infra);
    /// The service stayed overloaded.
    Overloaded = "overloaded", Error, Some(Fault::Infra);
    /// The service failed in another way.
    Api = "api", Error, Some(Fault::Infra);
    /// The connection or the stream kept failing.
    Stream = "stream", Error, Some(Fault::Infra);
    /// A setup command failed, or a `before = "pass"` gate was red on the untouched base.
    SetupFailed = "setup_failed", Error, Some(Fault::User);
    /// The worktree could not be made, or was lost.
    WorktreeFailed = "worktree_failed", Error, Some(Fault::Infra);
    /// A gate could not be run: its program is missing, it was killed, or it timed out.
    GateError = "gate_error", Error, Some(Fault::Gate);
    /// A hook could not be run: its program is missing, or it was killed.
    HookError = "hook_error", Error, Some(Fault::Gate);
    /// A fault of the runner itself, such as a panic; this job alone is affected.
    Internal = "internal", Error, Some(Fault::Infra);
    /// Not started, since a job that it needs did not pass.
    Dependency = "dependency", Skipped, None;
    /// Not started, since it had passed in the run that this one repeats.
    AlreadyDone = "already_done", Skipped, None;
    /// Not started, since another job failed and the run was told to stop then.
    FailFast = "fail_fast", Skipped, None;
    /// Stopped by a signal, or never started because of it.
    Interrupted = "interrupted", Cancelled, None;
}

impl Reason {
    /// Whether a limit that the person set ended the work, so that a proven fix may still pass.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::MaxTurns | Self::TokenBudget | Self::CostLimit | Self::Timeout)
    }

    /// Whether another try could end otherwise. What the person has to mend, or has stopped, stays as it is.
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::GateFailed
            | Self::GateTampered
            | Self::NoChanges
            | Self::MaxTurns
            | Self::TokenBudget
            | Self::Timeout
            | Self::LoopDetected
            | Self::ContextExhausted
            | Self::OutputTruncated
            | Self::MalformedOutput
            | Self::Media
            | Self::Refused
            | Self::StopHookPrevented
            | Self::HookStopped
            | Self::RateLimited
            | Self::Overloaded
            | Self::Api
            | Self::Stream
            | Self::SetupFailed
            | Self::WorktreeFailed
            | Self::GateError
            | Self::HookError
            | Self::Internal => true,
            // A green gate on the base, a refused key or request: the same again. A spent cap is spent for every try.
            Self::CostLimit
            | Self::GateNotRed
            | Self::Auth
            | Self::Billing
            | Self::ModelNotFound
            | Self::InvalidRequest
            | Self::Completed
            | Self::CompletedFlaky
            | Self::CompletedAtLimit
            | Self::Dependency
            | Self::AlreadyDone
            | Self::FailFast
            | Self::Interrupted => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique() {
        let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
    }

    #[test]
    fn only_a_pass_or_a_stop_from_outside_has_no_fault() {
        for reason in Reason::ALL {
            let blameless = match reason.verdict() {
                Verdict::Passed | Verdict::Skipped | Verdict::Cancelled => true,
                Verdict::Failed | Verdict::Error => false,
            };
            assert_eq!(reason.fault().is_none(), blameless, "{}", reason.code());
        }
    }
}
