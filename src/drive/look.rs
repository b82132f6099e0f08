//! `runner runs`, `show`, `compare` and `explain`: what is known, printed.

use super::say;
use crate::cli::{CompareArgs, ExplainArgs, PlanFormat, RunsArgs, ShowArgs};
use crate::error::{Error, Result};
use crate::event::{GateStatus, JobReport};
use crate::exit::ExitStatus;
use crate::explain;
use crate::load::Snapshot;
use crate::outcome::Verdict;
use crate::report::compare::Comparison;
use crate::report::json::result_file;
use crate::spec::nearest_word;
use crate::store::{Held, RunLock, Runs, StoredRun, find, load};
use crate::units::{Usd, show_duration};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

pub(super) fn runs_of(snapshot: &Snapshot) -> Runs {
    Runs::at(snapshot.repository_root().unwrap_or(&snapshot.cwd))
}

/// A run that a person names.
pub(super) fn named(said: &str, snapshot: &Snapshot) -> Result<StoredRun> {
    read(&runs_of(snapshot).find(said, &snapshot.cwd)?, snapshot)
}

fn read(folder: &Path, snapshot: &Snapshot) -> Result<StoredRun> {
    load(folder, &folder.strip_prefix(&snapshot.cwd).unwrap_or(folder).display().to_string())
}

/// Lists runs.
pub(super) fn runs(args: &RunsArgs, snapshot: &Snapshot) -> ExitStatus {
    let list = runs_of(snapshot).list();
    let newest = list.iter().skip(list.len().saturating_sub(args.limit));
    let stored: Vec<StoredRun> = newest
        .filter_map(|folder| match load(folder, &folder.display().to_string()) {
            Ok(stored) => Some(stored),
            Err(error) => {
                say::error(&format!("warning: {error}\n"));
                None
            }
        })
        .collect();
    match args.format {
        PlanFormat::Json => {
            let rows: Vec<Value> = stored.iter().map(run_json).collect();
            say::result(&format!("{:#}\n", json!({ "schema": 1, "runs": rows })));
        }
        PlanFormat::Pretty if stored.is_empty() => say::error("there is no run yet: `runner run` makes one\n"),
        PlanFormat::Pretty => {
            let mut text = format!(
                "{:<24} {:<12} {:>6} {:>6} {:>6} {:>10} {:>9}\n",
                "RUN", "STATE", "JOBS", "PASSED", "OTHER", "COST", "TIME"
            );
            for run in &stored {
                let (passed, other) = counts(run);
                let _ = writeln!(
                    text,
                    "{:<24} {:<12} {:>6} {passed:>6} {other:>6} {:>10} {:>9}",
                    run.record.info.id.0,
                    state(run),
                    run.reports.len(),
                    format!("${:.4}", cost(run).dollars()),
                    show_duration(run.record.duration)
                );
            }
            say::result(&text);
        }
    }
    ExitStatus::Passed
}

fn state(run: &StoredRun) -> &'static str {
    match (run.record.exit, RunLock::state(&run.folder)) {
        (Some(ExitStatus::Interrupted | ExitStatus::Terminated), _) => "interrupted",
        (Some(_), _) => "over",
        (None, Held::Free) => "killed",
        (None, Held::By(_) | Held::Unsure(_)) => "at work",
    }
}

fn counts(run: &StoredRun) -> (usize, usize) {
    let passed = run.reports.iter().flatten().filter(|report| report.outcome.verdict() == Verdict::Passed).count();
    (passed, run.reports.len() - passed)
}

fn cost(run: &StoredRun) -> Usd {
    run.reports.iter().flatten().filter_map(|report| report.cost).fold(Usd::ZERO, |sum, cost| sum + cost)
}

fn run_json(run: &StoredRun) -> Value {
    let (passed, other) = counts(run);
    json!({
        "run": run.record.info.id.0, "state": state(run), "started_at": run.record.info.started_at,
        "exit_code": run.record.exit.map(ExitStatus::code), "jobs": run.reports.len(), "passed": passed, "other": other,
        "cost_usd": cost(run).dollars(), "duration_s": run.record.duration.as_secs_f64(), "folder": run.folder,
    })
}

/// Shows a run or a job.
pub(super) fn show(args: &ShowArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let place = find(snapshot.repository_root().unwrap_or(&snapshot.cwd), &snapshot.cwd, &args.what)?;
    let run = read(&place.run, snapshot)?;
    for trouble in &run.trouble {
        say::error(&format!("warning: {trouble}\n"));
    }
    let Some(job) = place.job else {
        let text = match args.format {
            PlanFormat::Json => {
                let jobs: Vec<Value> = run.reports.iter().flatten().map(|report| job_json(&run, report)).collect();
                let mut value = run_json(&run);
                value["jobs"] = jobs.into();
                format!("{value:#}\n")
            }
            PlanFormat::Pretty => run_text(&run),
        };
        say::result(&text);
        return Ok(ExitStatus::Passed);
    };
    let folder = run.folder.join("jobs").join(job.as_str());
    let Some(report) = run.reports.iter().flatten().find(|report| report.info.id == job) else {
        say::result(&format!("{job}: it has not ended ({})\n", state(&run)));
        return Ok(ExitStatus::Passed);
    };
    match args.format {
        PlanFormat::Json => say::result(&format!("{:#}\n", job_json(&run, report))),
        PlanFormat::Pretty => say::result(&job_text(report, &folder)),
    }
    for (wanted, file) in [(args.diff, "diff.patch"), (args.transcript, "transcript.jsonl")] {
        if wanted {
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?;
            say::result(&if file == "transcript.jsonl" { conversation(&text) } else { text });
        }
    }
    Ok(ExitStatus::Passed)
}

