//! A job in the page: a row to scan, and what is behind it.

use super::door::Html;
use super::lanes;
use super::tape::Tape;
use super::words::{Flag, Standing};
use super::{evidence, money};
use crate::event::JobReport;
use crate::report::cut;
use crate::report::tally::{JobState, JobStats};
use crate::units::show_duration;

/// The opening of a job's element, its row in it. The caller closes it.
pub(super) fn row(html: &mut Html, job: &JobStats) {
    let standing = Standing::of(job);
    let report = job.report();
    let flags = report.map(Flag::of).unwrap_or_default();
    html.raw("<details class=\"job ").raw(standing.word()).raw("\" id=\"job-").text(job.info.id.as_str());
    html.raw("\" data-v=\"").raw(standing.word()).raw("\" data-r=\"");
    html.raw(report.map_or("", |report| report.outcome.reason.code())).raw("\" data-f=\"");
    for flag in &flags {
        html.raw(flag.code()).raw(" ");
    }
    html.raw("\" data-t=\"");
    for tag in job.info.tags.iter().take(50) {
        html.line(tag, 100).raw("\n");
    }
    html.raw("\" data-s=\"")
        .text(&haystack(job))
        .raw("\" data-n=\"")
        .text(&numbers(job))
        .raw("\"><summary><span class=\"badge ");
    html.raw(standing.word())
        .raw("\">")
        .raw(standing.mark())
        .raw(" ")
        .raw(standing.word())
        .raw("</span><span class=\"what\"><span class=\"name\">");
    html.text(job.info.id.as_str()).raw("</span>");
    for flag in flags.iter().filter(|flag| flag.is_urgent()) {
        html.raw(" <span class=\"flag\">").raw(flag.words()).raw("</span>");
    }
    for tag in job.info.tags.iter().take(6) {
        html.raw(" <span class=\"tag\">").line(tag, 40).raw("</span>");
    }
    html.raw("<span class=\"msg\">");
    let message = report.map_or(job.live.doing.as_str(), |report| report.outcome.message.as_str());
    let described =
        if standing == Standing::Passed && !job.info.description.is_empty() { &job.info.description } else { message };
    html.line(described, 240).raw("</span></span><code class=\"reason\">");
    html.raw(report.map_or("", |report| report.outcome.reason.code())).raw("</code>");
    let cell = |html: &mut Html, value: &str, unit: &'static str| {
        html.raw("<span class=\"n\">").text(value).raw("<i> ").raw(unit).raw("</i></span>");
    };
    let (turns, usage) = report.map_or((job.live.turns, job.live.usage), |report| (report.turns, report.usage));
    cell(html, &turns.to_string(), "turns");
    cell(html, &usage.counted().to_string(), "tokens");
    let cost = match report {
        Some(report) => report.cost.map_or_else(|| "unknown".to_owned(), |cost| cost.to_string()),
        None => job.live.cost.to_string(),
    };
    cell(html, &cost, "");
    cell(html, &report.map_or_else(|| "–".to_owned(), |report| show_duration(report.duration)), "");
    html.raw("</summary>");
}

/// What is behind the row.
pub(super) fn body(html: &mut Html, job: &JobStats, tape: &Tape, tail: usize) {
    match &job.state {
        JobState::Ended(report) => {
            evidence::why(html, report, tail);
            evidence::gates(html, &report.gates, tail);
            evidence::attempts(html, report);
        }
        JobState::Running => {
            html.raw("<p class=\"why\">The job had begun and has no result: the run was ended, or still goes on.</p>");
        }
        JobState::Waiting => {
            html.raw("<p class=\"why\">The job has not begun.</p>");
        }
    }
    lanes::draw(html, tape);
}

/// What a job's own files have to say about turns; drawn beside the rest that may be left out.
pub(super) fn turns(html: &mut Html, tape: &Tape, max: usize) {
    money::draw(html, tape, max);
}

