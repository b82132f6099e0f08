//! The top of the page: how the run went, what needs eyes, and what to filter by.

use super::door::Html;
use super::money;
use super::words::{Flag, Standing};
use crate::outcome::Reason;
use crate::report::tally::{JobStats, RunStats};
use crate::report::totals::Totals;
use crate::units::show_duration;
use std::collections::BTreeMap;

/// The most warnings that are shown.
const WARNINGS: usize = 50;
/// The most tags to choose from.
const TAGS: usize = 200;

/// The headline, in words.
pub(super) fn headline(stats: &RunStats) -> String {
    let totals = stats.totals();
    let trouble = totals.failed + totals.errors + totals.cancelled;
    let open = totals.waiting + totals.running;
    let jobs = |count: usize| if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
    match (trouble, open, totals.jobs) {
        (0, 0, 0) => "No job".into(),
        (0, 0, all) if totals.passed == all => match all {
            1 => "The job passed".into(),
            all => format!("All {all} jobs passed"),
        },
        (0, 0, all) => format!("{} of {} passed, the others were skipped", totals.passed, jobs(all)),
        (0, open, all) => format!("{open} of {} without a result", jobs(all)),
        (trouble, _, all) => format!("{trouble} of {} did not pass", jobs(all)),
    }
}

/// Headline, totals and what is worth a look.
pub(super) fn head(html: &mut Html, stats: &RunStats) {
    let totals = stats.totals();
    html.raw("<header><p class=\"run\">runner <span>").line(&stats.run.id.0, 100).raw("</span></p><h1>");
    html.text(&headline(stats)).raw("</h1>");
    bar(html, stats);
    html.raw("<dl class=\"totals\">");
    let mut total = |name: &'static str, value: &str, more: &str| {
        html.raw("<div><dt>").raw(name).raw("</dt><dd>").text(value);
        if !more.is_empty() {
            html.raw(" <small>").text(more).raw("</small>");
        }
        html.raw("</dd></div>");
    };
    let unpriced = match totals.unpriced {
        0 => String::new(),
        1 => "1 job of unknown cost".into(),
        jobs => format!("{jobs} jobs of unknown cost"),
    };
    total("cost", &price(&totals), &unpriced);
    total("tokens", &totals.usage.counted().to_string(), "output and uncached input");
    let cached = money::cached(&totals.usage).map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"));
    total("from cache", &cached, &format!("of {} input", totals.usage.prompt()));
    total("turns", &totals.turns.to_string(), "");
    let retries = if totals.retries > 0 { format!("{} retries", totals.retries) } else { String::new() };
    total("model calls", &totals.model_calls.to_string(), &retries);
    total("time", &show_duration(stats.now.0), &format!("{} at once", stats.run.slots));
    let exit = stats.exit.map_or_else(|| "not finished".to_owned(), |exit| exit.code().to_string());
    total("exit code", &exit, "");
    html.raw("</dl><p class=\"dim\">Started ")
        .line(&stats.run.started_at, 60)
        .raw(" · runner ")
        .line(&stats.run.version, 60);
    html.raw(" · <code>").line(&stats.run.shown_folder, 300).raw("</code></p></header>");
}

/// The price, in cents where it is more than a few dollars.
fn price(totals: &Totals) -> String {
    let dollars = totals.cost.dollars();
    let more = if totals.unpriced > 0 { "+" } else { "" };
    if dollars >= 10.0 { format!("${dollars:.2}{more}") } else { totals.price() }
}

/// The verdicts as a bar, in proportion.
fn bar(html: &mut Html, stats: &RunStats) {
    let all = stats.jobs.len();
    if all == 0 {
        return;
    }
    html.raw("<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    html.text(&stats.totals().verdicts()).raw("\">");
    let mut x = 0.0;
    for standing in Standing::ALL {
        let count = count(stats, standing);
        let width = count as f64 / all as f64 * 1_000.0;
        if count > 0 {
            html.raw("<rect y=\"0\" height=\"10\" class=\"")
                .raw(standing.word())
                .raw("\" x=\"")
                .show(format_args!("{x:.1}"));
            html.raw("\" width=\"").show(format_args!("{width:.1}")).raw("\"/>");
        }
        x += width;
    }
    html.raw("</svg>");
}

fn count(stats: &RunStats, standing: Standing) -> usize {
    stats.jobs.iter().filter(|job| Standing::of(job) == standing).count()
}

/// What to look at, and the bar that filters: hidden until the script shows it.
pub(super) fn filters(html: &mut Html, stats: &RunStats) {
    html.raw("<nav id=\"bar\" aria-label=\"Filter\" hidden><div class=\"find\"><input id=\"find\" type=\"search\" placeholder=\"Search jobs\" aria-label=\"Search jobs\" autocomplete=\"off\" spellcheck=\"false\">");
    tags(html, stats);
    html.raw("<label>Order <select id=\"order\"><option value=\"\">what needs eyes<option value=\"name\">name<option value=\"0\">cost<option value=\"1\">time<option value=\"2\">tokens<option value=\"3\">turns</select></label>");
    html.raw("<output id=\"count\" aria-live=\"polite\"></output></div><div class=\"chips\">");
    for standing in Standing::ALL {
        let count = count(stats, standing);
        if count > 0 {
            chip(html, "v", standing.word(), standing.word(), count, standing.word());
        }
    }
    for (reason, count) in reasons(stats) {
        chip(html, "r", reason.code(), reason.code(), count, "");
    }
    for flag in Flag::ALL {
        let count = stats.reports().filter(|report| Flag::of(report).contains(&flag)).count();
        if count > 0 {
            chip(html, "f", flag.code(), flag.words(), count, "");
        }
    }
    html.raw("</div><p class=\"keys\"><kbd>/</kbd> search <kbd>j</kbd> <kbd>k</kbd> next, previous <kbd>Enter</kbd> open, close <kbd>Esc</kbd> back</p></nav>");
}

