//! After the loop: the terminal, the gates on the final tree and the changes make one outcome.

use crate::event::GateStatus;
use crate::outcome::{AbortReason, HookKind, Outcome, Reason, Terminal, TerminalReason};

/// What was found about the work.
#[derive(Clone, Debug)]
pub struct Work {
    /// How the loop ended.
    pub terminal: Terminal,
    /// The gates on the final tree; empty where the job has none, or where it was stopped from outside.
    pub gates: Vec<FinalGate>,
    /// Whether the final tree, protected paths restored, differs from the one that the agent was given.
    pub changed: bool,
    /// Whether an unchanged tree can pass.
    pub require_changes: bool,
    /// Protected paths that the agent had changed.
    pub protected_changes: Vec<String>,
    /// The gates were all green on the tree as the agent left it, protected changes included.
    pub green_with_protected_changes: bool,
}

/// A gate on the final tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalGate {
    /// Its name.
    pub name: String,
    /// It was red on the base, as it had to be.
    pub proved_red: bool,
    /// What it said.
    pub status: GateStatus,
    /// How it ended, as the end of a sentence.
    pub how: String,
    /// The end of its output.
    pub tail: String,
}

/// Makes the outcome of a job whose loop has run.
#[must_use]
pub fn judge_work(work: &Work) -> Outcome {
    let (reason, message, detail) = decide(work);
    Outcome { reason, message, detail, terminal: Some(work.terminal.clone()) }
}

fn decide(work: &Work) -> (Reason, String, String) {
    let terminal = &work.terminal;
    let as_it_ended = |reason: Reason| (reason, terminal.message.clone(), String::new());
    match (terminal.reason, terminal.abort, &terminal.error) {
        (_, Some(AbortReason::Interrupt | AbortReason::Input), _) => as_it_ended(Reason::Interrupted),
        (_, Some(AbortReason::FailFast), _) => as_it_ended(Reason::FailFast),
        (_, Some(AbortReason::LoopDetected), _) => as_it_ended(Reason::LoopDetected),
        (_, Some(AbortReason::Timeout), _) => at_limit(work, Reason::Timeout),
        (_, Some(AbortReason::CostLimit), _) => at_limit(work, Reason::CostLimit),
        (TerminalReason::MaxTurns, None, _) => at_limit(work, Reason::MaxTurns),
        (TerminalReason::Completed, None, _) if terminal.budget_exhausted => at_limit(work, Reason::TokenBudget),
        (TerminalReason::Completed, None, _) => by_gates(work),
        (TerminalReason::StopHookPrevented, None, _) => prevented(work, Reason::StopHookPrevented),
        (TerminalReason::HookStopped, None, _) => prevented(work, Reason::HookStopped),
        // Work that was done before the window was full is judged like work before any other limit.
        (TerminalReason::BlockingLimit | TerminalReason::PromptTooLong, None, _) => {
            at_limit(work, Reason::ContextExhausted)
        }
        (TerminalReason::ImageError, None, _) => as_it_ended(Reason::Media),
        (TerminalReason::ModelError, None, Some(error)) => {
            let id = error.request_id.as_ref().map(|id| format!("request id: {id}")).unwrap_or_default();
            (error.kind.reason(), error.message.clone(), id)
        }
        (TerminalReason::ModelError | TerminalReason::AbortedStreaming | TerminalReason::AbortedTools, None, _) => {
            as_it_ended(Reason::Internal)
        }
    }
}

/// The loop came to its own end: the gates decide.
fn by_gates(work: &Work) -> (Reason, String, String) {
    if let Some(gate) = first(work, GateStatus::Error) {
        return (Reason::GateError, format!("gate `{}` {} on the final tree", gate.name, gate.how), gate.tail.clone());
    }
    if let Some(gate) = first(work, GateStatus::Fail) {
        let name = &gate.name;
        return if !work.protected_changes.is_empty() && work.green_with_protected_changes {
            let paths = work.protected_changes.join(", ");
            let message = format!("gate `{name}` passes only with the agent's changes to protected paths: {paths}");
            (Reason::GateTampered, message, gate.tail.clone())
        } else {
            (Reason::GateFailed, format!("gate `{name}` {} on the final tree", gate.how), gate.tail.clone())
        };
    }
    if work.require_changes && !work.changed {
        let message = if work.protected_changes.is_empty() {
            "the model finished without changing anything, and the job requires changes".to_owned()
        } else {
            "nothing but protected paths was changed, and the job requires changes".to_owned()
        };
        return (Reason::NoChanges, message, String::new());
    }
    let message = match work.gates.len() {
        0 => "the model finished; the job has no gates".to_owned(),
        1 => "the gate is green on the final tree".to_owned(),
        count => format!("all {count} gates are green on the final tree"),
    };
    (Reason::Completed, message, String::new())
}

