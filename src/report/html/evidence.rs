//! Why a job ended as it did: its message, its gates before and after with the ends of their output, its attempts.

use super::door::Html;
use super::words::{self, Flag, Standing};
use crate::event::{AttemptReport, GateReport, GateStatus, JobReport};
use crate::explain;
use crate::outcome::{TerminalReason, Verdict};
use crate::units::show_duration;

/// The most attempts, gates and paths that are shown.
const ROWS: usize = 100;

/// Message and detail.
pub(super) fn why(html: &mut Html, report: &JobReport, tail: usize) {
    let outcome = &report.outcome;
    html.raw("<p class=\"why\">").line(&outcome.message, 1_500).raw("</p>");
    let gate_says_it =
        report.gates.iter().any(|gate| !gate.tail.trim().is_empty() && gate.tail.trim() == outcome.detail.trim());
    if !outcome.detail.trim().is_empty() && !gate_says_it {
        html.block(&outcome.detail, tail);
    }
    if let Some(terminal) = &outcome.terminal
        && outcome.verdict() != Verdict::Passed
        && terminal.reason != TerminalReason::Completed
    {
        html.raw("<p class=\"dim\">The loop ended as <code>").text(terminal.reason.code()).raw("</code>: ");
        html.text(explain::terminal(terminal.reason).when).raw("</p>");
        if let Some(error) = &terminal.error {
            html.raw("<p class=\"dim\">").line(&error.message, 1_000);
            if let Some(id) = &error.request_id {
                html.raw(" (request <code>").line(id, 200).raw("</code>)");
            }
            html.raw("</p>");
        }
    }
    if !report.protected_changes.is_empty() {
        html.raw("<p><span class=\"flag\">")
            .text(Flag::Protected.words())
            .raw("</span> and they were restored before judging: ");
        for (index, path) in report.protected_changes.iter().take(ROWS).enumerate() {
            html.raw(if index > 0 { ", <code>" } else { "<code>" }).line(path, 300).raw("</code>");
        }
        if report.protected_changes.len() > ROWS {
            html.raw(" and ").show(report.protected_changes.len() - ROWS).raw(" more");
        }
        html.raw("</p>");
    }
}

/// The gates, with the ends of their output: those that are not green open.
pub(super) fn gates(html: &mut Html, gates: &[GateReport], tail: usize) {
    if gates.is_empty() {
        return;
    }
    html.raw("<section><h3>Gates</h3>");
    for gate in gates.iter().take(ROWS) {
        let is_red = matches!(gate.after, Some(GateStatus::Fail | GateStatus::Error));
        html.raw(if is_red { "<details open class=\"gate\"><summary>" } else { "<details class=\"gate\"><summary>" });
        html.raw("<b>").line(&gate.name, 200).raw("</b> ");
        if gate.before.is_some() {
            status(html, gate.before);
            html.raw(" <span class=\"dim\">on the base →</span> ");
        }
        status(html, gate.after);
        if gate.flaky {
            html.raw(" <span class=\"flag\">flaky</span>");
        }
        html.raw(" <small>");
        if let Some(code) = gate.exit_code {
            html.raw("exit code ").show(code).raw(" · ");
        }
        html.show(gate.runs).raw(if gate.runs == 1 { " run · " } else { " runs · " });
        html.text(&show_duration(gate.duration))
            .raw("</small></summary><p><code>")
            .line(&gate.command, 400)
            .raw("</code></p>");
        if gate.tail.trim().is_empty() {
            html.raw("<p class=\"dim\">no output</p>");
        } else {
            html.block(&gate.tail, if is_red { tail } else { tail.min(2_000) });
        }
        html.raw("</details>");
    }
    if gates.len() > ROWS {
        html.raw("<p class=\"cut\">").show(gates.len() - ROWS).raw(" more gates are left out here.</p>");
    }
    html.raw("</section>");
}

fn status(html: &mut Html, status: Option<GateStatus>) {
    let (class, words) = words::gate(status);
    html.raw("<span class=\"").raw(class).raw("\">").raw(words).raw("</span>");
}

/// The attempts, where there is more than one.
pub(super) fn attempts(html: &mut Html, report: &JobReport) {
    if report.attempts.len() < 2 {
        return;
    }
    html.raw("<section><h3>Attempts</h3><div class=\"scroll\"><table class=\"nums\"><thead><tr><th>Attempt<th class=\"left\">Verdict<th class=\"left\">Reason<th>Turns<th>Cost<th>Time<th class=\"left\">Message</tr></thead><tbody>");
    for attempt in report.attempts.iter().take(ROWS) {
        self::attempt(html, attempt, report.attempt);
    }
    html.raw("</tbody></table></div>");
    if report.attempts.len() > ROWS {
        html.raw("<p class=\"cut\">").show(report.attempts.len() - ROWS).raw(" more attempts are left out here.</p>");
    }
    html.raw("</section>");
}

fn attempt(html: &mut Html, attempt: &AttemptReport, decided: u32) {
    let standing = match attempt.outcome.verdict() {
        Verdict::Passed => Standing::Passed,
        Verdict::Failed => Standing::Failed,
        Verdict::Error => Standing::Error,
        Verdict::Skipped => Standing::Skipped,
        Verdict::Cancelled => Standing::Cancelled,
    };
    html.raw("<tr><td>").show(attempt.number);
    if attempt.number == decided {
        html.raw(" <span class=\"flag\">decided</span>");
    }
    html.raw("<td class=\"left\"><span class=\"")
        .raw(standing.word())
        .raw("\">")
        .raw(standing.mark())
        .raw(" ")
        .raw(standing.word());
    html.raw("</span><td class=\"left\"><code>")
        .text(attempt.outcome.reason.code())
        .raw("</code><td>")
        .show(attempt.turns)
        .raw("<td>");
    match attempt.cost {
        Some(cost) => html.show(cost),
        None => html.raw("–"),
    };
    html.raw("<td>")
        .text(&show_duration(attempt.duration))
        .raw("<td class=\"left\">")
        .line(&attempt.outcome.message, 300);
}
