//! When a job did what: read line by line from `events.jsonl`, which only ever grows.

use crate::report::json::UsageValue;
use crate::units::{JobId, Usage, Usd};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// The times of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    /// When it began, in seconds since the run began; `None` when it never did.
    pub(super) started: Option<f64>,
    /// The last that is known of it.
    pub(super) ended: f64,
    pub(super) spans: Vec<Span>,
    pub(super) turns: Vec<TurnRow>,
    /// Turns that there was no room for.
    pub(super) more_turns: usize,
    phase: Option<(Lane, Cow<'static, str>, f64)>,
    calls: VecDeque<f64>,
}

/// What a job was busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Waiting,
    Setup,
    Model,
    Tools,
    Gates,
}

impl Lane {
    pub(super) const ALL: [Self; 5] = [Self::Waiting, Self::Setup, Self::Model, Self::Tools, Self::Gates];
}

/// One stretch of time, in seconds since the run began.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) lane: Lane,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) what: String,
    pub(super) bad: bool,
}

/// What a turn used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TurnRow {
    pub(super) turn: u32,
    pub(super) at: f64,
    /// Seconds from the call to its answer, where both are known.
    pub(super) took: Option<f64>,
    pub(super) usage: Usage,
    pub(super) cost: Usd,
    pub(super) tools: Vec<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    at: f64,
    #[serde(borrow)]
    event: Cow<'a, str>,
    phase: Option<String>,
    turn: Option<u32>,
    usage: Option<UsageValue>,
    cost_usd: Option<f64>,
    #[serde(default)]
    tools: Option<Vec<String>>,
    tool: Option<String>,
    is_error: Option<bool>,
    gate: Option<String>,
    hook: Option<String>,
    moment: Option<String>,
    status: Option<String>,
    code: Option<String>,
    duration_s: Option<f64>,
    wait_s: Option<f64>,
}

/// The times of the jobs of a page.
#[derive(Clone, Debug, Default)]
pub struct Tapes(BTreeMap<JobId, Tape>);

impl Tapes {
    /// Takes note of a line of `events.jsonl`, if it is about a job that `is_wanted`.
    pub fn apply(&mut self, line: &str, is_wanted: impl Fn(&JobId) -> bool) {
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(borrow)]
            job: Option<Cow<'a, str>>,
        }
        let Ok(Head { job: Some(name) }) = serde_json::from_str(line) else { return };
        let Ok(job) = JobId::new(&name) else { return };
        if is_wanted(&job) {
            self.0.entry(job).or_default().apply(line);
        }
    }

    /// Those of a job.
    pub(super) fn of(&self, job: &JobId) -> Option<&Tape> {
        self.0.get(job)
    }
}

impl Tape {
    /// More stretches than these are not told one by one.
    const SPANS: usize = 4_000;
    /// More turns than these are counted only.
    const TURNS: usize = 300;

    /// Takes note of a line about this job. What cannot be read is passed over.
    pub(super) fn apply(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<Line<'_>>(line) else { return };
        if !line.at.is_finite() || line.at < 0.0 {
            return;
        }
        self.ended = self.ended.max(line.at);
        let before = |seconds: Option<f64>| (line.at - seconds.unwrap_or_default().max(0.0)).max(0.0);
        match &*line.event {
            "job_started" => self.started = Some(self.started.map_or(line.at, |known| known.min(line.at))),
            "phase" => {
                self.leave_phase(line.at);
                self.phase = match line.phase.as_deref() {
                    Some("worktree") => Some((Lane::Setup, "making the worktree".into(), line.at)),
                    Some("setup") => Some((Lane::Setup, "setup".into(), line.at)),
                    Some("cleanup") => Some((Lane::Setup, "saving the work".into(), line.at)),
                    // The others are told by what happens in them.
                    Some(_) | None => None,
                };
            }
            "model_called" => self.calls.push_back(line.at),
            "retrying" => {
                let code = line.code.unwrap_or_default();
                if let Some(from) = self.calls.pop_front() {
                    self.span(Lane::Model, from, line.at, format!("a call that failed: {code}"), true);
                }
                let until = line.at + line.wait_s.unwrap_or_default().max(0.0);
                self.span(Lane::Waiting, line.at, until, format!("before the next try: {code}"), true);
            }
            "turn" => {
                let from = self.calls.pop_front();
                let turn = line.turn.unwrap_or_default();
                if let Some(from) = from {
                    self.span(Lane::Model, from, line.at, format!("turn {turn}"), false);
                }
                self.turn(TurnRow {
                    turn,
                    at: line.at,
                    took: from.map(|from| line.at - from),
                    usage: line.usage.map(Usage::from).unwrap_or_default(),
                    cost: Usd::from_dollars(line.cost_usd.unwrap_or_default()),
                    tools: line.tools.unwrap_or_default(),
                });
            }
            "tool_finished" => {
                let what = line.tool.unwrap_or_default();
                self.span(Lane::Tools, before(line.duration_s), line.at, what, line.is_error == Some(true));
            }
            "gate_finished" => {
                let moment = match line.moment.as_deref() {
                    Some("before") => " on the base",
                    Some("final") => " on the final tree",
                    Some(_) | None => "",
                };
                let status = line.status.unwrap_or_default();
                // Red on the base is what many a job begins with.
                let bad = status != "pass" && line.moment.as_deref() != Some("before");
                let what = format!("{}{moment}: {status}", line.gate.unwrap_or_default());
                self.span(Lane::Gates, before(line.duration_s), line.at, what, bad);
            }
            "hook_finished" => {
                let what = line.hook.unwrap_or_default();
                self.span(Lane::Gates, before(line.duration_s), line.at, what, false);
            }
            "job_finished" => {
                self.leave_phase(line.at);
                while let Some(from) = self.calls.pop_front() {
                    self.span(Lane::Model, from, line.at, "a call without an answer".into(), true);
                }
            }
            _ => {}
        }
    }

