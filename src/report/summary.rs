//! `summary.md`: the run for people. What did not pass comes first; the whole is bounded, and a cut says so.

use super::cut;
use super::tally::{JobState, JobStats, RunStats};
use crate::event::{GateReport, GateStatus, JobReport, RunEvent, RunEventKind};
use crate::outcome::{Outcome, Verdict};
use crate::units::{JobId, show_duration};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The largest summary, in bytes: GitHub drops a step summary above 1 MiB as a whole.
pub const MAX: usize = 900_000;
/// The most of a gate's output or of other evidence, in bytes.
const TAIL_MAX: usize = 4_000;
/// The longest message, in bytes.
const MESSAGE_MAX: usize = 1_000;
/// How many warnings are shown.
const WARNINGS_MAX: usize = 20;
/// Room kept for the sentence that says what was left out, in bytes.
const LEFT_OUT: usize = 200;

/// Gathers a run for `summary.md`. A job's section is written once, when it ends.
#[derive(Debug, Default)]
pub struct Summary {
    sections: BTreeMap<JobId, String>,
}

impl Summary {
    /// Takes note of an event. `folder` is the run's, as shown.
    pub fn apply(&mut self, folder: &str, event: &RunEvent) {
        if let RunEventKind::JobFinished(report) = &event.kind
            && report.outcome.verdict() != Verdict::Passed
        {
            self.sections.insert(report.info.id.clone(), section(folder, report));
        }
    }

    /// The summary in at most `limit` bytes of whole, valid Markdown; empty where not even its head fits. `stats` has
    /// taken note of the same events.
    #[must_use]
    pub fn render(&self, stats: &RunStats, limit: usize) -> String {
        let mut text = head(stats);
        if text.len() + LEFT_OUT > limit {
            return if text.len() <= limit { text } else { String::new() };
        }
        let room = limit - LEFT_OUT;
        let mut jobs: Vec<&JobStats> = stats.jobs.iter().collect();
        jobs.sort_by_key(|job| rank(job)); // Stable: the order of the plan within a rank.
        table(&mut text, &jobs, room);
        let sections: Vec<&String> = jobs.iter().filter_map(|job| self.sections.get(&job.info.id)).collect();
        for (shown, section) in sections.iter().enumerate() {
            if text.len() + section.len() > room {
                let more = sections.len() - shown;
                let _ =
                    write!(text, "\n{more} more jobs did not pass; there is no room for them here: see `junit.xml`.\n");
                return text;
            }
            text.push_str(section);
        }
        let warnings = warnings(stats);
        if text.len() + warnings.len() <= room {
            text.push_str(&warnings);
        }
        text
    }
}

/// What did not pass comes before what did, and both before what has not ended.
fn rank(job: &JobStats) -> u8 {
    match job.report().map(|report| report.outcome.verdict()) {
        Some(Verdict::Failed | Verdict::Error | Verdict::Cancelled) => 0,
        Some(Verdict::Skipped) => 1,
        Some(Verdict::Passed) => 3,
        None => 2,
    }
}

fn head(stats: &RunStats) -> String {
    let totals = stats.totals();
    let exit = match stats.exit {
        Some(exit) => format!("exit code {}", exit.code()),
        None => "not finished".into(),
    };
    let calls = match totals.retries {
        0 => format!("{} model calls", totals.model_calls),
        retries => format!("{} model calls ({retries} retries)", totals.model_calls),
    };
    format!(
        "# runner: {}\n\nRun `{}`, {}, {} tokens, {}, {calls}, {exit}.\n",
        totals.verdicts(),
        stats.run.id,
        show_duration(stats.now.0),
        totals.usage.counted(),
        inline(&totals.price(), 40),
    )
}

fn table(text: &mut String, jobs: &[&JobStats], room: usize) {
    if jobs.is_empty() {
        return;
    }
    text.push_str(
        "\n| Job | Verdict | Reason | Terminal | Turns | Tokens | Cost | Time |\n|---|---|---|---|--:|--:|--:|--:|\n",
    );
    for (shown, job) in jobs.iter().enumerate() {
        let row = row(job);
        if text.len() + row.len() > room {
            let _ = write!(text, "\n{} more jobs are left out of this table.\n", jobs.len() - shown);
            return;
        }
        text.push_str(&row);
    }
}

fn row(job: &JobStats) -> String {
    let name = inline(job.info.id.as_str(), 200);
    match &job.state {
        JobState::Waiting => format!("| {name} | waiting | | | | | | |\n"),
        JobState::Running => format!("| {name} | running | | | {} | | | |\n", job.live.turns),
        JobState::Ended(report) => format!(
            "| {name} | {} | `{}` | {} | {} | {} | {} | {} |\n",
            mark(&report.outcome),
            report.outcome.reason.code(),
            report
                .outcome
                .terminal
                .as_ref()
                .map(|terminal| format!("`{}`", terminal.reason.code()))
                .unwrap_or_default(),
            report.turns,
            report.counted_tokens(),
            report.cost.map(|cost| inline(&cost.to_string(), 40)).unwrap_or_default(),
            show_duration(report.duration),
        ),
    }
}