/// What is known besides, and where the job's files are.
pub(super) fn foot(html: &mut Html, job: &JobStats, has_files: bool) {
    html.raw("<details class=\"talk\"><summary><h3>Facts</h3></summary><dl class=\"facts\">");
    let info = &job.info;
    let mut fact = |name: &'static str, value: &str| {
        if !value.is_empty() {
            html.raw("<dt>").raw(name).raw("<dd>").line(value, 600);
        }
    };
    fact("description", &info.description);
    fact("job file", &info.file);
    fact("model", &info.model);
    fact("tags", &info.tags.join(", "));
    fact("turn limit", &info.max_turns.to_string());
    if let Some(report) = job.report() {
        outcome_facts(&mut fact, report);
    }
    html.raw("</dl>");
    if has_files {
        html.raw("<p class=\"links\">");
        for (file, words) in [
            ("result.json", "result"),
            ("diff.patch", "patch"),
            ("transcript.jsonl", "transcript"),
            ("tools/", "full outputs"),
        ] {
            html.raw("<a href=\"./jobs/").text(info.id.as_str()).raw("/").raw(file).raw("\">").raw(words).raw("</a> ");
        }
        html.raw("</p>");
    }
    html.raw("</details>");
}

fn outcome_facts(fact: &mut impl FnMut(&'static str, &str), report: &JobReport) {
    if let Some(fault) = report.outcome.fault() {
        fact("whose fault", fault.code());
    }
    if let Some(terminal) = &report.outcome.terminal {
        fact("terminal", terminal.reason.code());
    }
    let retries = if report.retries > 0 { format!(", {} of them retries", report.retries) } else { String::new() };
    fact("model calls", &format!("{}{retries}", report.model_calls));
    let usage = &report.usage;
    let cached = money::cached(usage).map(|percent| format!(" ({percent} %)")).unwrap_or_default();
    fact(
        "tokens",
        &format!(
            "{} input, {} of it read from a cache{cached}, {} written to one; {} output",
            usage.prompt(),
            usage.cache_read,
            usage.cache_write,
            usage.output
        ),
    );
    fact("went on", &transitions(report));
    let counts = &report.counts;
    let layers: Vec<String> = counts.layers.iter().map(|(layer, times)| format!("{layer} ×{times}")).collect();
    fact("context", &layers.join(", "));
    if counts.fallbacks > 0 {
        fact("other models asked", &counts.fallbacks.to_string());
    }
    if counts.subagents > 0 {
        fact("sub-agents", &counts.subagents.to_string());
    }
    fact("base", report.base.as_deref().unwrap_or_default());
    fact("branch", report.branch.as_deref().unwrap_or_default());
    fact("commit", report.commit.as_deref().unwrap_or_default());
    fact("worktree", &report.worktree.as_ref().map(|path| path.display().to_string()).unwrap_or_default());
    fact("last words", &report.last_words);
}

/// `next_turn ×5, stop_hook_blocking`.
fn transitions(report: &JobReport) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for transition in &report.transitions {
        match counts.iter_mut().find(|(code, _)| *code == transition.code()) {
            Some((_, count)) => *count += 1,
            None => counts.push((transition.code(), 1)),
        }
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(code, count)| if *count > 1 { format!("{code} ×{count}") } else { (*code).to_owned() })
        .collect();
    words.join(", ")
}

/// What the search looks into, in small letters.
fn haystack(job: &JobStats) -> String {
    let info = &job.info;
    let mut words = vec![info.id.as_str(), &info.file, &info.model, &info.description];
    words.extend(info.tags.iter().map(String::as_str));
    words.extend(info.gates.iter().map(String::as_str));
    if let Some(report) = job.report() {
        words.extend([report.outcome.reason.code(), &report.outcome.message]);
        words.extend(report.branch.as_deref());
        words.extend(report.protected_changes.iter().map(String::as_str).take(20));
    }
    cut::one_line(&words.join(" "), 1_200).to_lowercase()
}

/// What the script sorts by: cost in micro-dollars, milliseconds, tokens, turns.
fn numbers(job: &JobStats) -> String {
    let Some(report) = job.report() else { return "0 0 0 0".into() };
    let cost = report.cost.map_or(0.0, |cost| cost.dollars() * 1e6);
    format!("{cost:.0} {} {} {}", report.duration.as_millis(), report.usage.counted().0, report.turns)
}