    fn leave_phase(&mut self, at: f64) {
        if let Some((lane, what, from)) = self.phase.take() {
            self.span(lane, from, at, what.into_owned(), false);
        }
    }

    fn span(&mut self, lane: Lane, from: f64, to: f64, what: String, bad: bool) {
        let from = from.max(self.started.unwrap_or_default());
        if self.spans.len() < Self::SPANS {
            self.spans.push(Span { lane, from, to: to.max(from), what, bad });
        } else if let Some(last) = self.spans.iter_mut().rfind(|span| span.lane == lane) {
            last.to = last.to.max(to);
            last.bad |= bad;
        }
    }

    fn turn(&mut self, row: TurnRow) {
        if self.turns.len() < Self::TURNS {
            self.turns.push(row);
        } else {
            self.more_turns += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Tokens;

    fn tape(lines: &[&str]) -> Tape {
        let mut tape = Tape::default();
        for line in lines {
            tape.apply(line);
        }
        tape
    }

    #[test]
    fn every_stretch_has_its_lane() {
        let tape = tape(&[
            r#"{"at":1.0,"job":"a","event":"job_started"}"#,
            r#"{"at":1.0,"job":"a","event":"phase","phase":"setup"}"#,
            r#"{"at":2.0,"job":"a","event":"phase","phase":"query"}"#,
            r#"{"at":2.0,"job":"a","event":"model_called","call":1,"turn":1}"#,
            r#"{"at":3.0,"job":"a","event":"retrying","code":"overloaded","message":"m","wait_s":1.5}"#,
            r#"{"at":4.5,"job":"a","event":"model_called","call":2,"turn":1}"#,
            r#"{"at":6.0,"job":"a","event":"turn","turn":1,"usage":{"input_tokens":10,"cache_read_tokens":90,"cache_write_tokens":0,"output_tokens":5},"cost_usd":0.5,"text":"x","tools":["Bash"]}"#,
            r#"{"at":7.0,"job":"a","event":"tool_finished","tool":"Bash","is_error":true,"duration_s":0.5}"#,
            r#"{"at":9.0,"job":"a","event":"gate_finished","gate":"tests","moment":"final","status":"fail","exit_code":1,"duration_s":2.0}"#,
            "torn {",
            r#"{"at":9.5,"job":"a","event":"job_finished"}"#,
        ]);
        let told: Vec<String> = tape
            .spans
            .iter()
            .map(|span| {
                format!("{:?} {}-{} {}{}", span.lane, span.from, span.to, span.what, if span.bad { " !" } else { "" })
            })
            .collect();
        assert_eq!(
            told,
            [
                "Setup 1-2 setup",
                "Model 2-3 a call that failed: overloaded !",
                "Waiting 3-4.5 before the next try: overloaded !",
                "Model 4.5-6 turn 1",
                "Tools 6.5-7 Bash !",
                "Gates 7-9 tests on the final tree: fail !",
            ]
        );
        assert_eq!((tape.started, tape.ended, tape.turns.len()), (Some(1.0), 9.5, 1));
        assert_eq!((tape.turns[0].took, tape.turns[0].usage.cache_read), (Some(1.5), Tokens(90)));
        let mut tapes = Tapes::default();
        for line in
            [r#"{"at":1,"job":"a","event":"job_started"}"#, "{", r#"{"at":1,"job":"../b","event":"job_started"}"#]
        {
            tapes.apply(line, |_| true);
        }
        let ids: Vec<&str> = tapes.0.keys().map(JobId::as_str).collect();
        assert_eq!(ids, ["a"]);
    }

    #[test]
    fn a_tape_without_end_stays_bounded() {
        let mut tape = Tape::default();
        for n in 0..10_000 {
            tape.apply(&format!(r#"{{"at":{n},"job":"a","event":"turn","turn":{n}}}"#));
            tape.apply(&format!(r#"{{"at":{n},"job":"a","event":"tool_finished","tool":"T","duration_s":0.5}}"#));
        }
        assert_eq!((tape.turns.len(), tape.more_turns, tape.spans.len()), (300, 9_700, 4_000));
        assert_eq!(tape.spans.last().unwrap().to, 9_999.0);
    }
}
