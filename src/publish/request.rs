//! Title and body of a pull request, from what is known about a job. Pure; bounded to what forges take.

use super::inert;
use crate::event::{GateReport, GateStatus, JobReport};
use crate::outcome::Verdict;
use crate::report::cut::{clean_tail, marked_head, one_line};
use crate::units::show_duration;
use std::fmt::Write as _;

/// The longest title, in characters: GitHub's limit.
const TITLE_MAX: usize = 256;
/// The longest body, in bytes; GitHub counts 65,536 characters, which are never more.
const BODY_MAX: usize = 65_536;
/// The most of what was asked, in bytes.
const ASKED_MAX: usize = 8_000;
/// The most of the model's last words and of a gate's output, in bytes.
const WORDS_MAX: usize = 4_000;
/// How many gates are in the table.
const GATES_MAX: usize = 50;
/// How many red gates are quoted.
const QUOTED_MAX: usize = 5;

/// What a pull request is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// How the job ended.
    pub report: &'a JobReport,
    /// The run's name.
    pub run: &'a str,
    /// What was asked of the model.
    pub asked: &'a str,
    /// Where the run can be seen, if anywhere.
    pub link: Option<&'a str>,
    /// The runner's version.
    pub version: &'a str,
}

/// `job: what it is about`.
#[must_use]
pub fn title(facts: Facts<'_>) -> String {
    let info = &facts.report.info;
    let first = facts.asked.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let about = if info.description.trim().is_empty() { first } else { &info.description };
    // An invisible character may stand at every second place.
    let about = inert(&one_line(about, 72));
    let mut title = if about.is_empty() { info.id.to_string() } else { format!("{}: {about}", info.id) };
    if facts.report.outcome.verdict() != Verdict::Passed {
        title = format!("[{}] {title}", facts.report.outcome.reason.code());
    }
    title.chars().take(TITLE_MAX).collect()
}

/// Markdown: what was asked, what was found, gates before and after, what it used up, where it came from.
#[must_use]
pub fn body(facts: Facts<'_>) -> String {
    let report = facts.report;
    let outcome = &report.outcome;
    let mut text = String::from("### What was asked\n\n");
    text.push_str(&fenced(&marked_head(facts.asked.trim(), ASKED_MAX)));
    let message = inert(&escaped(&one_line(&outcome.message, 1_000)));
    let _ = write!(
        text,
        "\n### What was found\n\n**{}** (`{}`): {message}\n",
        outcome.verdict().code(),
        outcome.reason.code()
    );
    if outcome.verdict() != Verdict::Passed {
        text.push_str("\nThe gates do **not** vouch for this work: it is a draft to look at.\n");
    }
    if !report.gates.is_empty() {
        text.push_str("\n| Gate | Before | After |\n|---|---|---|\n");
        for gate in report.gates.iter().take(GATES_MAX) {
            text.push_str(&row(gate));
        }
        let more = report.gates.len().saturating_sub(GATES_MAX);
        if more > 0 {
            let _ = write!(text, "\nand {more} more gates.\n");
        }
    }
    if !report.protected_changes.is_empty() {
        let _ = write!(
            text,
            "\nChanges to {} protected paths were undone before judging.\n",
            report.protected_changes.len()
        );
    }
    for gate in
        report.gates.iter().filter(|gate| gate.after.is_some_and(|status| status != GateStatus::Pass)).take(QUOTED_MAX)
    {
        let _ = write!(text, "\nThe end of {}:\n\n{}", code(&gate.name), fenced(&clean_tail(&gate.tail, WORDS_MAX)));
    }
    text.push_str(&used(report));
    if !report.last_words.trim().is_empty() {
        let words = fenced(&clean_tail(&report.last_words, WORDS_MAX));
        let _ = write!(
            text,
            "\n<details><summary>The model's last words, which no gate has judged</summary>\n\n{words}\n</details>\n"
        );
    }
    text.push_str(&origin(facts));
    marked_head(&text, BODY_MAX)
}

fn row(gate: &GateReport) -> String {
    let status = |status: Option<GateStatus>| status.map_or("", GateStatus::code);
    let flaky = if gate.flaky { " (flaky)" } else { "" };
    let name = code(&gate.name);
    format!("| {name}: {} | {} | {}{flaky} |\n", code(&gate.command), status(gate.before), status(gate.after))
}

fn used(report: &JobReport) -> String {
    let cost = report.cost.map_or_else(|| "price not known".to_owned(), |cost| cost.to_string());
    format!(
        "\n| Turns | Model calls | Tokens | Cost | Time | Attempt | Model |\n|--:|--:|--:|--:|--:|--:|---|\n\
         | {} of {} | {} | {} | {} | {} | {} | {} |\n",
        report.turns,
        report.info.max_turns,
        report.model_calls,
        report.counted_tokens(),
        cost.replace('$', "\\$"),
        show_duration(report.duration),
        report.attempt,
        code(&report.info.model),
    )
}

