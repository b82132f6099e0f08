//! Makes the folder of a run of any number of jobs, as a real one would have left it, from the same writers.
#![expect(clippy::wildcard_enum_match_arm, reason = "what is made up here covers what is made up here")]

use runner::event::{
    GateMoment, GateReport, GateStatus, JobInfo, JobReport, LoopCounts, Phase, RunEvent, RunEventKind, RunInfo,
};
use runner::exit::ExitStatus;
use runner::outcome::{Outcome, Reason, Terminal, TerminalReason, Transition, Verdict};
use runner::query::{AgentId, Block, Message, Origin, Role, ToolInput, ToolResult, ToolUse};
use runner::report::json::{self, TranscriptMeta};
use runner::report::tally::RunStats;
use runner::units::{Elapsed, JobId, RunId, Tokens, Turns, Usage, Usd};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;

const AREAS: [&str; 10] =
    ["parser", "http-client", "cache", "scheduler", "cli-args", "json-writer", "retry", "paths", "diff", "config"];
const TASKS: [&str; 8] = [
    "fix-panic-on-empty-input",
    "bound-memory-of-long-lines",
    "replace-deprecated-calls",
    "document-public-items",
    "test-error-paths",
    "remove-unused-feature",
    "handle-non-utf8-names",
    "speed-up-lookup",
];

/// A run whose files lie in `folder`: everything but its page.
pub(crate) fn make(folder: &Path, count: usize) -> RunStats {
    let jobs: Vec<One> = (0..count).map(One::new).collect();
    let run = RunInfo {
        id: RunId("20261130-223007-5be0c1".into()),
        started_at: "2026-11-30T22:30:07Z".into(),
        folder: folder.to_owned(),
        shown_folder: ".runner/runs/20261130-223007-5be0c1".into(),
        jobs: jobs.iter().map(One::info).collect(),
        slots: 16,
        version: "0.1.0".into(),
    };
    let mut stats = RunStats::new(run.clone());
    let mut events = Vec::new();
    for job in &jobs {
        fs::create_dir_all(folder.join("jobs").join(job.id.as_str()).join("tools")).unwrap();
        events.extend(job.write(&run, folder));
    }
    events.sort_by_key(|event| event.at);
    let end = events.last().map(|event| event.at).unwrap_or_default();
    let verdicts: Vec<Verdict> = jobs.iter().map(|job| job.reason.verdict()).collect();
    let exit = if verdicts.contains(&Verdict::Error) {
        ExitStatus::Error
    } else if verdicts.contains(&Verdict::Failed) {
        ExitStatus::Failed
    } else {
        ExitStatus::Passed
    };
    let first = RunEvent { at: Elapsed::default(), job: None, kind: RunEventKind::RunStarted(run) };
    let warning =
        RunEventKind::Warning("the checkout has uncommitted changes: the jobs start from HEAD without them".into());
    events.insert(0, first);
    events.insert(1, RunEvent { at: Elapsed::default(), job: None, kind: warning });
    events.push(RunEvent { at: end, job: None, kind: RunEventKind::RunFinished { exit } });
    let mut lines = String::new();
    for event in &events {
        stats.apply(event);
        lines += &json::event_line(event);
        lines.push('\n');
    }
    fs::write(folder.join("events.jsonl"), lines).unwrap();
    fs::write(folder.join("run.json"), json::run_file(&stats, &std::collections::BTreeMap::new(), &json!(null)))
        .unwrap();
    stats
}

/// A job of the run, all of it told by its number.
struct One {
    id: JobId,
    number: usize,
    reason: Reason,
    turns: u32,
    start: u64,
}

impl One {
    fn new(number: usize) -> Self {
        let (area, task) = (AREAS[number % AREAS.len()], TASKS[number / AREAS.len() % TASKS.len()]);
        let id = match number / (AREAS.len() * TASKS.len()) {
            0 => format!("{area}-{task}"),
            more => format!("{area}-{task}-{}", more + 1),
        };
        let reason = match number % 97 {
            3 | 51 => Reason::GateFailed,
            11 => Reason::MaxTurns,
            19 => Reason::Overloaded,
            23 => Reason::CompletedFlaky,
            29 => Reason::SetupFailed,
            37 => Reason::NoChanges,
            43 => Reason::Dependency,
            61 => Reason::CompletedAtLimit,
            67 => Reason::GateTampered,
            _ => Reason::Completed,
        };
        let turns = match reason {
            Reason::SetupFailed | Reason::Dependency => 0,
            Reason::MaxTurns | Reason::CompletedAtLimit => 40,
            _ => 5 + (number as u32 * 7) % 17,
        };
        Self {
            id: JobId::new(&id).unwrap(),
            number,
            reason,
            turns,
            start: (number as u64 / 16) * 95_000 + (number as u64 % 16) * 210,
        }
    }

