//! The page as a whole: its order, its bounds, and that nothing from outside acts in it.

use super::{MAX, Page, Tapes};
use crate::event::{JobReport, RunEventKind};
use crate::exit::ExitStatus;
use crate::outcome::{Reason, Terminal, TerminalReason};
use crate::report::sample;
use crate::report::tally::RunStats;
use proptest::prelude::*;
use serde_json::json;

fn ended(report: JobReport) -> RunEventKind {
    RunEventKind::JobFinished(Box::new(report))
}

fn stats(reports: Vec<JobReport>) -> RunStats {
    let names: Vec<String> = reports.iter().map(|report| report.info.id.to_string()).collect();
    let mut run = sample::run(&[]);
    run.jobs = reports.iter().map(|report| report.info.clone()).collect();
    let mut stats = RunStats::new(run);
    for (name, report) in names.iter().zip(reports) {
        stats.apply(&sample::event(2, name, ended(report)));
    }
    stats.apply(&sample::event(9_000, "", RunEventKind::RunFinished { exit: ExitStatus::Failed }));
    stats
}

fn page(stats: &RunStats, max: usize, patch: &str, talk: &[String], events: &[String]) -> String {
    let mut tapes = Tapes::default();
    for line in events {
        tapes.apply(line, |_| true);
    }
    let mut page = Page::new(stats, tapes, max, |_| true);
    while let Some(place) = page.next_place() {
        let mut said = page.talk(place);
        if let Some(said) = &mut said {
            for line in talk {
                said.apply(line);
            }
        }
        page.fill(place, patch, 0, said);
    }
    page.finish()
}

/// The tags of a page, each with its attributes; script and style are left out.
fn tags(page: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(begin) = rest.find('<') {
        rest = &rest[begin + 1..];
        let tag = &rest[..rest.find('>').expect("every tag ends")];
        tags.push(tag);
        rest = &rest[tag.len()..];
        for whole in ["script", "style"] {
            if tag == whole {
                rest = &rest[rest.find(&format!("</{whole}")).expect("it is closed")..];
            }
        }
    }
    tags
}

