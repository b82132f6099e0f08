//! The document, judged by two readers that are not ours.

use super::super::sample;
use super::Junit;
use crate::event::{GateStatus, JobReport, RunEventKind, RunInfo};
use crate::outcome::{Outcome, Reason};
use quick_junit::{Report, TestCaseStatus};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::time::Duration;

fn ended(report: JobReport) -> RunEventKind {
    RunEventKind::JobFinished(Box::new(report))
}

/// The document of a run with these reports, read back, with its text.
fn written(run: RunInfo, reports: Vec<JobReport>) -> (Report, String) {
    let mut junit = Junit::new(run);
    for report in reports {
        let name = report.info.id.to_string();
        junit.apply(&sample::event(1_500, &name, ended(report)));
    }
    let text = junit.document().unwrap();
    check_xml(&text);
    let report = Report::deserialize_from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    check_counts(&report);
    (report, text)
}

/// Well-formed, and of the characters that XML 1.0 allows, references to characters included.
fn check_xml(text: &str) {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let (mut skipped, mut counted) = (0, 0);
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(start) | Event::Empty(start) => {
                skipped += usize::from(start.name().as_ref() == b"skipped");
                for attribute in start.attributes() {
                    let attribute = attribute.unwrap();
                    let value = attribute.unescape_value().unwrap();
                    if attribute.key.as_ref() == b"skipped" {
                        counted += value.parse::<usize>().unwrap();
                    }
                    assert!(value.chars().all(allowed), "{value:?}");
                    assert!(!value.contains('\n'), "a newline in an attribute becomes a space: {value:?}");
                }
            }
            Event::CData(data) => assert!(!data.windows(3).any(|window| window == b"]]>")),
            Event::GeneralRef(reference) => panic!("a reference: {reference:?}"),
            Event::End(_) | Event::Text(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    assert_eq!(counted, skipped);
    assert!(text.chars().all(allowed), "a forbidden character");
}

/// Counts are those of the elements.
fn check_counts(report: &Report) {
    let mut all = [0; 3];
    for suite in &report.test_suites {
        let mut counts = [0; 3];
        for case in &suite.test_cases {
            counts[0] += 1;
            match &case.status {
                TestCaseStatus::Success { .. } | TestCaseStatus::Skipped { .. } => {}
                TestCaseStatus::NonSuccess { kind: quick_junit::NonSuccessKind::Failure, .. } => counts[1] += 1,
                TestCaseStatus::NonSuccess { kind: quick_junit::NonSuccessKind::Error, .. } => counts[2] += 1,
            }
        }
        assert_eq!([suite.tests, suite.failures, suite.errors], counts[..3], "{:?}", suite.name);
        (0..3).for_each(|index| all[index] += counts[index]);
    }
    assert_eq!([report.tests, report.failures, report.errors], all);
}

fn description(status: &TestCaseStatus) -> String {
    match status {
        TestCaseStatus::NonSuccess { description: Some(text), .. } => text.as_str().to_owned(),
        TestCaseStatus::NonSuccess { .. } | TestCaseStatus::Success { .. } | TestCaseStatus::Skipped { .. } => {
            String::new()
        }
    }
}

fn kind(status: &TestCaseStatus) -> (&'static str, String, String) {
    let word = |text: Option<&quick_junit::XmlString>| text.map(|text| text.as_str().to_owned()).unwrap_or_default();
    match status {
        TestCaseStatus::Success { .. } => ("success", String::new(), String::new()),
        TestCaseStatus::NonSuccess { kind, message, ty, .. } => match kind {
            quick_junit::NonSuccessKind::Failure => ("failure", word(ty.as_ref()), word(message.as_ref())),
            quick_junit::NonSuccessKind::Error => ("error", word(ty.as_ref()), word(message.as_ref())),
        },
        TestCaseStatus::Skipped { message, ty, .. } => ("skipped", word(ty.as_ref()), word(message.as_ref())),
    }
}

#[test]
fn a_suite_a_file_and_a_case_for_each_job_and_gate() {
    let mut run = sample::run(&["good", "bad", "late"]);
    run.jobs[1].file = "jobs/good.toml".into();
    let mut bad = sample::report("bad", Reason::GateFailed);
    bad.info.file = "jobs/good.toml".into();
    let (report, _) = written(run, vec![sample::report("good", Reason::Completed), bad]);
    let found: Vec<_> = report
        .test_suites
        .iter()
        .flat_map(|suite| suite.test_cases.iter().map(|case| (suite.name.as_str(), case)))
        .map(|(suite, case)| {
            let (kind, ty, _) = kind(&case.status);
            format!("{suite} | {} | {} | {kind} {ty}", case.classname.as_ref().unwrap().as_str(), case.name.as_str())
        })
        .collect();
    insta::assert_snapshot!(found.join("\n"), @"
    jobs/good.toml | good | good | success 
    jobs/good.toml | good.good | tests | success 
    jobs/good.toml | bad | bad | failure gate_failed
    jobs/good.toml | bad.bad | tests | failure gate_failed
    jobs/late.toml | late | late | error not_finished
    ");
    assert_eq!(report.name.as_ref().unwrap().as_str(), "runner 20261130-235522-3f2a9c");
    assert_eq!(report.test_suites[0].timestamp.unwrap().to_rfc3339(), "2026-11-30T23:55:22+00:00");
    assert_eq!(report.test_suites[0].time, Some(Duration::from_millis(24_600)), "the jobs, not their gates again");
}

#[test]
fn what_a_reader_wants_to_know_is_a_property() {
    let (report, _) = written(sample::run(&["good"]), vec![sample::report("good", Reason::Completed)]);
    let case = &report.test_suites[0].test_cases[0];
    let of = |name: &str| {
        let property = case.properties.iter().find(|property| property.name.as_str() == name);
        property.map(|property| property.value.as_str().to_owned())
    };
    for (name, value) in [
        ("verdict", "passed"),
        ("reason", "completed"),
        ("terminal", "completed"),
        ("turns", "7"),
        ("tokens", "1500"),
        ("cost_usd", "0.012300"),
        ("model", "claude-x"),
        ("base", "1111111"),
        ("branch", "runner/r/good"),
        ("commit", "2222222"),
    ] {
        assert_eq!(of(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(of("fault"), None, "what has no value is left out");
}

#[test]
fn every_reason_is_the_element_of_its_verdict() {
    let expected = |reason: Reason| match reason.verdict() {
        crate::outcome::Verdict::Passed => ("success", ""),
        crate::outcome::Verdict::Failed => ("failure", reason.code()),
        crate::outcome::Verdict::Error | crate::outcome::Verdict::Cancelled => ("error", reason.code()),
        crate::outcome::Verdict::Skipped => ("skipped", reason.code()),
    };
    for reason in Reason::ALL {
        let (report, _) = written(sample::run(&["x"]), vec![sample::report("x", *reason)]);
        let (kind, ty, _) = kind(&report.test_suites[0].test_cases[0].status);
        assert_eq!((kind, ty.as_str()), expected(*reason));
    }
}

#[test]
fn a_gate_says_red_broken_never_judged_or_flaky() {
    let mut job = sample::report("x", Reason::GateError);
    let gate = job.gates[0].clone();
    let with = |name: &str, after, flaky| crate::event::GateReport { name: name.into(), after, flaky, ..gate.clone() };
    job.gates = vec![
        with("red", Some(GateStatus::Fail), false),
        with("broken", Some(GateStatus::Error), false),
        with("unjudged", None, false),
        with("flaky", Some(GateStatus::Pass), true),
    ];
    let (report, text) = written(sample::run(&["x"]), vec![job]);
    let kinds: Vec<_> = report.test_suites[0].test_cases[1..]
        .iter()
        .map(|case| {
            let (kind, ty, _) = kind(&case.status);
            format!("{} {kind} {ty}", case.name.as_str())
        })
        .collect();
    assert_eq!(
        kinds,
        ["red failure gate_failed", "broken error gate_error", "unjudged skipped not_judged", "flaky success "]
    );
    assert!(text.contains("<flakyFailure type=\"flaky\""));
}

#[test]
fn b019_what_has_not_ended_is_an_error() {
    let (report, _) = written(sample::run(&["a", "b"]), vec![sample::report("a", Reason::Completed)]);
    let (kind, ty, _) = kind(&report.test_suites[1].test_cases[0].status);
    assert_eq!((kind, ty.as_str()), ("error", "not_finished"));
}

#[test]
fn b160_b161_b167_nasty_text_is_valid_and_readable() {
    let nasty = "\x1b[0;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \0\x07 ]]> <a> & \"q\" \u{fffe}\u{ffff} \u{1f600}\t|";
    let invalid = String::from_utf8_lossy(b"caf\xe9 \xff\xfe").into_owned();
    let mut job = sample::report("x", Reason::GateFailed);
    job.outcome.message = format!("{nasty}\nsecond line");
    job.outcome.detail = format!("{nasty}\n{invalid}");
    job.gates[0].tail = format!("{nasty}\n]]>]]>");
    job.gates[0].name = nasty.into();
    job.gates[0].command = nasty.into();
    job.last_words = nasty.into();
    job.info.description = nasty.into();
    job.branch = Some(nasty.into());
    let (report, text) = written(sample::run(&["x"]), vec![job]);
    for noise in ["[0;31m", "]8;;", "\u{1b}", "&#27;", "&#x1b;"] {
        assert!(!text.contains(noise), "{noise:?}");
    }
    let cases = &report.test_suites[0].test_cases;
    let (_, _, message) = kind(&cases[0].status);
    assert_eq!(message, "red link ]]> <a> & \"q\" \u{fffd}\u{fffd} \u{1f600} |");
    // quick-junit cleans again and drops tabs.
    assert!(description(&cases[0].status).contains("red link  ]]> <a> & \"q\""), "{}", description(&cases[0].status));
    assert!(description(&cases[1].status).ends_with("]]>]]>"));
}

#[test]
fn b164_b169_names_arrive_as_they_were_and_are_never_empty() {
    let name = "a < b & \"c\" > d ]]>";
    let mut run = sample::run(&["x"]);
    run.jobs[0].file = name.into();
    run.jobs[0].stem = "  ".into();
    let mut job = sample::report("x", Reason::Completed);
    job.info = run.jobs[0].clone();
    job.gates[0].name = name.into();
    let (report, text) = written(run, vec![job]);
    assert_eq!(report.test_suites[0].name.as_str(), name);
    assert_eq!(report.test_suites[0].test_cases[1].name.as_str(), name);
    assert_eq!(report.test_suites[0].test_cases[0].classname.as_ref().unwrap().as_str(), "jobs");
    assert!(!text.contains("&amp;amp;") && !text.contains("&amp;lt;"));
}

#[test]
fn b165_b170_a_run_without_jobs_has_one_empty_suite() {
    let (report, text) = written(sample::run(&[]), Vec::new());
    assert_eq!(report.test_suites.len(), 1);
    assert_eq!(report.tests, 0);
    insta::assert_snapshot!(text, @r#"
    <?xml version="1.0" encoding="utf-8"?>
    <testsuites name="runner 20261130-235522-3f2a9c" tests="0" failures="0" errors="0" time="0.000">
     <testsuite id="0" name="no jobs" package="no jobs" hostname="localhost" timestamp="2026-11-30T23:55:22Z" tests="0" failures="0" errors="0" skipped="0" time="0.000">
     </testsuite>
    </testsuites>
    "#);
}

#[test]
fn b163_b166_b171_texts_are_bounded_whatever_came() {
    let huge = "x]]>\x1b[31m output line\n".repeat(500_000);
    let mut job = sample::report("x", Reason::GateFailed);
    job.outcome.message = huge.clone();
    job.outcome.detail = huge.clone();
    job.gates[0].tail = huge.clone();
    job.last_words = huge.clone();
    job.info.description = huge.clone();
    job.gates = vec![job.gates[0].clone(); 12];
    let (report, text) = written(sample::run(&["x"]), vec![job]);
    let cases = &report.test_suites[0].test_cases;
    let whole: usize = cases.iter().map(|case| description(&case.status).len()).sum();
    assert!(whole < 48 * 1024, "{whole}");
    assert!(kind(&cases[0].status).2.len() <= 1_000);
    assert!(text.len() < 256 * 1024, "{}", text.len());
}

#[test]
fn b168_the_first_lines_say_why_where_and_what_the_gate_said_last() {
    let mut job = sample::report("x", Reason::GateFailed);
    job.gates[0].tail = (1..=500).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let (report, _) = written(sample::run(&["x"]), vec![job]);
    let body = description(&report.test_suites[0].test_cases[0].status);
    let first: Vec<&str> = body.lines().take(7).collect();
    insta::assert_snapshot!(first.join("\n"), @"
    gate_failed: this is why: gate_failed
    job file: jobs/x.toml
    line 498
    line 499
    line 500
    whole output: .runner/runs/20261130-235522-3f2a9c/jobs/x/tools/gate-tests.log
    patch and transcript: .runner/runs/20261130-235522-3f2a9c/jobs/x
    ");
    assert!(body.ends_with("line 499\nline 500"));
}

#[test]
fn a_skipped_job_names_its_cause() {
    let mut job = sample::report("x", Reason::FailFast);
    job.outcome = Outcome::without_loop(Reason::FailFast, "`y` failed and the run stops at the first failure");
    job.gates.clear();
    let (report, _) = written(sample::run(&["x"]), vec![job]);
    let (kind, ty, message) = kind(&report.test_suites[0].test_cases[0].status);
    assert_eq!((kind, ty.as_str()), ("skipped", "fail_fast"));
    assert_eq!(message, "`y` failed and the run stops at the first failure");
}
