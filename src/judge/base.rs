//! Before the agent starts: did the gates do on the untouched base what they must?

use crate::event::GateStatus;
use crate::outcome::{Outcome, Reason};
use crate::plan::Before;

/// A gate's run on the untouched base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseGate<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it must do.
    pub wanted: Before,
    /// What it did.
    pub status: GateStatus,
    /// How it ended, as the end of a sentence ("failed with exit code 1").
    pub how: &'a str,
    /// The end of its output.
    pub tail: &'a str,
}

/// The outcome of the job when the base is not as it must be; `None` when the agent may start.
#[must_use]
pub fn judge_base(gate: &BaseGate<'_>) -> Option<Outcome> {
    let name = gate.name;
    let outcome = match (gate.wanted, gate.status) {
        (Before::Any, _) | (Before::Fail, GateStatus::Fail) | (Before::Pass, GateStatus::Pass) => return None,
        (Before::Fail | Before::Pass, GateStatus::Error) => {
            Outcome::without_loop(Reason::GateError, format!("gate `{name}` {} on the untouched base", gate.how))
        }
        (Before::Fail, GateStatus::Pass) => Outcome::without_loop(
            Reason::GateNotRed,
            format!(
                "gate `{name}` must be red on the untouched base (before = \"fail\"), but it passed: there is nothing to fix"
            ),
        ),
        (Before::Pass, GateStatus::Fail) => Outcome::without_loop(
            Reason::SetupFailed,
            format!("gate `{name}` must be green on the untouched base (before = \"pass\"), but it {}", gate.how),
        ),
    };
    Some(outcome.with_detail(gate.tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_must_be_as_the_gate_wants_it() {
        let judge = |wanted, status| {
            let gate = BaseGate { name: "tests", wanted, status, how: "failed", tail: "" };
            judge_base(&gate).map(|outcome| outcome.reason)
        };
        assert_eq!(judge(Before::Fail, GateStatus::Fail), None);
        assert_eq!(judge(Before::Fail, GateStatus::Pass), Some(Reason::GateNotRed));
        assert_eq!(judge(Before::Fail, GateStatus::Error), Some(Reason::GateError));
        assert_eq!(judge(Before::Pass, GateStatus::Pass), None);
        assert_eq!(judge(Before::Pass, GateStatus::Fail), Some(Reason::SetupFailed));
        assert_eq!(judge(Before::Pass, GateStatus::Error), Some(Reason::GateError));
    }
}