/// A limit ended the loop. It is not the verdict: a gate that proved red on the base and is green now proves the work.
fn at_limit(work: &Work, limit: Reason) -> (Reason, String, String) {
    if is_proven(work) {
        let message = format!(
            "{}; the work was done by then: every gate is green, one was red on the base",
            work.terminal.message
        );
        return (Reason::CompletedAtLimit, message, String::new());
    }
    let red = work.gates.iter().find(|gate| gate.status != GateStatus::Pass);
    let detail = red.map(|gate| format!("gate `{}` {}\n{}", gate.name, gate.how, gate.tail)).unwrap_or_default();
    (limit, work.terminal.message.clone(), detail)
}

/// A gate or a hook ended the loop.
fn prevented(work: &Work, reason: Reason) -> (Reason, String, String) {
    let broken = work.terminal.hook.as_ref().filter(|hook| hook.broken);
    if let Some(hook) = broken {
        let reason = match hook.kind {
            HookKind::Gate => Reason::GateError,
            HookKind::Stop | HookKind::Tool => Reason::HookError,
        };
        return (reason, work.terminal.message.clone(), hook.tail.clone());
    }
    if let Some(gate) = first(work, GateStatus::Error) {
        return (Reason::GateError, format!("gate `{}` {} on the final tree", gate.name, gate.how), gate.tail.clone());
    }
    if is_proven(work) {
        return at_limit(work, reason);
    }
    let tail = work.terminal.hook.as_ref().map(|gate| gate.tail.clone()).unwrap_or_default();
    (reason, work.terminal.message.clone(), tail)
}

fn is_proven(work: &Work) -> bool {
    work.gates.iter().all(|gate| gate.status == GateStatus::Pass)
        && work.gates.iter().any(|gate| gate.proved_red)
        && (work.changed || !work.require_changes)
}

