//! Every code of a report, found by its name.

use super::{reason, terminal, transition};
use crate::exit::ExitStatus;
use crate::outcome::{Fault, Reason, TerminalReason, Transition};
use std::fmt::Write;

/// All codes, each once.
#[must_use]
pub fn codes() -> Vec<&'static str> {
    let mut codes: Vec<&'static str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    codes.extend(TerminalReason::ALL.iter().map(|terminal| terminal.code()));
    codes.extend(Transition::ALL.iter().map(|transition| transition.code()));
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// What a code means; one that stands for several things is explained as each of them. `None`: there is no such code.
#[must_use]
pub fn explain(code: &str) -> Option<String> {
    let mut text = String::new();
    for reason in Reason::ALL.iter().filter(|reason| reason.code() == code) {
        let fault = reason.fault().map(|fault| format!(", fault: {}", Fault::code(fault))).unwrap_or_default();
        let explanation = super::reason(*reason);
        let _ = writeln!(
            text,
            "{code}: how a job ends (verdict: {}{fault})\n  {}\n  What to do: {}",
            reason.verdict().code(),
            explanation.when,
            explanation.guard
        );
    }
    for terminal in TerminalReason::ALL.into_iter().filter(|terminal| terminal.code() == code) {
        let explanation = super::terminal(terminal);
        let _ = writeln!(text, "{code}: how the loop of a job ends\n  {}\n  {}", explanation.when, explanation.guard);
    }
    for transition in Transition::ALL.into_iter().filter(|transition| transition.code() == code) {
        let explanation = super::transition(transition);
        let _ = writeln!(
            text,
            "{code}: why the loop of a job goes on\n  {}\n  Bounded by: {}",
            explanation.when, explanation.guard
        );
    }
    for exit in ExitStatus::ALL.into_iter().filter(|exit| exit.code().to_string() == code) {
        let _ = writeln!(text, "exit code {code}: {}", exit_text(exit));
    }
    (!text.is_empty()).then_some(text)
}

/// All codes in short.
#[must_use]
pub fn list() -> String {
    let mut text = "How a job ends:\n".to_owned();
    for reason in Reason::ALL {
        let _ =
            writeln!(text, "  {:<22} {:<10} {}", reason.code(), reason.verdict().code(), self::reason(*reason).when);
    }
    text.push_str("How the loop of a job ends:\n");
    for one in TerminalReason::ALL {
        let _ = writeln!(text, "  {:<22} {}", one.code(), terminal(one).when);
    }
    text.push_str("Why it goes on:\n");
    for one in Transition::ALL {
        let _ = writeln!(text, "  {:<28} {}", one.code(), transition(one).when);
    }
    text.push_str("Exit codes:\n");
    for exit in ExitStatus::ALL {
        let _ = writeln!(text, "  {:<4} {}", exit.code(), exit_text(exit));
    }
    text
}

const fn exit_text(exit: ExitStatus) -> &'static str {
    match exit {
        ExitStatus::Passed => "every job passed",
        ExitStatus::Failed => "some job failed, or was skipped because another one did",
        ExitStatus::Usage => "the command line or a job file is wrong, and nothing was run",
        ExitStatus::Error => "some job could not be judged, or reports could not be written",
        ExitStatus::NoJobs => "no job matched",
        ExitStatus::Interrupted => "interrupted (SIGINT); `runner resume` goes on",
        ExitStatus::Terminated => "terminated (SIGTERM); `runner resume` goes on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_and_listed() {
        let list = list();
        for code in codes() {
            assert!(explain(code).is_some_and(|text| text.len() > 40), "{code}");
            assert!(list.contains(code), "{code}");
        }
        assert!(explain("3").unwrap().contains("could not be judged"));
        assert_eq!(explain("nonsense"), None);
        assert!(explain("completed").unwrap().contains("how the loop of a job ends"));
    }
}