/// Fails where a tag or an attribute is none of the page's own.
fn check(page: &str) {
    const TAGS: &str = "!doctype html head meta title link style script body header main nav noscript section h1 h2 h3 p a b i small span div ul li \
        dl dt dd code pre ins del details summary svg rect table thead tbody tr th td input select option label button output kbd";
    const ATTRIBUTES: &str = "lang charset http-equiv content name rel href id class hidden open role aria-label aria-hidden aria-live \
        aria-pressed type placeholder autocomplete spellcheck value viewBox preserveAspectRatio x y width height data-v data-r data-f \
        data-t data-s data-n data-g data-x html";
    let attribute = regex::Regex::new(r#"\s+([A-Za-z-]+)(="[^"]*")?"#).unwrap();
    for tag in tags(page) {
        let name: &str = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        assert!(TAGS.split_whitespace().any(|known| known == name), "<{tag}>");
        let rest = &tag[tag.find(name).unwrap() + name.len()..];
        for found in attribute.captures_iter(rest) {
            assert!(ATTRIBUTES.split_whitespace().any(|known| known == &found[1]), "<{tag}>");
        }
        assert_eq!(attribute.replace_all(rest, "").trim_end_matches('/').trim(), "", "<{tag}>");
        if let Some(at) = tag.find("href=\"") {
            let address = &tag[at + 6..];
            assert!(["./", "#", "data:,"].iter().any(|start| address.starts_with(start)), "<{tag}>");
        }
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn what_needs_eyes_comes_first() {
    let mut shy = sample::report("shy", Reason::Completed);
    shy.protected_changes = vec!["tests/a.rs".into()];
    let mut skipped = sample::report("skipped", Reason::Dependency);
    skipped.model_calls = 0;
    let stats = stats(vec![
        sample::report("good", Reason::Completed),
        skipped,
        shy,
        sample::report("broken", Reason::SetupFailed),
        sample::report("bad", Reason::GateFailed),
    ]);
    let text = page(&stats, MAX, "", &[], &[]);
    let places: Vec<usize> = ["bad", "broken", "shy", "skipped", "good"]
        .iter()
        .map(|name| text.find(&format!("id=\"job-{name}\"")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(text.contains("<h1>2 of 5 jobs did not pass</h1>"));
    for part in [
        "changed protected files",
        "tests/a.rs",
        "exit code 101",
        "test parse_empty ... FAILED",
        "data-t=\"nightly\n\"",
    ] {
        assert!(text.contains(part), "{part}");
    }
    check(&text);
}

#[test]
fn the_policy_names_the_script_and_the_style_and_nothing_else() {
    let text = page(&stats(vec![sample::report("a", Reason::Completed)]), MAX, "", &[], &[]);
    let policy = text.split("content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(
        policy.starts_with("default-src &apos;none&apos;; style-src &apos;sha256-") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(text.contains("<h1>The job passed</h1>") && !text.contains("Worth a look"));
}

#[test]
fn the_page_is_bounded_and_says_what_is_left_out() {
    let mut reports = Vec::new();
    for n in 0..150 {
        let mut report =
            sample::report(&format!("job-{n}"), if n % 10 == 0 { Reason::GateFailed } else { Reason::Completed });
        report.outcome.message = "long ".repeat(5_000);
        report.outcome.detail = "detail\n".repeat(2_000);
        report.gates[0].tail = "output line\n".repeat(1_000);
        report.protected_changes = if n % 10 == 0 { vec!["a/very/long/path".repeat(50); 5] } else { Vec::new() };
        reports.push(report);
    }
    let stats = stats(reports);
    let patch = format!("diff --git a/f b/f\n@@ -0,0 +1,9999 @@\n{}", "+line\n".repeat(9_999));
    let said = json!({"kind": "message", "at": 1.0, "id": 1, "role": "assistant", "origin": "model",
        "blocks": [{"type": "text", "text": "words ".repeat(1_000)}]})
    .to_string();
    let talk = vec![said; 20];
    for max in [MAX, 1_500_000, 100_000, 20_000] {
        let text = page(&stats, max, &patch, &talk, &[]);
        assert!(text.len() < max + max / 10 + 20_000, "{max}: {}", text.len());
        check(&text);
        let bodies = text.matches("<div class=\"body\">").count();
        match max {
            MAX => assert_eq!((bodies, text.matches("Transcript</h3>").count()), (150, 150)),
            1_500_000 => assert!(bodies == 150 && text.contains("The transcript is left out"), "{bodies}"),
            100_000 => assert!(text.contains("There is no room for more about this job")),
            20_000 => assert!(text.contains("more jobs are left out of this page")),
            _ => {}
        }
    }
}

/// A report in which every text is the same.
fn hostile(text: &str) -> JobReport {
    let mut report = sample::report("h", Reason::GateFailed);
    let text = text.to_owned();
    report.info.file.clone_from(&text);
    report.info.stem.clone_from(&text);
    report.info.description.clone_from(&text);
    report.info.model.clone_from(&text);
    report.info.tags = vec![text.clone()];
    report.info.gates = vec![text.clone()];
    report.outcome.message.clone_from(&text);
    report.outcome.detail.clone_from(&text);
    report.outcome.terminal = Some(Terminal {
        reason: TerminalReason::ModelError,
        message: text.clone(),
        abort: None,
        error: Some(crate::outcome::ModelError {
            kind: crate::outcome::ModelErrorKind::RateLimited,
            message: text.clone(),
            request_id: Some(text.clone()),
            status: None,
        }),
        hook: None,
        budget_exhausted: false,
    });
    for gate in &mut report.gates {
        gate.name.clone_from(&text);
        gate.command.clone_from(&text);
        gate.tail = format!("{text} and more");
        gate.log = Some(text.clone());
    }
    report.protected_changes = vec![text.clone()];
    report.branch = Some(text.clone());
    report.base = Some(text.clone());
    report.commit = Some(text.clone());
    report.worktree = Some(text.clone().into());
    report.last_words.clone_from(&text);
    report.attempts = vec![report.as_attempt(1), report.as_attempt(2)];
    report
}

/// A page in which every text is the same.
fn hostile_page(text: &str) -> String {
    let mut stats = stats(vec![hostile(text)]);
    stats.run.shown_folder = text.into();
    stats.run.version = text.into();
    stats.apply(&sample::event(3, "h", RunEventKind::Warning(text.into())));
    let patch =
        format!("diff --git a/{text} b/{text}\nnew file {text}\n@@ -1,2 +1,2 @@ {text}\n-{text}\n+{text}\n {text}\n");
    let block = json!({"type": "text", "text": text});
    let talk = vec![
        json!({"kind": "meta", "system": text}).to_string(),
        json!({"kind": "message", "role": "user", "origin": text, "blocks": [block]}).to_string(),
        json!({"kind": "message", "role": "assistant", "origin": "model", "blocks": [block, {"type": "thinking", "text": text},
            {"type": "tool_use", "id": "1", "name": text, "input": {text: text, "command": text}},
            {"type": "tool_use", "id": "2", "name": text, "invalid": {"raw": text}}]})
        .to_string(),
        json!({"kind": "message", "role": "user", "origin": "tool_results",
            "blocks": [{"type": "tool_result", "id": "1", "content": text, "is_error": true}]})
        .to_string(),
    ];
    let events = vec![
        json!({"at": 1.0, "job": "h", "event": "job_started"}).to_string(),
        json!({"at": 2.0, "job": "h", "event": "turn", "turn": 1, "tools": [text]}).to_string(),
        json!({"at": 3.0, "job": "h", "event": "tool_finished", "tool": text, "duration_s": 1.0}).to_string(),
        json!({"at": 4.0, "job": "h", "event": "gate_finished", "gate": text, "status": text, "duration_s": 1.0})
            .to_string(),
        json!({"at": 5.0, "job": "h", "event": "retrying", "code": text, "wait_s": 1e300}).to_string(),
    ];
    page(&stats, MAX, &patch, &talk, &events)
}

#[test]
fn nothing_from_outside_acts() {
    for text in [
        "</script><script>alert(1)</script>",
        "<!-- <script> -->]]><![CDATA[",
        "\" onload=\"alert(1)\" x=\"",
        "' onerror='alert(1)",
        "<img src=x onerror=alert(1)>",
        "</pre></details></style><base href=//x>",
        "javascript:alert(1)",
        "\x1b[31mred\x1b[0m \u{9b}31m \u{0}\u{1}\u{7f}",
        "\u{2028}\u{2029}\u{202e}\u{feff}\u{fffe}",
        "&lt;b&gt; &#60;b&#62;",
        "\r\n\t",
        "<svg/onload=alert(1)>{{x}}${x}",
    ] {
        let page = hostile_page(text);
        check(&page);
        assert!(!page.contains(['\x1b', '\0', '\u{202e}', '\u{9b}']), "{text:?}");
    }
    let page = hostile_page(&"x".repeat(300_000));
    assert!(page.len() < 300_000, "{}", page.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_acts(text in "(<|>|\"|'|&|/|=|script|!--|on|\\PC|\\x1b|\\x00|\n| ){0,40}") {
        check(&hostile_page(&text));
    }
}