fn job_json(run: &StoredRun, report: &JobReport) -> Value {
    serde_json::from_str(&result_file(&run.record.info.id, report)).unwrap_or_default()
}

fn run_text(run: &StoredRun) -> String {
    let info = &run.record.info;
    let mut text =
        format!("{} ({}), begun {}, {}\n", info.id, state(run), info.started_at, show_duration(run.record.duration));
    for (job, report) in info.jobs.iter().zip(&run.reports) {
        let _ = match report {
            Some(report) => writeln!(
                text,
                "  {:<30} {:<10} {:<20} {}",
                job.id.as_str(),
                report.outcome.verdict().code(),
                report.outcome.reason.code(),
                report.outcome.message
            ),
            None => writeln!(text, "  {:<30} not ended", job.id.as_str()),
        };
    }
    if state(run) == "killed" || state(run) == "interrupted" {
        let _ = writeln!(text, "go on with it: runner resume {}", info.id);
    }
    let _ = writeln!(text, "files: {}", info.shown_folder);
    text
}

fn job_text(report: &JobReport, folder: &Path) -> String {
    let outcome = &report.outcome;
    let mut text = format!("{}: {outcome}\n", report.info.id);
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {label:<12} {value}");
        }
    };
    line(
        "terminal",
        outcome.terminal.as_ref().map(|end| format!("{} ({})", end.reason.code(), end.message)).unwrap_or_default(),
    );
    let transitions: Vec<&str> = report.transitions.iter().map(|transition| transition.code()).collect();
    line("went on", transitions.join(" "));
    line("turns", format!("{} of {}, {} model calls", report.turns, report.info.max_turns, report.model_calls));
    let usage = &report.usage;
    line(
        "tokens",
        format!(
            "{} in, {} from a cache, {} to it, {} out",
            usage.input.0, usage.cache_read.0, usage.cache_write.0, usage.output.0
        ),
    );
    line("cost", report.cost.map(|cost| format!("${:.4}", cost.dollars())).unwrap_or_default());
    line("time", show_duration(report.duration));
    for gate in &report.gates {
        let word = |status: Option<GateStatus>| status.map_or("-", GateStatus::code);
        line(
            "gate",
            format!("{}: before {}, after {}, {} runs", gate.name, word(gate.before), word(gate.after), gate.runs),
        );
    }
    for attempt in report.attempts.iter().filter(|_| report.attempts.len() > 1) {
        line("try", format!("{}: {} ({})", attempt.number, attempt.outcome.reason.code(), attempt.outcome.message));
    }
    line("undone", report.protected_changes.join(", "));
    line("branch", report.branch.clone().unwrap_or_default());
    line("commit", report.commit.clone().unwrap_or_default());
    line("worktree", report.worktree.as_ref().map(|path| path.display().to_string()).unwrap_or_default());
    line("files", folder.display().to_string());
    line("meaning", format!("runner explain {}", outcome.reason.code()));
    if !outcome.detail.is_empty() {
        let _ = writeln!(text, "{}", outcome.detail.trim_end());
    }
    text
}

/// What was said, a paragraph each; results of tools cut to their beginning.
fn conversation(text: &str) -> String {
    const SHOWN: usize = 400;
    let cut = |text: &str| {
        let end = text.floor_char_boundary(SHOWN.min(text.len()));
        if end < text.len() { format!("{}… ({} bytes)", &text[..end], text.len()) } else { text.to_owned() }
    };
    let mut out = String::new();
    for line in text.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        if value["kind"] != "message" {
            continue;
        }
        let _ = writeln!(
            out,
            "--- {} ({})",
            value["role"].as_str().unwrap_or_default(),
            value["origin"].as_str().unwrap_or_default()
        );
        for block in value["blocks"].as_array().into_iter().flatten() {
            let _ = match block["type"].as_str().unwrap_or_default() {
                "text" => writeln!(out, "{}", block["text"].as_str().unwrap_or_default()),
                "tool_use" => writeln!(
                    out,
                    "> {} {}",
                    block["name"].as_str().unwrap_or_default(),
                    cut(&block["input"].to_string())
                ),
                "tool_result" => writeln!(out, "< {}", cut(block["content"].as_str().unwrap_or_default())),
                other => writeln!(out, "[{other}]"),
            };
        }
    }
    out
}

/// Puts two runs side by side. Exit status 1: some job passed before and does not now.
pub(super) fn compare(args: &CompareArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let (before, after) = (named(&args.before, snapshot)?, named(&args.after, snapshot)?);
    let comparison = Comparison::of(before.reports.iter().flatten(), after.reports.iter().flatten());
    say::result(&match args.format {
        PlanFormat::Pretty => comparison.text(),
        PlanFormat::Json => format!("{:#}\n", comparison.json()),
    });
    Ok(if comparison.newly_failing() > 0 { ExitStatus::Failed } else { ExitStatus::Passed })
}

/// Explains a code.
pub(super) fn explain(args: &ExplainArgs) -> Result<ExitStatus> {
    let Some(code) = &args.code else {
        say::result(&explain::list());
        return Ok(ExitStatus::Passed);
    };
    let Some(text) = explain::explain(code) else {
        let error = Error::usage(format!("`{code}` is no code of a report"));
        return Err(match nearest_word(&explain::codes(), code) {
            Some(near) => error.hint(format!("you may have meant `{near}`")),
            None => error.hint("`runner explain` lists them"),
        });
    };
    say::result(&text);
    Ok(ExitStatus::Passed)
}