fn mark(outcome: &Outcome) -> String {
    match outcome.verdict() {
        Verdict::Passed => "passed".into(),
        verdict @ (Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled) => {
            format!("**{}**", verdict.code())
        }
    }
}

fn section(run_folder: &str, report: &JobReport) -> String {
    let outcome = &report.outcome;
    let mut text = format!(
        "\n## {}: {} (`{}`)\n\n{}\n",
        inline(report.info.id.as_str(), 200),
        outcome.verdict().code(),
        outcome.reason.code(),
        inline(&outcome.message, MESSAGE_MAX),
    );
    if !report.info.description.is_empty() {
        let _ = write!(text, "\nThe job: {}\n", inline(&report.info.description, MESSAGE_MAX));
    }
    if !outcome.detail.trim().is_empty() {
        text.push_str(&fenced(&outcome.detail));
    }
    for gate in report.gates.iter().filter(|gate| matches!(gate.after, Some(GateStatus::Fail | GateStatus::Error))) {
        text.push_str(&gate_part(gate, outcome));
    }
    text.push_str(&places(run_folder, report));
    text
}

fn gate_part(gate: &GateReport, outcome: &Outcome) -> String {
    let color = if gate.after == Some(GateStatus::Error) { "broken" } else { "red" };
    let exit = gate.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    let before = gate.before.map(|status| format!(", `{}` on the base", status.code())).unwrap_or_default();
    let name = inline(&gate.name, 200);
    let mut text = format!("\nGate {name} is {color} on the final tree{exit}{before}: {}\n", code(&gate.command, 300));
    // The outcome's detail is often this very output.
    if !gate.tail.trim().is_empty() && gate.tail.trim() != outcome.detail.trim() {
        text.push_str(&fenced(&gate.tail));
    }
    text
}

fn places(run_folder: &str, report: &JobReport) -> String {
    let folder = format!("{run_folder}/jobs/{}", report.info.id);
    let mut text = String::from("\n");
    let mut item = |what: &str, value: &str| {
        let _ = writeln!(text, "- {what}: {}", code(value, 600));
    };
    item("job file", &report.info.file);
    item("patch", &format!("{folder}/diff.patch"));
    item("transcript", &format!("{folder}/transcript.jsonl"));
    for gate in &report.gates {
        if let Some(log) = &gate.log {
            item("gate output", &format!("{run_folder}/{log}"));
        }
    }
    if let Some(branch) = &report.branch {
        item("branch", branch);
    }
    if let Some(worktree) = &report.worktree {
        item("worktree", &worktree.display().to_string());
    }
    if !report.protected_changes.is_empty() {
        item("protected files that were changed, and restored", &report.protected_changes.join(", "));
    }
    text
}

fn warnings(stats: &RunStats) -> String {
    if stats.warnings.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Warnings\n\n");
    for warning in stats.warnings.iter().take(WARNINGS_MAX) {
        let who = warning.job.as_ref().map(|job| format!("{}: ", inline(job.as_str(), 200))).unwrap_or_default();
        let _ = writeln!(text, "- {who}{}", inline(&warning.text, 500));
    }
    if stats.warnings.len() > WARNINGS_MAX {
        let _ = writeln!(text, "- and {} more, in `events.jsonl`", stats.warnings.len() - WARNINGS_MAX);
    }
    text
}

/// Text in a fence longer than any run of backticks in it, so that it cannot break out.
fn fenced(text: &str) -> String {
    let part = cut::clean_tail(text, TAIL_MAX);
    let cut = if text.len() > TAIL_MAX { "Its end:\n" } else { "" };
    let fence = "`".repeat(longest_run(&part).max(2) + 1);
    format!("\n{cut}{fence}text\n{part}\n{fence}\n")
}

