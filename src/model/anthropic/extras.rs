//! Fields that only some servers take. Each is a field of the body and a beta in a header, which go together. They are
//! advice or relief, never worth a failed job: what a server has refused once, it is not sent again.

use crate::outcome::ModelErrorKind;
use crate::query::{Clearing, Failure, ModelCall, Remedy, TaskBudget};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The extras of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct Extras {
    task_budget: Option<TaskBudget>,
    clearing: Option<Clearing>,
}

/// What a server has refused.
#[derive(Debug, Default)]
pub(in crate::model) struct Refused {
    task_budget: AtomicBool,
    clearing: AtomicBool,
}

const TASK_BUDGET: &str = "task-budgets-2026-03-13";
const CLEARING: &str = "context-management-2025-06-27";

impl Extras {
    /// The betas that they need.
    pub(in crate::model) fn betas(&self) -> impl Iterator<Item = &'static str> {
        [self.task_budget.map(|_| TASK_BUDGET), self.clearing.map(|_| CLEARING)].into_iter().flatten()
    }

    /// The fields of the body, each after a comma.
    pub(super) fn fields(&self) -> String {
        let mut fields = String::new();
        if let Some(TaskBudget { total, remaining }) = self.task_budget {
            let budget = json!({"type": "tokens", "total": total.0, "remaining": remaining.min(total).0});
            fields.push_str(&format!(",\"output_config\":{}", json!({"task_budget": budget})));
        }
        if let Some(Clearing { trigger, keep, at_least }) = self.clearing {
            let edit = json!({
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": trigger.0},
                "keep": {"type": "tool_uses", "value": keep},
                "clear_at_least": {"type": "input_tokens", "value": at_least.0},
            });
            fields.push_str(&format!(",\"context_management\":{}", json!({"edits": [edit]})));
        }
        fields
    }
}

impl Refused {
    /// What a call asks for, without what was refused before.
    pub(in crate::model) fn allowed(&self, call: &ModelCall) -> Extras {
        Extras {
            task_budget: call.task_budget.filter(|_| !self.task_budget.load(Ordering::Relaxed)),
            clearing: call.clearing.filter(|_| !self.clearing.load(Ordering::Relaxed)),
        }
    }

