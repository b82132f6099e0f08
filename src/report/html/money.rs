//! What each turn used and cost, and how much of its input came from a cache.

use super::door::Html;
use super::lanes::seconds;
use super::tape::{Tape, TurnRow};
use crate::units::{Usage, Usd};

/// The table of turns; nothing where none is known.
pub(super) fn draw(html: &mut Html, tape: &Tape, max: usize) {
    if tape.turns.is_empty() {
        return;
    }
    html.raw("<details class=\"talk\"><summary><h3>Cost and cache by turn</h3></summary><div class=\"scroll\"><table class=\"nums\"><thead><tr><th>Turn<th>At<th>Took<th>Input<th>From cache<th>Written to cache<th>Output<th>Cost<th>Sum<th>Tools</tr></thead><tbody>");
    let begin = html.len();
    let mut sum = Usd::ZERO;
    let mut left_out = tape.more_turns;
    for (index, row) in tape.turns.iter().enumerate() {
        if html.len() - begin > max {
            left_out += tape.turns.len() - index;
            break;
        }
        sum += row.cost;
        line(html, row, tape.started.unwrap_or_default(), sum);
    }
    html.raw("</tbody></table></div>");
    if left_out > 0 {
        html.raw("<p class=\"cut\">").show(left_out).raw(" more turns are left out here; the events have them.</p>");
    }
    html.raw("</details>");
}

fn line(html: &mut Html, row: &TurnRow, start: f64, sum: Usd) {
    html.raw("<tr><td>").show(row.turn).raw("<td>").text(&seconds(row.at - start)).raw("<td>");
    html.text(&row.took.map_or_else(|| "–".to_owned(), seconds)).raw("<td>").show(row.usage.prompt()).raw("<td>");
    match cached(&row.usage) {
        Some(percent) => {
            html.raw("<svg class=\"share\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect height=\"8\" width=\"");
            html.show(percent).raw("\"/></svg> ").show(percent).raw(" %");
        }
        None => {
            html.raw("–");
        }
    }
    html.raw("<td>").show(row.usage.cache_write).raw("<td>").show(row.usage.output).raw("<td>").show(row.cost);
    html.raw("<td>").show(sum).raw("<td class=\"left\">").line(&row.tools.join(", "), 120);
}

/// The percentage of the input that was read from a cache.
pub(super) fn cached(usage: &Usage) -> Option<u64> {
    usage.cache_read.0.saturating_mul(100).checked_div(usage.prompt().0)
}