fn first(work: &Work, status: GateStatus) -> Option<&FinalGate> {
    work.gates.iter().find(|gate| gate.status == status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{HookEvidence, HookKind, ModelError, ModelErrorKind};

    fn terminal(reason: TerminalReason) -> Terminal {
        Terminal {
            reason,
            message: "so it ended".into(),
            abort: None,
            error: None,
            hook: None,
            budget_exhausted: false,
        }
    }

    fn gate(status: GateStatus) -> FinalGate {
        FinalGate { name: "tests".into(), proved_red: false, status, how: "did so".into(), tail: "tail".into() }
    }

    fn work(terminal: Terminal, gates: &[FinalGate]) -> Work {
        Work {
            terminal,
            gates: gates.to_vec(),
            changed: true,
            require_changes: true,
            protected_changes: Vec::new(),
            green_with_protected_changes: false,
        }
    }

    fn completed(gates: &[FinalGate]) -> Work {
        work(terminal(TerminalReason::Completed), gates)
    }

    #[test]
    fn a_completed_loop_is_judged_by_its_gates() {
        let judge = |work: &Work| judge_work(work).reason;
        assert_eq!(judge(&completed(&[])), Reason::Completed);
        assert_eq!(judge(&completed(&[gate(GateStatus::Pass)])), Reason::Completed);
        assert_eq!(judge(&completed(&[gate(GateStatus::Pass), gate(GateStatus::Fail)])), Reason::GateFailed);
        assert_eq!(judge(&completed(&[gate(GateStatus::Fail), gate(GateStatus::Error)])), Reason::GateError);
        assert_eq!(judge(&Work { changed: false, ..completed(&[gate(GateStatus::Pass)]) }), Reason::NoChanges);
        assert_eq!(judge(&Work { changed: false, ..completed(&[gate(GateStatus::Fail)]) }), Reason::GateFailed);
        let unchanged = Work { changed: false, require_changes: false, ..completed(&[gate(GateStatus::Pass)]) };
        assert_eq!(judge(&unchanged), Reason::Completed);
    }

    #[test]
    fn a_gate_that_needs_a_protected_change_is_tampered_with() {
        let edited = |green| Work {
            protected_changes: vec!["tests/a.rs".into()],
            green_with_protected_changes: green,
            ..completed(&[gate(GateStatus::Fail)])
        };
        assert_eq!(judge_work(&edited(true)).reason, Reason::GateTampered);
        assert_eq!(judge_work(&edited(false)).reason, Reason::GateFailed);
        let green_anyway =
            Work { protected_changes: vec!["tests/a.rs".into()], ..completed(&[gate(GateStatus::Pass)]) };
        assert_eq!(judge_work(&green_anyway).reason, Reason::Completed);
    }

    #[test]
    fn a_limit_passes_only_with_a_proof() {
        let limits = [
            (terminal(TerminalReason::MaxTurns), Reason::MaxTurns),
            (Terminal { budget_exhausted: true, ..terminal(TerminalReason::Completed) }, Reason::TokenBudget),
            (Terminal { abort: Some(AbortReason::Timeout), ..terminal(TerminalReason::AbortedTools) }, Reason::Timeout),
            (
                Terminal { abort: Some(AbortReason::CostLimit), ..terminal(TerminalReason::AbortedStreaming) },
                Reason::CostLimit,
            ),
        ];
        let proof = FinalGate { proved_red: true, ..gate(GateStatus::Pass) };
        for (end, reason) in limits {
            assert!(reason.is_limit());
            let judge = |gates: &[FinalGate]| judge_work(&work(end.clone(), gates)).reason;
            assert_eq!(judge(&[]), reason);
            assert_eq!(judge(&[gate(GateStatus::Pass)]), reason);
            assert_eq!(judge(std::slice::from_ref(&proof)), Reason::CompletedAtLimit);
            assert_eq!(judge(&[proof.clone(), gate(GateStatus::Fail)]), reason);
            assert_eq!(judge(&[proof.clone(), gate(GateStatus::Error)]), reason);
            let unchanged = Work { changed: false, ..work(end.clone(), std::slice::from_ref(&proof)) };
            assert_eq!(judge_work(&unchanged).reason, reason);
        }
    }

    #[test]
    fn a_gate_that_prevented_the_end_is_the_reason() {
        let end = |broken| Terminal {
            hook: Some(HookEvidence { kind: HookKind::Gate, name: "tests".into(), tail: "tail".into(), broken }),
            ..terminal(TerminalReason::StopHookPrevented)
        };
        assert_eq!(judge_work(&work(end(false), &[gate(GateStatus::Fail)])).reason, Reason::StopHookPrevented);
        assert_eq!(judge_work(&work(end(true), &[gate(GateStatus::Error)])).reason, Reason::GateError);
        let proof = FinalGate { proved_red: true, ..gate(GateStatus::Pass) };
        assert_eq!(judge_work(&work(end(false), &[proof])).reason, Reason::CompletedAtLimit);
    }

    #[test]
    fn an_error_is_never_a_pass_however_green_the_gates() {
        let error = |kind| Terminal {
            error: Some(ModelError { kind, message: "no".into(), request_id: Some("req_1".into()), status: Some(401) }),
            ..terminal(TerminalReason::ModelError)
        };
        for (kind, reason) in [
            (ModelErrorKind::Auth, Reason::Auth),
            (ModelErrorKind::RateLimited, Reason::RateLimited),
            (ModelErrorKind::ContextExhausted, Reason::ContextExhausted),
        ] {
            let outcome = judge_work(&work(error(kind), &[FinalGate { proved_red: true, ..gate(GateStatus::Pass) }]));
            assert_eq!(outcome.reason, reason);
            assert_eq!(outcome.detail, "request id: req_1");
        }
    }

    #[test]
    fn a_stop_from_outside_is_its_own_reason() {
        let stopped = |reason| Terminal { abort: Some(reason), ..terminal(TerminalReason::AbortedTools) };
        assert_eq!(judge_work(&work(stopped(AbortReason::Interrupt), &[])).reason, Reason::Interrupted);
        assert_eq!(judge_work(&work(stopped(AbortReason::FailFast), &[])).reason, Reason::FailFast);
    }
}