    fn area(&self) -> &'static str {
        AREAS[self.number % AREAS.len()]
    }

    fn info(&self) -> JobInfo {
        JobInfo {
            id: self.id.clone(),
            file: format!("jobs/{}.toml", self.id),
            stem: self.id.to_string(),
            description: format!(
                "{} in the {}",
                TASKS[self.number / AREAS.len() % TASKS.len()].replace('-', " "),
                self.area()
            ),
            tags: vec![
                if self.number.is_multiple_of(3) { "weekly".into() } else { "nightly".into() },
                self.area().into(),
            ],
            model: "claude-sonnet-4-5".into(),
            max_turns: Turns(40),
            gates: vec!["tests".into(), "clippy".into()],
        }
    }

    /// Writes its files, and gives back its events.
    fn write(&self, run: &RunInfo, folder: &Path) -> Vec<RunEvent> {
        let folder = folder.join("jobs").join(self.id.as_str());
        let mut tape = Tape { at: self.start, job: self.id.clone(), events: Vec::new() };
        let mut talk = Vec::new();
        let mut usage = Usage::default();
        let mut cost = Usd::ZERO;
        if self.reason != Reason::Dependency {
            tape.say(0, RunEventKind::JobStarted);
            tape.say(0, RunEventKind::Phase(Phase::Worktree));
            tape.say(900, RunEventKind::Phase(Phase::Setup));
            if self.turns > 0 {
                tape.say(6_000, RunEventKind::Phase(Phase::Before));
                tape.gate("tests", GateMoment::Before, GateStatus::Fail, 4_100);
                tape.say(10, RunEventKind::Phase(Phase::Query));
                (usage, cost) = self.talk(run, &mut tape, &mut talk);
                tape.say(10, RunEventKind::Phase(Phase::Judging));
                let red = self.is_red();
                tape.gate("tests", GateMoment::Final, if red { GateStatus::Fail } else { GateStatus::Pass }, 5_200);
                tape.gate("clippy", GateMoment::Final, GateStatus::Pass, 2_900);
                tape.say(10, RunEventKind::Phase(Phase::Cleanup));
            }
        }
        let report = self.report(usage, cost, tape.at + 400);
        fs::write(folder.join("result.json"), json::result_file(&run.id, &report)).unwrap();
        if report.outcome.verdict() == Verdict::Error {
            tape.say(10, RunEventKind::Warning("its worktree could not be removed at once".into()));
        }
        tape.say(400, RunEventKind::JobFinished(Box::new(report)));
        if !talk.is_empty() {
            talk.push(String::new());
            fs::write(folder.join("transcript.jsonl"), talk.join("\n")).unwrap();
        }
        if self.turns > 0 && self.reason != Reason::NoChanges {
            fs::write(folder.join("diff.patch"), self.patch()).unwrap();
        }
        tape.events
    }

    fn is_red(&self) -> bool {
        matches!(self.reason, Reason::GateFailed | Reason::MaxTurns | Reason::GateTampered)
    }

    fn talk(&self, run: &RunInfo, tape: &mut Tape, talk: &mut Vec<String>) -> (Usage, Usd) {
        let system = "You work on a repository by its tools. Make the gates pass.\n".repeat(12);
        talk.push(json::meta_line(&TranscriptMeta {
            run: &run.id,
            job: &self.id,
            version: "0.1.0",
            model: "claude-sonnet-4-5",
            system: &system,
            tools: vec!["Read", "Edit", "Bash", "Grep"],
            base: Some("9f2c11d4e0a7"),
            branch: Some("runner/x"),
            worktree: None,
        }));
        let prompt = format!(
            "In the {} module, {}. The gates are `cargo nextest run` and `cargo clippy`.",
            self.area(),
            self.info().description
        );
        let mut id = 0;
        let mut said = |talk: &mut Vec<String>, at: u64, role, origin, blocks| {
            id += 1;
            talk.push(json::message_line(
                Elapsed::from_millis(at),
                AgentId::JOB,
                &Message { id, role, origin, blocks },
            ));
        };
        said(talk, tape.at, Role::User, Origin::Prompt, vec![Block::Text(prompt)]);
        let (mut sum, mut spent) = (Usage::default(), Usd::ZERO);
        let mut context = 4_200_u64;
        for turn in 1..=self.turns {
            tape.say(20, RunEventKind::ModelCalled { call: turn, turn: Turns(turn) });
            if (self.number + turn as usize).is_multiple_of(41) {
                let wait = Duration::from_millis(2_400);
                tape.say(700, RunEventKind::Retrying { code: "overloaded", message: "Overloaded".into(), wait });
                tape.say(2_400, RunEventKind::ModelCalled { call: turn, turn: Turns(turn) });
            }
            let fresh = 300 + (self.number as u64 * 31 + u64::from(turn) * 97) % 1_900;
            let usage = Usage {
                input: Tokens(12),
                cache_read: Tokens(if turn == 1 { 0 } else { context }),
                cache_write: Tokens(if turn == 1 { context } else { fresh }),
                output: Tokens(90 + fresh / 4),
            };
            let cost = Usd::from_dollars(
                (usage.cache_read.0 as f64 * 0.3 + usage.cache_write.0 as f64 * 3.75 + usage.output.0 as f64 * 15.0)
                    / 1e6,
            );
            context += fresh;
            let last = turn == self.turns;
            let (tool, input, result) = self.call(turn);
            let words = match (last, turn % 4) {
                (true, _) => {
                    "The input is checked before it is indexed now, and a test covers the empty case. All gates are green here."
                }
                (false, 1) => "I look at how the entry point treats its input before I change anything.",
                (false, 2) => "The index is taken before the length is known. That is the panic.",
                (false, _) => "",
            };
            let request = format!("req_011C{:06x}{turn:02}", self.number * 7_919);
            tape.say(
                2_100 + (fresh * 3) % 6_000,
                RunEventKind::Turn {
                    turn: Turns(turn),
                    usage,
                    cost,
                    request_id: Some(request.clone()),
                    text: words.into(),
                    tools: if last { Vec::new() } else { vec![tool.into()] },
                },
            );
            let mut blocks = Vec::new();
            if turn % 4 == 1 {
                let thought = "The failing test names the empty slice. Where is it split? ".repeat(4);
                blocks.push(Block::Thinking { text: thought, signature: "sig".into() });
            }
            if !words.is_empty() {
                blocks.push(Block::Text(words.into()));
            }
            let call = format!("toolu_{turn}");
            if !last {
                let serde_json::Value::Object(input) = input else { unreachable!("calls have objects") };
                blocks.push(Block::ToolUse(ToolUse {
                    id: call.as_str().into(),
                    name: tool.into(),
                    input: ToolInput::Object(input),
                }));
            }
            said(talk, tape.at, Role::Assistant, Origin::Model, blocks);
            talk.push(json::turn_line(Elapsed::from_millis(tape.at), Turns(turn), &usage, cost, Some(&request)));
            if last {
                tape.gate(
                    "tests",
                    GateMoment::Stop,
                    if self.is_red() { GateStatus::Fail } else { GateStatus::Pass },
                    4_800,
                );
            } else {
                let span = if tool == "Bash" { 1_800 } else { 40 };
                let failed = tool == "Bash" && turn < 5;
                tape.say(
                    span,
                    RunEventKind::ToolFinished {
                        tool: tool.into(),
                        is_error: failed,
                        duration: Duration::from_millis(span),
                    },
                );
                let result = Block::ToolResult(ToolResult::new(call.as_str().into(), result, failed));
                said(talk, tape.at, Role::User, Origin::ToolResults, vec![result]);
            }
            sum += usage;
            spent += cost;
        }
        (sum, spent)
    }

    fn call(&self, turn: u32) -> (&'static str, serde_json::Value, String) {
        let file = format!("src/{}/split.rs", self.area());
        match turn % 4 {
            1 => {
                let lines: Vec<String> = (1..60)
                    .map(|n| format!("{n:>5}\tpub fn field_{n}(input: &[u8]) -> Option<&[u8]> {{ input.get({n}..) }}"))
                    .collect();
                ("Read", json!({"file_path": file}), lines.join("\n"))
            }
            2 => (
                "Edit",
                json!({"file_path": file, "old_string": "let first = input[0];\nrest(first, &input[1..])", "new_string": "let Some((first, others)) = input.split_first() else {\n    return Err(Empty);\n};\nrest(*first, others)"}),
                format!("{file} was changed in 1 place"),
            ),
            3 => (
                "Bash",
                json!({"command": format!("cargo nextest run -p {}", self.area()), "timeout": 600_000}),
                nextest(self.area()),
            ),
            _ => (
                "Grep",
                json!({"pattern": "input\\[0\\]", "path": "src"}),
                format!("{file}:41:    let first = input[0];\n{file}:77:    if input[0] == b'\\n' {{").repeat(3),
            ),
        }
    }

    fn patch(&self) -> String {
        let area = self.area();
        let mut patch = format!(
            "diff --git a/src/{area}/split.rs b/src/{area}/split.rs\nindex 3f1a..88c2 100644\n--- a/src/{area}/split.rs\n+++ b/src/{area}/split.rs\n@@ -38,7 +38,10 @@ impl Splitter {{\n     /// The first field, and what follows it.\n     pub fn first<'a>(&self, input: &'a [u8]) -> Result<Field<'a>, Empty> {{\n-        let first = input[0];\n-        rest(first, &input[1..])\n+        // An empty input has no first field: callers may hand over the end of a file.\n+        let Some((first, others)) = input.split_first() else {{\n+            return Err(Empty);\n+        }};\n+        rest(*first, others)\n     }}\n \n     /// How many fields there are.\n"
        );
        let tests = 4 + self.number % 23;
        patch += &format!(
            "diff --git a/src/{area}/tests.rs b/src/{area}/tests.rs\nnew file mode 100644\nindex 0000..77aa\n--- /dev/null\n+++ b/src/{area}/tests.rs\n@@ -0,0 +1,{} @@\n",
            tests * 4
        );
        for n in 0..tests {
            patch += &format!(
                "+#[test]\n+fn case_{n}() {{\n+    assert_eq!(Splitter::new().first(&INPUTS[{n}]), Ok(EXPECTED[{n}]));\n+}}\n"
            );
        }
        patch
    }

    fn report(&self, usage: Usage, cost: Usd, end: u64) -> JobReport {
        let ran = self.turns > 0;
        let terminal_reason = match self.reason {
            Reason::MaxTurns | Reason::CompletedAtLimit => TerminalReason::MaxTurns,
            Reason::Overloaded => TerminalReason::ModelError,
            _ => TerminalReason::Completed,
        };
        let terminal = ran.then(|| Terminal {
            reason: terminal_reason,
            message: "the model finished".into(),
            abort: None,
            error: None,
            hook: None,
            budget_exhausted: false,
        });
        let tail = if self.is_red() {
            nextest(self.area())
        } else {
            "     Summary [   5.204s] 311 tests run: 311 passed, 0 skipped\n".into()
        };
        let after = ran.then_some(if self.is_red() { GateStatus::Fail } else { GateStatus::Pass });
        let gate = |name: &str, command: &str, before, after: Option<GateStatus>, tail: String| GateReport {
            name: name.into(),
            command: command.into(),
            before,
            after,
            exit_code: after.map(|after| if after == GateStatus::Fail { 100 } else { 0 }),
            runs: if ran { 3 } else { 0 },
            flaky: self.number % 97 == 5 && name == "tests",
            duration: Duration::from_millis(5_200),
            tail,
            log: Some(format!("jobs/{}/tools/gate-{name}.log", self.id)),
        };
        let mut report = JobReport {
            info: self.info(),
            outcome: Outcome { reason: self.reason, message: self.message(), detail: self.detail(), terminal },
            transitions: (1..self.turns).map(|_| Transition::NextTurn).collect(),
            turns: Turns(self.turns),
            model_calls: self.turns,
            retries: 0,
            counts: LoopCounts::default(),
            usage,
            cost: if self.number % 97 == 71 { None } else { Some(cost) },
            started_at: Elapsed::from_millis(self.start),
            duration: Duration::from_millis(end - self.start),
            gates: vec![
                gate(
                    "tests",
                    "cargo nextest run",
                    ran.then_some(GateStatus::Fail),
                    after,
                    if ran { tail } else { String::new() },
                ),
                gate(
                    "clippy",
                    "cargo clippy --all-targets -- -D warnings",
                    None,
                    ran.then_some(GateStatus::Pass),
                    String::new(),
                ),
            ],
            protected_changes: if self.reason == Reason::GateTampered {
                vec!["tests/golden/empty.txt".into(), "tests/golden/one.txt".into()]
            } else {
                Vec::new()
            },
            base: Some("9f2c11d4e0a7".into()),
            branch: ran.then(|| format!("runner/20261130-223007-5be0c1/{}", self.id)),
            commit: ran.then(|| "c01ab7720e13".into()),
            worktree: None,
            last_words: if ran { "All gates are green here.".into() } else { String::new() },
            attempt: 1,
            attempts: Vec::new(),
        };
        report.attempts.push(report.as_attempt(1));
        if self.reason == Reason::CompletedFlaky {
            let first = Outcome {
                reason: Reason::GateFailed,
                message: "the gate `tests` is red on the final tree".into(),
                ..report.outcome.clone()
            };
            let second = report.as_attempt(2);
            report.attempts[0].outcome = first;
            report.attempts.push(second);
            report.attempt = 2;
        }
        report
    }

    fn message(&self) -> String {
        match self.reason {
            Reason::GateFailed => "the gate `tests` is red on the final tree: 2 of 311 tests fail",
            Reason::MaxTurns => "the limit of 40 turns was reached, and the gate `tests` is red",
            Reason::Overloaded => "the provider was overloaded longer than the patience of 10 minutes lasts",
            Reason::CompletedFlaky => "passed on try 2, the first try ended as `gate_failed`",
            Reason::SetupFailed => "`npm ci` failed with exit code 1",
            Reason::NoChanges => "the model finished and changed nothing",
            Reason::Dependency => "the job `parser-fix-panic-on-empty-input` that it needs did not pass",
            Reason::CompletedAtLimit => "the turn limit was reached; the gate that was red on the base is green",
            Reason::GateTampered => "the gate `tests` passes only with the changes to protected files",
            _ => "the gates are green",
        }
        .into()
    }

    fn detail(&self) -> String {
        if self.reason == Reason::SetupFailed {
            return "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve\nnpm error While resolving: site@2.1.0\nnpm error Found: react@19.0.0\n".into();
        }
        String::new()
    }
}