fn chip(
    html: &mut Html,
    group: &'static str,
    value: &'static str,
    words: &'static str,
    count: usize,
    class: &'static str,
) {
    html.raw("<button type=\"button\" class=\"chip ").raw(class).raw("\" aria-pressed=\"false\" data-g=\"").raw(group);
    html.raw("\" data-x=\"").raw(value).raw("\">").raw(words).raw(" <b>").show(count).raw("</b></button>");
}

fn tags(html: &mut Html, stats: &RunStats) {
    let mut tags: BTreeMap<&str, usize> = BTreeMap::new();
    for tag in stats.jobs.iter().flat_map(|job| &job.info.tags) {
        *tags.entry(tag.as_str()).or_default() += 1;
    }
    if tags.is_empty() {
        return;
    }
    html.raw("<label>Tag <select id=\"tag\"><option value=\"\">any");
    for (tag, count) in tags.iter().take(TAGS) {
        html.raw("<option value=\"").line(tag, 100).raw("\">").line(tag, 100).raw(" (").show(count).raw(")");
    }
    html.raw("</select></label>");
}

/// The reasons of what did not pass plainly, the most frequent first.
fn reasons(stats: &RunStats) -> Vec<(Reason, usize)> {
    let mut counts: Vec<(Reason, usize)> = Vec::new();
    for report in stats.reports().filter(|report| report.outcome.reason != Reason::Completed) {
        match counts.iter_mut().find(|(reason, _)| *reason == report.outcome.reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((report.outcome.reason, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Reasons, flags and warnings, for readers: the same with and without the script.
pub(super) fn look(html: &mut Html, stats: &RunStats) {
    let reasons = reasons(stats);
    let flagged: Vec<(Flag, Vec<&JobStats>)> = Flag::ALL
        .into_iter()
        .map(|flag| {
            let has = |job: &&JobStats| job.report().is_some_and(|report| Flag::of(report).contains(&flag));
            (flag, stats.jobs.iter().filter(has).collect())
        })
        .filter(|(_, jobs): &(Flag, Vec<_>)| !jobs.is_empty())
        .collect();
    if reasons.is_empty() && flagged.is_empty() && stats.warnings.is_empty() {
        return;
    }
    html.raw("<section class=\"look\"><h2>Worth a look</h2><ul>");
    for (reason, count) in &reasons {
        let jobs = stats.jobs.iter().filter(|job| job.report().is_some_and(|report| report.outcome.reason == *reason));
        html.raw("<li><b>").show(count).raw("</b><span><code>").raw(reason.code()).raw("</code>");
        if let Some(fault) = reason.fault() {
            html.raw(" <small>").raw(fault.code()).raw("</small>");
        }
        html.raw("</span>");
        links(html, jobs, *count);
    }
    for (flag, jobs) in &flagged {
        html.raw("<li><b>")
            .show(jobs.len())
            .raw("</b><span><span class=\"flag\">")
            .raw(flag.words())
            .raw("</span></span>");
        links(html, jobs.iter().copied(), jobs.len());
    }
    html.raw("</ul>");
    warnings(html, stats);
    html.raw("</section>");
}

fn links<'a>(html: &mut Html, jobs: impl Iterator<Item = &'a JobStats>, count: usize) {
    const SHOWN: usize = 3;
    html.raw("<span class=\"to\">");
    for job in jobs.take(SHOWN) {
        html.raw("<a href=\"#job-").text(job.info.id.as_str()).raw("\">").text(job.info.id.as_str()).raw("</a> ");
    }
    if count > SHOWN {
        html.raw("<small>and ").show(count - SHOWN).raw(" more</small>");
    }
    html.raw("</span>");
}

fn warnings(html: &mut Html, stats: &RunStats) {
    if stats.warnings.is_empty() {
        return;
    }
    html.raw("<details><summary>").show(stats.warnings.len());
    html.raw(if stats.warnings.len() == 1 { " warning" } else { " warnings" }).raw("</summary><ul>");
    for warning in stats.warnings.iter().take(WARNINGS) {
        html.raw("<li>");
        if let Some(job) = &warning.job {
            html.raw("<a href=\"#job-").text(job.as_str()).raw("\">").text(job.as_str()).raw("</a> ");
        }
        html.line(&warning.text, 500);
    }
    html.raw("</ul>");
    if stats.warnings.len() > WARNINGS {
        html.raw("<p class=\"cut\">").show(stats.warnings.len() - WARNINGS).raw(" more are in the events.</p>");
    }
    html.raw("</details>");
}
