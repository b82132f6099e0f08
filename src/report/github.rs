//! What GitHub Actions reads from a log: annotations and groups; and what keeps other text from being read so.
//!
//! Syntax and limits after "Workflow commands for GitHub Actions" and "About workflow run annotations" (10 annotations
//! of a type in a step), docs.github.com, 2026-11.

use super::cut;
use super::tally::RunStats;
use crate::event::JobReport;
use crate::outcome::Verdict;

/// How many annotations of one type GitHub shows for a step.
const ANNOTATIONS_MAX: usize = 10;
/// The longest title, in bytes before escaping.
const TITLE_MAX: usize = 200;
/// The longest message, in bytes before escaping.
const MESSAGE_MAX: usize = 1_000;

/// One `::error` line for each job that did not pass, without newlines. Past GitHub's limit the last line counts the
/// rest.
#[must_use]
pub fn annotations(stats: &RunStats) -> Vec<String> {
    let bad: Vec<&JobReport> = stats.reports().filter(|report| deserves_one(report.outcome.verdict())).collect();
    let shown = if bad.len() > ANNOTATIONS_MAX { ANNOTATIONS_MAX - 1 } else { bad.len() };
    let mut lines: Vec<String> = bad.iter().take(shown).map(|report| annotation(report)).collect();
    if bad.len() > shown {
        lines.push(error("runner", &format!("and {} more jobs did not pass: see the summary", bad.len() - shown)));
    }
    lines
}

/// Opens a group in the log.
#[must_use]
pub fn group(title: &str) -> String {
    format!("::group::{}", data(&cut::one_line(title, TITLE_MAX)))
}

/// Closes the group.
pub const END_GROUP: &str = "::endgroup::";

/// The line with nothing in it that a GitHub runner takes for a command: `##[` anywhere, or `::` at the beginning.
#[must_use]
pub fn inert(line: &str) -> String {
    let line = line.replace("##[", "# #[");
    match line.trim_start().strip_prefix("::") {
        Some(rest) => format!(": :{rest}"),
        None => line,
    }
}

/// A line of JSON with the same meaning and without `##[`.
#[must_use]
pub fn inert_json(line: &str) -> String {
    line.replace("##[", "#\\u0023[")
}

/// A skipped job has its cause in another job's annotation.
const fn deserves_one(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Failed | Verdict::Error | Verdict::Cancelled => true,
        Verdict::Passed | Verdict::Skipped => false,
    }
}

fn annotation(report: &JobReport) -> String {
    let outcome = &report.outcome;
    error(
        &format!("{}: {} ({})", report.info.id, outcome.verdict().code(), outcome.reason.code()),
        &cut::one_line(&outcome.message, MESSAGE_MAX),
    )
}

fn error(title: &str, message: &str) -> String {
    format!("::error title={}::{}", property(&cut::one_line(title, TITLE_MAX)), data(message))
}

/// Escapes what follows the second `::`.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::event::RunEventKind;
    use crate::outcome::Reason;
    use insta::assert_snapshot;

    #[test]
    fn a_failed_job_is_one_annotation_whatever_its_message() {
        let mut stats = RunStats::new(sample::run(&["a", "b", "c"]));
        let mut nasty = sample::report("a", Reason::GateFailed);
        nasty.outcome.message = "100 % red\r\n::error::x, y: z ##[error]".into();
        stats.apply(&sample::event(1, "a", RunEventKind::JobFinished(Box::new(nasty))));
        stats.apply(&sample::event(2, "b", sample::finished("b", Reason::Completed)));
        stats.apply(&sample::event(3, "c", sample::finished("c", Reason::FailFast)));
        assert_snapshot!(annotations(&stats).join("\n"), @"::error title=a%3A failed (gate_failed)::100 %25 red ::error::x, y: z ##[error]");
    }

    #[test]
    fn the_limit_of_ten_is_kept() {
        let names: Vec<String> = (0..25).map(|n| format!("job-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut stats = RunStats::new(sample::run(&names));
        for name in &names {
            stats.apply(&sample::event(1, name, sample::finished(name, Reason::MaxTurns)));
        }
        let lines = annotations(&stats);
        assert_eq!(lines.len(), 10);
        assert_snapshot!(lines[9], @"::error title=runner::and 16 more jobs did not pass: see the summary");
    }

    #[test]
    fn b174_no_text_is_a_live_command() {
        for text in ["::add-mask::a", "  ::error::x", "::stop-commands::x", "##[group]", "a ##[error] b", "###[x"] {
            let line = inert(text);
            assert!(!line.trim_start().starts_with("::") && !line.contains("##["), "{line}");
        }
        assert_eq!(inert("a::b"), "a::b");
        let line = inert_json(r###"{"text":"##[error]x ##[y"}"###);
        assert!(!line.contains("##["), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["text"], "##[error]x ##[y");
        assert_eq!(group("100%\n::error::x"), "::group::100%25 ::error::x");
    }
}