    /// What the failure of a request with these extras means: when it is about one of them, the next try goes without it,
    /// at once.
    pub(in crate::model) fn judge(&self, failure: Failure, sent: Extras) -> Failure {
        if failure.kind != ModelErrorKind::InvalidRequest || failure.remedy == Remedy::StripThinking {
            return failure;
        }
        let message = failure.message.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let mut budget = names(&["task_budget", "output_config", TASK_BUDGET]);
        let mut clearing = names(&["context_management", "clear_tool_uses", CLEARING]);
        if !budget && !clearing && names(&["anthropic-beta", "anthropic_beta", "beta flag"]) {
            (budget, clearing) = (true, true); // It does not say which.
        }
        budget &= sent.task_budget.is_some();
        clearing &= sent.clearing.is_some();
        if !budget && !clearing {
            return failure;
        }
        self.task_budget.fetch_or(budget, Ordering::Relaxed);
        self.clearing.fetch_or(clearing, Ordering::Relaxed);
        Failure { remedy: Remedy::Retry { after: Some(Duration::ZERO) }, ..failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::History;
    use crate::units::Tokens;
    use serde_json::Value;

    fn call() -> ModelCall {
        ModelCall {
            task_budget: Some(TaskBudget { total: Tokens(50_000), remaining: Tokens(40_000) }),
            clearing: Some(Clearing { trigger: Tokens(100_000), keep: 3, at_least: Tokens(5000) }),
            ..ModelCall::first(History::default())
        }
    }

    fn refusal(message: &str) -> Failure {
        let kind = ModelErrorKind::InvalidRequest;
        let message = format!("HTTP 400 invalid_request_error: {message}");
        Failure { remedy: Remedy::GiveUp, kind, message, request_id: None, status: Some(400) }
    }

    fn fields(extras: &Extras) -> Value {
        serde_json::from_str(&format!("{{\"a\":1{}}}", extras.fields())).unwrap()
    }

    const AT_ONCE: Remedy = Remedy::Retry { after: Some(Duration::ZERO) };

    #[test]
    fn the_fields_are_those_of_the_api_and_come_with_their_betas() {
        let extras = Refused::default().allowed(&call());
        assert_eq!(
            fields(&extras),
            json!({
                "a": 1,
                "output_config": {"task_budget": {"type": "tokens", "total": 50_000, "remaining": 40_000}},
                "context_management": {"edits": [{
                    "type": "clear_tool_uses_20250919",
                    "trigger": {"type": "input_tokens", "value": 100_000},
                    "keep": {"type": "tool_uses", "value": 3},
                    "clear_at_least": {"type": "input_tokens", "value": 5000},
                }]},
            })
        );
        assert_eq!(extras.betas().collect::<Vec<_>>(), [TASK_BUDGET, CLEARING]);
        assert_eq!((Extras::default().fields().as_str(), Extras::default().betas().count()), ("", 0));
        let spent = TaskBudget { total: Tokens(20_000), remaining: Tokens(30_000) };
        let extras = Extras { task_budget: Some(spent), clearing: None };
        assert_eq!(fields(&extras)["output_config"]["task_budget"]["remaining"], 20_000, "never more than the total");
    }

    #[test]
    fn what_was_refused_is_left_out_from_then_on() {
        for (message, left) in [
            ("context_management: Extra inputs are not permitted", &[TASK_BUDGET][..]),
            ("output_config: Extra inputs are not permitted", &[CLEARING]),
            ("output_config.task_budget: Extra inputs are not permitted", &[CLEARING]),
            ("task_budget: Extra inputs are not permitted", &[CLEARING]),
            (
                "Unexpected value(s) `task-budgets-2026-03-13` for the `anthropic-beta` header. Please consult our documentation",
                &[CLEARING],
            ),
            (
                "Unexpected value(s) `context-management-2025-06-27`, `task-budgets-2026-03-13` for the `anthropic-beta` header.",
                &[],
            ),
            ("invalid beta flag", &[]),
        ] {
            let refused = Refused::default();
            let failure = refused.judge(refusal(message), refused.allowed(&call()));
            assert_eq!((failure.remedy, failure.kind), (AT_ONCE, ModelErrorKind::InvalidRequest), "{message}");
            let rest = refused.allowed(&call());
            assert_eq!(rest.betas().collect::<Vec<_>>(), left, "{message}");
            assert_eq!(refused.judge(refusal(message), rest).remedy, Remedy::GiveUp, "{message}: nothing is left");
        }
    }

    #[test]
    fn other_failures_stay_what_they_are() {
        let refused = Refused::default();
        let sent = refused.allowed(&call());
        let thinking = Failure { remedy: Remedy::StripThinking, ..refusal("use the `anthropic-beta` header") };
        let busy = Failure { kind: ModelErrorKind::Overloaded, ..refusal("context_management") };
        for failure in [refusal("max_tokens: Field required"), thinking, busy] {
            assert_eq!(refused.judge(failure.clone(), sent), failure);
        }
        let plain = refusal("context_management: Extra inputs are not permitted");
        assert_eq!(refused.judge(plain.clone(), Extras::default()), plain, "it was not sent");
        assert_eq!(refused.allowed(&call()), sent);
    }

    #[test]
    fn two_calls_that_are_refused_at_once_are_both_tried_again() {
        let refused = Refused::default();
        let sent = refused.allowed(&call());
        for _ in 0..2 {
            assert_eq!(refused.judge(refusal("context_management: no"), sent).remedy, AT_ONCE);
        }
    }
}
