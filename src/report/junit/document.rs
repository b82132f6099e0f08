//! The document: written by `junit-report`, then completed in one pass. Cases are written once, when their job ends;
//! the frame around them is written again each time.

use super::cases::Case;
use crate::event::RunInfo;
use crate::report::cut;
use crate::units::Elapsed;
use junit_report::{OffsetDateTime, Report, TestSuite};
use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::{Reader, Writer};
use std::ops::AddAssign;
use std::time::Duration;

/// The written cases of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// The `<testcase>` elements.
    pub(super) xml: String,
    /// What they are.
    pub(super) counts: Counts,
    /// The job's time.
    pub(super) time: Duration,
}

/// Cases by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

/// The suite of one job file.
#[derive(Debug)]
pub(super) struct Suite<'a> {
    /// The file, as the person named it.
    pub(super) file: &'a str,
    /// The cases of its jobs.
    pub(super) jobs: Vec<&'a Written>,
}

impl Counts {
    fn of(cases: &[Case]) -> Self {
        let count = |wanted: fn(&Case) -> bool| cases.iter().filter(|case| wanted(case)).count();
        Self {
            tests: cases.len(),
            failures: count(|case| case.test.is_failure()),
            errors: count(|case| case.test.is_error()),
            skipped: count(|case| case.test.is_skipped()),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.tests += other.tests;
        self.failures += other.failures;
        self.errors += other.errors;
        self.skipped += other.skipped;
    }
}

impl Suite<'_> {
    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for job in &self.jobs {
            sum += job.counts;
        }
        sum
    }

    /// The time of its jobs alone: it holds their gates' already.
    fn time(&self) -> Duration {
        self.jobs.iter().map(|job| job.time).sum()
    }
}

/// Writes the cases of a job.
pub(super) fn cases(cases: &[Case], time: Duration) -> Result<Written, String> {
    let tests = cases.iter().map(|case| case.test.clone()).collect();
    let plain = plain(vec![suite("", OffsetDateTime::UNIX_EPOCH, tests)])?;
    let xml = with_properties(&plain, cases).map_err(|error| error.to_string())?;
    Ok(Written { xml, counts: Counts::of(cases), time })
}

/// Writes the whole document. `now` is how long the run has taken.
pub(super) fn whole(run: &RunInfo, now: Elapsed, suites: &[Suite<'_>]) -> Result<String, String> {
    let started_at = started_at(run);
    let frame = plain(suites.iter().map(|one| suite(one.file, started_at, Vec::new())).collect())?;
    with_cases(&frame, run, now, suites).map_err(|error| error.to_string())
}

fn plain(suites: Vec<TestSuite>) -> Result<String, String> {
    let mut report = Report::new();
    report.add_testsuites(suites);
    let mut text = Vec::new();
    report.write_xml(&mut text).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// Not `TestSuite::new`, which reads the clock.
fn suite(file: &str, timestamp: OffsetDateTime, testcases: Vec<junit_report::TestCase>) -> TestSuite {
    let name = cut::one_line(file, 1_000);
    TestSuite {
        package: name.clone(),
        name,
        timestamp,
        hostname: "localhost".into(),
        testcases,
        system_out: None,
        system_err: None,
    }
}

fn started_at(run: &RunInfo) -> OffsetDateTime {
    let parsed: Option<jiff::Timestamp> = run.started_at.parse().ok();
    parsed
        .and_then(|moment| OffsetDateTime::from_unix_timestamp(moment.as_second()).ok())
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Copies what is inside of the one suite, and adds what the cases lack. They come in the order in which they were
/// written.
fn with_properties(plain: &str, cases: &[Case]) -> Result<String, quick_xml::Error> {
    let mut cases = cases.iter();
    let mut reader = Reader::from_str(plain);
    let mut writer = Writer::new_with_indent(Vec::with_capacity(plain.len() * 2), b' ', 1);
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Eof => break,
            Event::Decl(_) => {}
            Event::Start(start) | Event::Empty(start) => match start.name().as_ref() {
                b"testsuites" | b"testsuite" => {}
                b"testcase" => case(&mut writer, &event, start, cases.next())?,
                _ => writer.write_event(event)?,
            },
            Event::End(end) if end.name().as_ref().starts_with(b"testsuite") => {}
            Event::End(_)
            | Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_) => writer.write_event(event)?,
        }
    }
    Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned())
}