fn origin(facts: Facts<'_>) -> String {
    let report = facts.report;
    let run = facts.link.filter(|link| link.starts_with("https://") && !link.contains([' ', '(', ')', '<', '>', '\n']));
    let run = run.map_or_else(|| code(facts.run), |link| format!("[{}]({link})", code(facts.run)));
    let known = |id: Option<&str>| id.map_or_else(|| "none".to_owned(), |id| code(id.get(..12).unwrap_or(id)));
    format!(
        "\nRun {run}, job {}, commit {} on base {}. Made by runner {}.\n",
        code(report.info.id.as_str()),
        known(report.commit.as_deref()),
        known(report.base.as_deref()),
        code(facts.version),
    )
}

/// Text of others as a block in which nothing has a meaning.
fn fenced(text: &str) -> String {
    let text = crate::clean::clean(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", inert(&text))
}

/// Text of others in a line of code.
fn code(text: &str) -> String {
    let text = one_line(text, 200).replace('`', "'").replace('|', "\\|");
    format!("`{}`", inert(&text))
}

/// Text of others in a paragraph: no markup, no tags.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '`' | '*' | '_' | '[' | ']' | '\\' | '|' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Reason;
    use crate::report::sample;

    fn facts<'a>(report: &'a JobReport, asked: &'a str) -> Facts<'a> {
        let link = Some("https://github.com/o/r/actions/runs/7");
        Facts { report, run: "20261130-235522-3f2a9c", asked, link, version: "0.1.0" }
    }

    #[test]
    fn a_job_that_passed() {
        let report = sample::report("fix", Reason::Completed);
        let facts = facts(&report, "Mend `parse_empty`.\n\nIt panics; fixes #12, cc @octocat.\n```\nlet x = 1;\n```\n");
        insta::assert_snapshot!(title(facts), @"fix: Mend `parse_empty`.");
        insta::assert_snapshot!(body(facts).replace('\u{200b}', "¦"), @r"
        ### What was asked

        ````text
        Mend `parse_empty`.

        It panics; fixes #¦12, cc @¦octocat.
        ```
        let x = 1;
        ```
        ````

        ### What was found

        **passed** (`completed`): this is why: completed

        | Gate | Before | After |
        |---|---|---|
        | `tests`: `cargo test` | fail | pass |

        | Turns | Model calls | Tokens | Cost | Time | Attempt | Model |
        |--:|--:|--:|--:|--:|--:|---|
        | 7 of 40 | 8 | 1.5k | \$0.0123 | 12.3s | 1 | `claude-x` |

        <details><summary>The model's last words, which no gate has judged</summary>

        ```text
        All done.
        ```

        </details>

        Run [`20261130-235522-3f2a9c`](https://github.com/o/r/actions/runs/7), job `fix`, commit `2222222` on base `1111111`. Made by runner `0.1.0`.
        ");
    }

    #[test]
    fn a_job_that_did_not() {
        let mut report = sample::report("fix", Reason::GateFailed);
        report.info.description = "Closes #7 for @all".into();
        report.outcome.message = "gate `tests` <img src=x> fixes #3".into();
        report.cost = None;
        let facts = Facts { link: None, ..facts(&report, "x") };
        insta::assert_snapshot!(title(facts).replace('\u{200b}', "¦"), @"[gate_failed] fix: Closes #¦7 for @¦all");
        insta::assert_snapshot!(body(facts).replace('\u{200b}', "¦"), @r"
        ### What was asked

        ```text
        x
        ```

        ### What was found

        **failed** (`gate_failed`): gate \`tests\` &lt;img src=x&gt; fixes #¦3

        The gates do **not** vouch for this work: it is a draft to look at.

        | Gate | Before | After |
        |---|---|---|
        | `tests`: `cargo test` | fail | fail |

        The end of `tests`:

        ```text
        running 1 test

        test parse_empty ... FAILED
        ```

        | Turns | Model calls | Tokens | Cost | Time | Attempt | Model |
        |--:|--:|--:|--:|--:|--:|---|
        | 7 of 40 | 8 | 1.5k | price not known | 12.3s | 1 | `claude-x` |

        <details><summary>The model's last words, which no gate has judged</summary>

        ```text
        All done.
        ```

        </details>

        Run `20261130-235522-3f2a9c`, job `fix`, commit `2222222` on base `1111111`. Made by runner `0.1.0`.
        ");
    }

    #[test]
    fn the_limits_hold_whatever_comes() {
        let mut report = sample::report("fix", Reason::GateFailed);
        let gate = report.gates[0].clone();
        report.gates = (0..500)
            .map(|n| GateReport { name: format!("g{n}"), tail: "`x` é\n".repeat(9_000), ..gate.clone() })
            .collect();
        report.last_words = "@me ".repeat(50_000);
        report.outcome.message = "#1".repeat(50_000);
        let asked = "#1 @a `é` ".repeat(100_000);
        let facts = facts(&report, &asked);
        assert!(body(facts).len() <= BODY_MAX && title(facts).chars().count() <= TITLE_MAX);
        assert!(body(facts).contains("Made by runner"), "nothing is cut from the end of what fits");
    }

    #[test]
    fn a_link_that_is_none_is_left_out() {
        let report = sample::report("fix", Reason::Completed);
        for link in ["javascript:x", "https://h/x) [y](z", "https://h/\nx"] {
            assert!(!body(Facts { link: Some(link), ..facts(&report, "x") }).contains(link));
        }
    }
}