/// The events of a job while its time passes.
struct Tape {
    at: u64,
    job: JobId,
    events: Vec<RunEvent>,
}

impl Tape {
    /// So many milliseconds later.
    fn say(&mut self, later: u64, kind: RunEventKind) {
        self.at += later;
        self.events.push(RunEvent { at: Elapsed::from_millis(self.at), job: Some(self.job.clone()), kind });
    }

    fn gate(&mut self, name: &str, moment: GateMoment, status: GateStatus, took: u64) {
        self.say(10, RunEventKind::GateStarted { gate: name.into(), moment });
        let exit_code = Some(if status == GateStatus::Pass { 0 } else { 100 });
        let duration = Duration::from_millis(took);
        self.say(took, RunEventKind::GateFinished { gate: name.into(), moment, status, exit_code, duration });
    }
}

fn nextest(area: &str) -> String {
    let mut text = format!(
        "    Starting 311 tests across 14 binaries\n        PASS [   0.004s] {area} split::tests::two_fields\n"
    );
    text += &format!(
        "        \x1b[31mFAIL\x1b[0m [   0.006s] {area} split::tests::empty_input\n\n──── STDERR:             {area} split::tests::empty_input\nthread 'split::tests::empty_input' panicked at src/{area}/split.rs:41:26:\nindex out of bounds: the len is 0 but the index is 0\n\n"
    );
    text += &format!(
        "        FAIL [   0.005s] {area} split::tests::only_a_newline\n────────────\n     Summary [   3.912s] 311 tests run: 309 passed, 2 failed, 0 skipped\n"
    );
    text
}