fn case(
    writer: &mut Writer<Vec<u8>>,
    event: &Event<'_>,
    start: &BytesStart<'_>,
    case: Option<&Case>,
) -> Result<(), quick_xml::Error> {
    let Some(case) = case.filter(|case| !case.properties.is_empty() || case.flaky.is_some()) else {
        return Ok(writer.write_event(event.borrow())?);
    };
    writer.write_event(Event::Start(start.borrow()))?;
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
    if matches!(event, Event::Empty(_)) {
        writer.write_event(Event::End(BytesEnd::new("testcase")))?;
    }
    Ok(())
}

/// Copies the frame, and adds counts, times and the cases. Suites come in the order in which they were written.
fn with_cases(frame: &str, run: &RunInfo, now: Elapsed, suites: &[Suite<'_>]) -> Result<String, quick_xml::Error> {
    let size: usize = suites.iter().flat_map(|suite| &suite.jobs).map(|job| job.xml.len() + 1).sum();
    let mut left = suites.iter();
    let mut reader = Reader::from_str(frame);
    let mut writer = Writer::new_with_indent(Vec::with_capacity(frame.len() * 2 + size), b' ', 1);
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Eof => break,
            Event::Start(start) | Event::Empty(start) => match start.name().as_ref() {
                b"testsuites" => writer.write_event(Event::Start(root(run, now, suites)))?,
                b"testsuite" => {
                    let Some(suite) = left.next() else { continue };
                    writer.write_event(Event::Start(counted(start, suite)?))?;
                    for job in &suite.jobs {
                        writer.get_mut().push(b'\n');
                        writer.get_mut().extend_from_slice(job.xml.as_bytes());
                    }
                    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
                }
                _ => writer.write_event(event)?,
            },
            Event::End(_)
            | Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_) => writer.write_event(event)?,
        }
    }
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

/// No `skipped` here: the schema that Jenkins publishes does not know it.
fn root(run: &RunInfo, now: Elapsed, suites: &[Suite<'_>]) -> BytesStart<'static> {
    let mut sum = Counts::default();
    for suite in suites {
        sum += suite.counts();
    }
    BytesStart::new("testsuites").with_attributes([
        ("name", format!("runner {}", cut::one_line(&run.id.0, 200)).as_str()),
        ("tests", sum.tests.to_string().as_str()),
        ("failures", sum.failures.to_string().as_str()),
        ("errors", sum.errors.to_string().as_str()),
        ("time", seconds(now.0).as_str()),
    ])
}

/// The suite's element: its counts are those of the cases that are put in.
fn counted(start: &BytesStart<'_>, suite: &Suite<'_>) -> Result<BytesStart<'static>, quick_xml::Error> {
    let mut element = BytesStart::new("testsuite");
    for attribute in start.attributes() {
        let attribute = attribute?;
        if matches!(attribute.key.as_ref(), b"id" | b"name" | b"package" | b"hostname" | b"timestamp") {
            element.push_attribute(attribute);
        }
    }
    let counts = suite.counts();
    element.extend_attributes([
        ("tests", counts.tests.to_string().as_str()),
        ("failures", counts.failures.to_string().as_str()),
        ("errors", counts.errors.to_string().as_str()),
        ("skipped", counts.skipped.to_string().as_str()),
        ("time", seconds(suite.time()).as_str()),
    ]);
    Ok(element)
}

fn seconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}
