//! Events without secrets. Every structure is taken apart by all its fields, so that a new one cannot be forgotten.

use super::Redactor;
use crate::event::{GateReport, JobInfo, JobReport, LoopEvent, RunEvent, RunEventKind, RunInfo};
use crate::outcome::{HookEvidence, ModelError, Outcome, Terminal};

impl Redactor {
    /// The event without secrets, as far as texts go: names of jobs and paths stay.
    #[must_use]
    pub fn event(&self, event: &RunEvent) -> RunEvent {
        let mut event = event.clone();
        if !self.is_empty() {
            self.kind(&mut event.kind);
        }
        event
    }

    /// What is known of a run, without secrets.
    #[must_use]
    pub fn run(&self, info: &RunInfo) -> RunInfo {
        let mut info = info.clone();
        self.run_info(&mut info);
        info
    }

    fn kind(&self, kind: &mut RunEventKind) {
        match kind {
            RunEventKind::RunStarted(info) => self.run_info(info),
            RunEventKind::Retrying { code: _, message, wait: _ } => self.text(message),
            RunEventKind::Turn { turn: _, usage: _, cost: _, request_id, text, tools } => {
                self.all(request_id);
                self.text(text);
                self.all(tools);
            }
            RunEventKind::ToolStarted { tool, subject } => {
                self.text(tool);
                self.text(subject);
            }
            RunEventKind::ToolFinished { tool, is_error: _, duration: _ } => self.text(tool),
            RunEventKind::GateStarted { gate, moment: _ }
            | RunEventKind::GateFinished { gate, moment: _, status: _, exit_code: _, duration: _ } => self.text(gate),
            RunEventKind::Note(text) | RunEventKind::Warning(text) | RunEventKind::Progress(text) => self.text(text),
            RunEventKind::JobFinished(report) => self.report(report),
            RunEventKind::Loop(event) => self.loop_event(event),
            RunEventKind::JobStarted
            | RunEventKind::Phase(_)
            | RunEventKind::ModelCalled { .. }
            | RunEventKind::Continued(_)
            | RunEventKind::InputStarted(_)
            | RunEventKind::InputCompleted(_)
            | RunEventKind::Interrupted(_)
            | RunEventKind::RunFinished { .. } => {}
        }
    }

    fn loop_event(&self, event: &mut LoopEvent) {
        match event {
            LoopEvent::CompactFailed { why, failures: _ } => self.text(why),
            LoopEvent::ModelFallback { from, to, why } => {
                self.text(from);
                self.text(to);
                self.text(why);
            }
            LoopEvent::ToolSummary(text)
            | LoopEvent::AgentStarted { agent: _, kind: _, description: text }
            | LoopEvent::HookFinished { hook: text, decision: _, duration: _ }
            | LoopEvent::CommandNoticed(text)
            | LoopEvent::CommandCompleted(text) => self.text(text),
            LoopEvent::ContextBoundary { .. } | LoopEvent::Tombstone { .. } | LoopEvent::AgentFinished { .. } => {}
        }
    }

    fn run_info(&self, info: &mut RunInfo) {
        let RunInfo { id: _, started_at: _, folder: _, shown_folder: _, jobs, slots: _, version: _ } = info;
        for job in jobs {
            self.job(job);
        }
    }

    fn job(&self, info: &mut JobInfo) {
        let JobInfo { id: _, file: _, stem: _, description, tags, model, max_turns: _, gates } = info;
        self.text(description);
        self.all(tags);
        self.text(model);
        self.all(gates);
    }

    fn report(&self, report: &mut JobReport) {
        let JobReport {
            info,
            outcome,
            transitions: _,
            turns: _,
            model_calls: _,
            retries: _,
            counts: _,
            usage: _,
            cost: _,
            started_at: _,
            duration: _,
            gates,
            protected_changes,
            base: _,
            branch,
            commit: _,
            worktree: _,
            last_words,
            attempt: _,
            attempts,
        } = report;
        self.job(info);
        self.outcome(outcome);
        for gate in gates {
            self.gate(gate);
        }
        self.all(protected_changes);
        self.all(branch);
        self.text(last_words);
        for attempt in attempts {
            self.outcome(&mut attempt.outcome);
            self.all(&mut attempt.branch);
        }
    }

    fn gate(&self, gate: &mut GateReport) {
        let GateReport {
            name,
            command,
            before: _,
            after: _,
            exit_code: _,
            runs: _,
            flaky: _,
            duration: _,
            tail,
            log: _,
        } = gate;
        self.text(name);
        self.text(command);
        self.text(tail);
    }

    fn outcome(&self, outcome: &mut Outcome) {
        let Outcome { reason: _, message, detail, terminal } = outcome;
        self.text(message);
        self.text(detail);
        if let Some(Terminal { reason: _, message, abort: _, error, hook, budget_exhausted: _ }) = terminal {
            self.text(message);
            if let Some(ModelError { kind: _, message, request_id, status: _ }) = error {
                self.text(message);
                self.all(request_id);
            }
            if let Some(HookEvidence { kind: _, name, tail, broken: _ }) = hook {
                self.text(name);
                self.text(tail);
            }
        }
    }

    fn all<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        texts.into_iter().for_each(|text| self.text(text));
    }

    fn text(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(redacted) = self.apply(text) {
            *text = redacted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Secret;
    use super::*;
    use crate::outcome::Reason;
    use crate::report::sample;

    #[test]
    fn no_text_of_a_report_keeps_a_secret() {
        let value = "sk_live_12345";
        let redactor = Redactor::new(&[Secret { name: "KEY".into(), value: value.into() }]);
        let mut report = sample::report("a", Reason::GateFailed);
        report.outcome.detail = format!("x {value} y");
        report.gates[0].tail = format!("{value}\n");
        if let Some(terminal) = &mut report.outcome.terminal {
            terminal.hook = Some(HookEvidence {
                kind: crate::outcome::HookKind::Gate,
                name: "g".into(),
                tail: value.into(),
                broken: false,
            });
        }
        let event = sample::event(1, "a", RunEventKind::JobFinished(Box::new(report)));
        let redacted = redactor.event(&event);
        let shown = format!("{redacted:?}");
        assert!(!shown.contains(value) && shown.matches("[redacted:KEY]").count() == 3, "{shown}");
        assert_eq!(Redactor::new(&[]).event(&event), event);
    }
}
