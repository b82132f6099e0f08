//! The document: written by `junit-report`, then completed in one pass.

use super::cases::Case;
use crate::event::RunInfo;
use crate::report::cut;
use crate::units::Elapsed;
use junit_report::{OffsetDateTime, Report, TestSuite};
use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::{Reader, Writer};
use std::borrow::Cow;
use std::time::Duration;

/// The cases of one job file.
pub(super) struct Suite<'a> {
    /// The file, as the person named it.
    pub(super) file: &'a str,
    /// Its cases.
    pub(super) cases: Vec<Cow<'a, Case>>,
    /// The time of its jobs together.
    pub(super) time: Duration,
}

/// Writes the whole document. `now` is how long the run has taken.
pub(super) fn write(run: &RunInfo, now: Elapsed, suites: &[Suite<'_>]) -> Result<String, String> {
    let mut report = Report::new();
    let started_at = started_at(run);
    for suite in suites {
        let name = cut::one_line(suite.file, 1_000);
        // Not `TestSuite::new`, which reads the clock.
        report.add_testsuite(TestSuite {
            package: name.clone(),
            name,
            timestamp: started_at,
            hostname: "localhost".into(),
            testcases: suite.cases.iter().map(|case| case.case.clone()).collect(),
            system_out: None,
            system_err: None,
        });
    }
    let mut plain = Vec::new();
    report.write_xml(&mut plain).map_err(|error| format!("junit.xml: {error}"))?;
    let plain = String::from_utf8(plain).map_err(|error| format!("junit.xml: {error}"))?;
    complete(&plain, run, now, suites).map_err(|error| format!("junit.xml: {error}"))
}

fn started_at(run: &RunInfo) -> OffsetDateTime {
    let parsed: Option<jiff::Timestamp> = run.started_at.parse().ok();
    parsed
        .and_then(|moment| OffsetDateTime::from_unix_timestamp(moment.as_second()).ok())
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Copies the document and adds what it lacks. Suites and cases come in the order in which they were written.
fn complete(plain: &str, run: &RunInfo, now: Elapsed, suites: &[Suite<'_>]) -> Result<String, quick_xml::Error> {
    let mut suites_left = suites.iter();
    let mut cases_left = suites.iter().flat_map(|suite| &suite.cases);
    let mut reader = Reader::from_str(plain);
    let mut writer = Writer::new_with_indent(Vec::with_capacity(plain.len() * 2), b' ', 1);
    loop {
        let event = match reader.read_event()? {
            Event::Eof => break,
            event => event,
        };
        let (start, is_empty) = match &event {
            Event::Start(start) => (start, false),
            Event::Empty(start) => (start, true),
            Event::End(_)
            | Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_)
            | Event::Eof => {
                writer.write_event(event)?;
                continue;
            }
        };
        match start.name().as_ref() {
            b"testsuites" => writer.write_event(Event::Start(root(run, now, suites)))?,
            b"testsuite" => {
                let suite = suites_left.next().map(|suite| with_counts(start, suite)).transpose()?;
                open(&mut writer, suite.unwrap_or_else(|| start.borrow()), is_empty)?;
            }
            b"testcase" => {
                let Some(case) = cases_left.next() else { continue };
                if case.properties.is_empty() && case.flaky.is_none() {
                    open(&mut writer, start.borrow(), is_empty)?;
                    continue;
                }
                writer.write_event(Event::Start(start.borrow()))?;
                add(&mut writer, case)?;
                if is_empty {
                    writer.write_event(Event::End(BytesEnd::new("testcase")))?;
                }
            }
            _ => writer.write_event(event)?,
        }
    }
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

fn open(writer: &mut Writer<Vec<u8>>, start: BytesStart<'_>, is_empty: bool) -> Result<(), quick_xml::Error> {
    writer.write_event(if is_empty { Event::Empty(start) } else { Event::Start(start) })?;
    Ok(())
}

fn add(writer: &mut Writer<Vec<u8>>, case: &Case) -> Result<(), quick_xml::Error> {
    if !case.properties.is_empty() {
        writer.write_event(Event::Start(BytesStart::new("properties")))?;
        for (name, value) in &case.properties {
            let property = BytesStart::new("property").with_attributes([("name", *name), ("value", value.as_str())]);
            writer.write_event(Event::Empty(property))?;
        }
        writer.write_event(Event::End(BytesEnd::new("properties")))?;
    }
    if let Some(message) = case.flaky {
        let flaky = BytesStart::new("flakyFailure").with_attributes([("type", "flaky"), ("message", message)]);
        writer.write_event(Event::Empty(flaky))?;
    }
    Ok(())
}

/// No `skipped` here: the schema that Jenkins publishes does not know it.
fn root(run: &RunInfo, now: Elapsed, suites: &[Suite<'_>]) -> BytesStart<'static> {
    let count =
        |wanted: fn(&Case) -> bool| suites.iter().flat_map(|suite| &suite.cases).filter(|case| wanted(case)).count();
    BytesStart::new("testsuites").with_attributes([
        ("name", format!("runner {}", cut::one_line(&run.id.0, 200)).as_str()),
        ("tests", count(|_| true).to_string().as_str()),
        ("failures", count(|case| case.case.is_failure()).to_string().as_str()),
        ("errors", count(|case| case.case.is_error()).to_string().as_str()),
        ("time", seconds(now.0).as_str()),
    ])
}

/// Adds `skipped`, and makes `time` that of the jobs alone: a job's time holds its gates' already.
fn with_counts<'a>(start: &BytesStart<'a>, suite: &Suite<'_>) -> Result<BytesStart<'a>, quick_xml::Error> {
    let mut counted = BytesStart::new("testsuite");
    for attribute in start.attributes() {
        let attribute = attribute?;
        if attribute.key.as_ref() != b"time" {
            counted.push_attribute(attribute);
        }
    }
    let skipped = suite.cases.iter().filter(|case| case.case.is_skipped()).count();
    counted.push_attribute(("skipped", skipped.to_string().as_str()));
    counted.push_attribute(("time", seconds(suite.time).as_str()));
    Ok(counted)
}

fn seconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}