/// A short text as code, whatever backticks are in it.
fn code(text: &str, max: usize) -> String {
    let line = cut::one_line(text, max);
    let fence = "`".repeat(longest_run(&line) + 1);
    let pad = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// One line of text from outside, with nothing in it that Markdown or HTML would take for its own.
fn inline(text: &str, max: usize) -> String {
    let mut escaped = String::new();
    for c in cut::one_line(text, max).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::exit::ExitStatus;
    use crate::outcome::Reason;
    use insta::assert_snapshot;

    fn ended(report: JobReport) -> RunEventKind {
        RunEventKind::JobFinished(Box::new(report))
    }

    /// A run in both of its gatherings.
    struct Run(RunStats, Summary);

    impl Run {
        fn new(jobs: &[&str]) -> Self {
            Self(RunStats::new(sample::run(jobs)), Summary::default())
        }

        fn apply(&mut self, event: &RunEvent) {
            self.0.apply(event);
            self.1.apply(&self.0.run.shown_folder, event);
        }

        fn render(&self, limit: usize) -> String {
            self.1.render(&self.0, limit)
        }
    }

    #[test]
    fn failures_come_first() {
        let mut run = Run::new(&["good", "bad", "open"]);
        run.apply(&sample::event(1, "good", sample::finished("good", Reason::Completed)));
        let mut bad = sample::report("bad", Reason::GateFailed);
        bad.worktree = Some("/w/bad".into());
        bad.protected_changes = vec!["tests/a.rs".into()];
        run.apply(&sample::event(2, "bad", ended(bad)));
        run.apply(&sample::event(3, "open", RunEventKind::JobStarted));
        run.apply(&sample::event(3, "open", RunEventKind::Warning("a file was left out".into())));
        run.apply(&sample::event(12_300, "", RunEventKind::RunFinished { exit: ExitStatus::Failed }));
        assert_snapshot!(run.render(MAX), @r"
        # runner: 1 passed, 1 failed, 1 running

        Run `20261130-235522-3f2a9c`, 12.3s, 3.0k tokens, \$0.0246, 16 model calls (2 retries), exit code 1.

        | Job | Verdict | Reason | Terminal | Turns | Tokens | Cost | Time |
        |---|---|---|---|--:|--:|--:|--:|
        | bad | **failed** | `gate_failed` | `completed` | 7 | 1.5k | \$0.0123 | 12.3s |
        | open | running | | | 0 | | | |
        | good | passed | `completed` | `completed` | 7 | 1.5k | \$0.0123 | 12.3s |

        ## bad: failed (`gate_failed`)

        this is why: gate\_failed

        Gate tests is red on the final tree, exit code 101, `fail` on the base: `cargo test`

        ```text
        running 1 test

        test parse_empty ... FAILED
        ```

        - job file: `jobs/bad.toml`
        - patch: `.runner/runs/20261130-235522-3f2a9c/jobs/bad/diff.patch`
        - transcript: `.runner/runs/20261130-235522-3f2a9c/jobs/bad/transcript.jsonl`
        - gate output: `.runner/runs/20261130-235522-3f2a9c/jobs/bad/tools/gate-tests.log`
        - branch: `runner/r/bad`
        - worktree: `/w/bad`
        - protected files that were changed, and restored: `tests/a.rs`

        ## Warnings

        - open: a file was left out
        ");
    }

    #[test]
    fn text_from_outside_stays_text() {
        let mut run = Run::new(&["bad"]);
        let mut bad = sample::report("bad", Reason::GateFailed);
        bad.outcome.message = "a | b <img src=x> `c` [l](http://x)\n# head".into();
        bad.gates[0].name = "x|y".into();
        bad.gates[0].command = "echo ``` | cat".into();
        bad.gates[0].tail = "```\n# out of the fence\n`````\n\x1b[31mred".into();
        run.apply(&sample::event(2, "bad", ended(bad)));
        let text = run.render(MAX);
        let part = &text[text.find("## bad").unwrap()..text.find("- job file").unwrap()];
        assert_snapshot!(part, @r"
        ## bad: failed (`gate_failed`)

        a \| b &lt;img src=x&gt; \`c\` \[l\](http://x) \# head

        Gate x\|y is red on the final tree, exit code 101, `fail` on the base: ````echo ``` | cat````

        ``````text
        ```
        # out of the fence
        `````
        red
        ``````
        ");
    }

    #[test]
    fn b172_the_whole_is_bounded_and_says_what_is_left_out() {
        let names: Vec<String> = (0..400).map(|n| format!("job-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut run = Run::new(&names);
        for name in &names {
            let mut bad = sample::report(name, Reason::GateFailed);
            bad.outcome.message = "long ".repeat(5_000);
            bad.outcome.detail = "detail\n".repeat(10_000);
            bad.gates[0].tail = "output line\n".repeat(100_000);
            run.apply(&sample::event(2, name, ended(bad)));
        }
        for limit in [MAX, 100_000, 20_000, 1_000, 300, 10] {
            let text = run.render(limit);
            assert!(text.len() <= limit, "{} > {limit}", text.len());
            // Every fence is closed.
            assert_eq!(text.lines().filter(|line| line.starts_with("```")).count() % 2, 0);
        }
        assert!(
            run.render(MAX).ends_with("more jobs did not pass; there is no room for them here: see `junit.xml`.\n")
        );
        assert!(run.render(5_000).contains("more jobs are left out of this table."));
        assert_eq!(run.render(10), "");
    }
}
