//! A job's timeline: a lane for each thing that it can be busy with. Lanes may overlap, as tools and attempts do.

use super::door::Html;
use super::tape::{Lane, Span, Tape};
use crate::units::show_duration;
use std::time::Duration;

/// The width of a drawing in units of its own.
const WIDTH: f64 = 1_000.0;

impl Lane {
    const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Setup => "setup",
            Self::Model => "model",
            Self::Tools => "tools",
            Self::Gates => "gates",
        }
    }
}

/// The timeline; nothing where no time is known.
pub(super) fn draw(html: &mut Html, tape: &Tape) {
    let Some(start) = tape.started else { return };
    let length = tape.ended - start;
    if length <= 0.0 || tape.spans.is_empty() {
        return;
    }
    html.raw("<section><h3>Time</h3><div class=\"lanes\">");
    for lane in Lane::ALL {
        let spans: Vec<&Span> = tape.spans.iter().filter(|span| span.lane == lane).collect();
        let total: f64 = spans.iter().map(|span| span.to - span.from).sum();
        let total = if spans.is_empty() { "–".to_owned() } else { seconds(total) };
        html.raw("<span>")
            .text(lane.name())
            .raw("</span><svg viewBox=\"0 0 1000 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
        html.text(lane.name()).raw(": ").text(&total).raw("\">");
        for bar in bars(&spans, start, length) {
            html.raw("<rect y=\"0\" height=\"12\" class=\"").text(lane.name());
            if bar.bad {
                html.raw(" bad");
            }
            html.raw("\" x=\"")
                .show(format_args!("{:.1}", bar.x))
                .raw("\" width=\"")
                .show(format_args!("{:.1}", bar.width));
            html.raw("\"><title>").line(&bar.what, 200).raw("</title></rect>");
        }
        html.raw("</svg><span class=\"n\">").text(&total).raw("</span>");
    }
    html.raw("<span></span><span class=\"axis\"><span>0</span><span>").text(&seconds(length / 2.0));
    html.raw("</span><span>").text(&seconds(length)).raw("</span></span><span></span></div>");
    if start >= 1.0 {
        html.raw("<p class=\"dim\">It began ")
            .text(&seconds(start))
            .raw(" after the run: until then it waited for its turn.</p>");
    }
    html.raw("</section>");
}

struct Bar {
    x: f64,
    width: f64,
    what: String,
    bad: bool,
}

/// Bars of at least one unit; what lies closer together than that is drawn as one.
fn bars(spans: &[&Span], start: f64, length: f64) -> Vec<Bar> {
    let mut sorted = spans.to_vec();
    sorted.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut bars: Vec<(Bar, usize, f64)> = Vec::new();
    for span in sorted {
        let x = ((span.from - start) / length * WIDTH).clamp(0.0, WIDTH - 1.0);
        let end = ((span.to - start) / length * WIDTH).clamp(x + 1.0, WIDTH);
        let took = span.to - span.from;
        match bars.last_mut() {
            Some((last, count, sum))
                if x - (last.x + last.width) < 1.0
                    && last.bad == span.bad
                    && (took < 0.2 || x < last.x + last.width) =>
            {
                last.width = last.width.max(end - last.x);
                *count += 1;
                *sum += took;
                last.what = format!("{count} in a row, {}", seconds(*sum));
            }
            Some(_) | None => {
                let what = format!("{}, {}", span.what, seconds(took));
                bars.push((Bar { x, width: end - x, what, bad: span.bad }, 1, took));
            }
        }
    }
    bars.into_iter().map(|(bar, ..)| bar).collect()
}

/// A number of seconds for people.
pub(super) fn seconds(seconds: f64) -> String {
    show_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_apart_is_one_bar() {
        let mut tape = Tape::default();
        (tape.started, tape.ended) = (Some(10.0), 110.0);
        let span = |from: f64, to: f64| Span { lane: Lane::Tools, from, to, what: "<Bash>".into(), bad: false };
        tape.spans = (0..5_000).map(|n| span(10.0 + f64::from(n) * 0.02, 10.0 + f64::from(n) * 0.02 + 0.01)).collect();
        let mut html = Html::default();
        draw(&mut html, &tape);
        let text = html.into_string();
        assert_eq!(text.matches("<rect").count(), 1);
        assert!(
            text.contains("5000 in a row") && text.contains("1m40s") && text.contains("It began 10.0s after"),
            "{text}"
        );
        tape.spans = vec![span(10.0, 30.0), span(60.0, 110.0)];
        let mut html = Html::default();
        draw(&mut html, &tape);
        let text = html.into_string();
        assert!(text.contains(r#"x="500.0" width="500.0"><title>&lt;Bash&gt;, 50.0s"#), "{text}");
    }

    #[test]
    fn without_times_nothing_is_drawn() {
        let mut html = Html::default();
        draw(&mut html, &Tape::default());
        assert!(html.is_empty());
    }
}
