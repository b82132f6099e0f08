//! The sink against real folders and a console that keeps what it is given.

use super::*;
use crate::event::JobReport;
use crate::exit::ExitStatus;
use crate::outcome::Reason;
use crate::report::paint::{ColorChoice, Tty};
use crate::report::redact::Secret;
use crate::report::sample;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A stream that keeps what is written.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Case {
    root: tempfile::TempDir,
    settings: SinkSettings,
    out: Kept,
    err: Kept,
}

impl Case {
    fn new(jobs: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut run = sample::run(jobs);
        run.folder = root.path().join(".runner/runs/r1");
        let settings = SinkSettings {
            run,
            git_dir: None,
            goes_on: false,
            settings: BTreeMap::new(),
            plan: serde_json::Value::Null,
            junit_extra: None,
            events_extra: None,
            format: Format::Pretty,
            detail: Detail::Normal,
            color: ColorChoice::Auto,
            stdout: Tty::default(),
            stderr: Tty::default(),
            width: None,
            github: None,
            secrets: Vec::new(),
        };
        Self { root, settings, out: Kept::default(), err: Kept::default() }
    }

    fn open(&self) -> Sink {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Sink> {
        let files = Files::new(&self.settings.secrets);
        let reader = if self.settings.github.is_some() { Reader::Github } else { Reader::Plain };
        let console = Console::to(files.clone(), reader, Box::new(self.out.clone()), Box::new(self.err.clone()));
        Sink::open_on(self.settings.clone(), files, console)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        let path = self.settings.run.folder.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn started(&self) -> RunEvent {
        sample::event(0, "", RunEventKind::RunStarted(self.settings.run.clone()))
    }
}

fn end(millis: u64, exit: ExitStatus) -> RunEvent {
    sample::event(millis, "", RunEventKind::RunFinished { exit })
}

fn ended(millis: u64, report: JobReport) -> RunEvent {
    let name = report.info.id.to_string();
    sample::event(millis, &name, RunEventKind::JobFinished(Box::new(report)))
}

#[test]
fn a_run_leaves_all_its_files() {
    let mut case = Case::new(&["good", "bad"]);
    case.settings.junit_extra = Some(case.path("out/report.xml"));
    case.settings.events_extra = Some(EventsTo::File(case.path("events.out")));
    fs::write(case.path("events.out"), "from an earlier run\n").unwrap();
    let git = case.path("git");
    case.settings.git_dir = Some(git.clone());
    let mut sink = case.open();
    for event in [
        case.started(),
        sample::event(1, "good", RunEventKind::JobStarted),
        ended(2, sample::report("good", Reason::Completed)),
        ended(3, sample::report("bad", Reason::GateFailed)),
        end(4, ExitStatus::Failed),
    ] {
        sink.handle(&event);
    }
    assert_eq!(sink.finish(), Vec::<String>::new());
    let run: serde_json::Value = serde_json::from_str(&case.read("run.json")).unwrap();
    assert_eq!(run["exit_code"], 1);
    let result: serde_json::Value = serde_json::from_str(&case.read("jobs/bad/result.json")).unwrap();
    assert_eq!(result["reason"], "gate_failed");
    assert_eq!(case.read("events.jsonl").lines().count(), 5);
    assert_eq!(fs::read_to_string(case.path("events.out")).unwrap(), case.read("events.jsonl"));
    assert_eq!(fs::read_to_string(case.path("out/report.xml")).unwrap(), case.read("junit.xml"));
    assert!(case.read("summary.md").starts_with("# runner: 1 passed, 1 failed\n"));
    assert_eq!(fs::read_to_string(git.join("info/exclude")).unwrap(), "/.runner/\n");
    assert!(case.out.text().contains("failed (gate_failed)"), "the table is a result");
    assert!(case.err.text().contains("bad: failed gate_failed"), "the progress is not");
}

#[test]
fn b019_reports_are_whole_at_every_moment() {
    let case = Case::new(&["a", "b"]);
    let mut sink = case.open();
    let errors = || {
        let report = quick_junit::Report::deserialize_from_str(&case.read("junit.xml")).unwrap();
        (report.tests, report.errors)
    };
    assert_eq!(errors(), (2, 2), "before anything has happened");
    sink.handle(&case.started());
    sink.handle(&sample::event(1, "b", RunEventKind::JobStarted));
    sink.handle(&ended(2, sample::report("a", Reason::Completed)));
    assert_eq!(errors(), (3, 1), "job and gate of `a`, and `b`, which runs");
    let run: serde_json::Value = serde_json::from_str(&case.read("run.json")).unwrap();
    assert_eq!(run["exit_code"], serde_json::Value::Null);
    assert_eq!(case.read("events.jsonl").lines().count(), 3);
}

#[test]
fn a_report_that_cannot_be_written_warns_once_and_ends_nothing() {
    let case = Case::new(&["a", "b", "c"]);
    let mut sink = case.open();
    sink.handle(&case.started());
    // A folder in its place: nobody can write there, not even root.
    let summary = case.settings.run.folder.join("summary.md");
    fs::remove_file(&summary).unwrap();
    fs::create_dir(&summary).unwrap();
    for name in ["a", "b", "c"] {
        sink.handle(&ended(2, sample::report(name, Reason::Completed)));
    }
    sink.handle(&end(4, ExitStatus::Passed));
    let warnings = sink.finish();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("summary.md"));
    assert_eq!(case.err.text().matches("warning: cannot write").count(), 1);
    assert!(case.read("jobs/c/result.json").contains("completed"));
}

#[test]
fn a_place_that_cannot_be_written_stops_the_run_before_it_begins() {
    let mut case = Case::new(&["a"]);
    fs::write(case.path("file"), "").unwrap();
    case.settings.junit_extra = Some(case.path("file/junit.xml"));
    let error = case.try_open().unwrap_err().to_string();
    assert!(error.contains("file/junit.xml"), "{error}");
}

#[test]
fn json_is_the_only_thing_on_standard_output() {
    let mut case = Case::new(&["a"]);
    case.settings.format = Format::Json;
    let mut sink = case.open();
    sink.handle(&case.started());
    sink.handle(&ended(2, sample::report("a", Reason::MaxTurns)));
    sink.handle(&end(4, ExitStatus::Failed));
    assert_eq!(case.out.text(), case.read("events.jsonl"));
    assert_eq!(case.err.text().lines().count(), 1, "the bad news: {}", case.err.text());
}

#[test]
fn the_table_leaves_standard_output_to_the_events() {
    let mut case = Case::new(&["a"]);
    case.settings.events_extra = Some(EventsTo::Stdout);
    let mut sink = case.open();
    sink.handle(&case.started());
    sink.handle(&end(4, ExitStatus::Passed));
    assert!(case.out.text().lines().all(|line| line.starts_with('{')));
    assert!(case.err.text().contains("VERDICT"));
}

#[test]
fn quiet_says_nothing_about_a_good_run() {
    let mut case = Case::new(&["a"]);
    case.settings.detail = Detail::Quiet;
    let mut sink = case.open();
    sink.handle(&case.started());
    sink.handle(&ended(2, sample::report("a", Reason::Completed)));
    sink.tick(Elapsed::from_millis(120_000));
    sink.handle(&end(130_000, ExitStatus::Passed));
    assert_eq!(case.out.text() + &case.err.text(), "");
}

#[test]
fn silence_is_broken_by_a_heartbeat() {
    let case = Case::new(&["a"]);
    let mut sink = case.open();
    sink.handle(&case.started());
    sink.handle(&sample::event(1_000, "a", RunEventKind::JobStarted));
    let beats = |sink: &mut Sink, millis| {
        sink.tick(Elapsed::from_millis(millis));
        case.err.text().matches("still running").count()
    };
    assert_eq!(beats(&mut sink, 30_999), 0);
    assert_eq!(beats(&mut sink, 31_000), 1);
    assert_eq!(beats(&mut sink, 60_000), 1);
    assert_eq!(beats(&mut sink, 61_000), 2);
}

#[test]
fn no_report_and_no_line_holds_a_secret() {
    let mut case = Case::new(&["a"]);
    let value = "s3cr\"et&value<1>";
    case.settings.secrets = vec![Secret { name: "API_KEY".into(), value: value.into() }];
    case.settings.detail = Detail::Verbose;
    case.settings.github = Some(GithubFiles { summary: Some(case.path("summary")), output: Some(case.path("output")) });
    let mut sink = case.open();
    let mut report = sample::report("a", Reason::GateFailed);
    let told = format!("it is {value} indeed");
    report.outcome.message.clone_from(&told);
    report.outcome.detail.clone_from(&told);
    report.gates[0].tail.clone_from(&told);
    report.gates[0].command.clone_from(&told);
    report.last_words.clone_from(&told);
    report.info.description = told;
    sink.handle(&case.started());
    sink.handle(&sample::event(1, "a", RunEventKind::ToolStarted { tool: "Bash".into(), subject: value.into() }));
    sink.handle(&sample::event(1, "a", RunEventKind::Warning(value.into())));
    sink.handle(&ended(2, report));
    sink.handle(&end(4, ExitStatus::Failed));
    let mut texts = vec![case.out.text(), case.err.text()];
    let mut folders = vec![case.root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    assert!(texts.iter().filter(|text| text.contains("[redacted:API")).count() >= 6);
    for text in texts {
        assert!(!text.contains("s3cr"), "{text}");
    }
}

#[test]
fn github_gets_summary_outputs_annotations_and_one_group() {
    let mut case = Case::new(&["good", "bad"]);
    let (summary, output) = (case.path("summary"), case.path("output"));
    fs::write(&summary, "x".repeat(900_000)).unwrap();
    case.settings.github = Some(GithubFiles { summary: Some(summary.clone()), output: Some(output.clone()) });
    let mut sink = case.open();
    let mut bad = sample::report("bad", Reason::GateFailed);
    bad.outcome.message = "##[error]x".into();
    sink.handle(&case.started());
    sink.handle(&sample::event(1, "bad", RunEventKind::Note("\r::add-mask::a".into())));
    sink.handle(&ended(2, sample::report("good", Reason::Completed)));
    sink.handle(&ended(3, bad));
    sink.handle(&end(4, ExitStatus::Failed));
    assert_eq!(sink.finish(), Vec::<String>::new());
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.len() < 1024 * 1024 && text.contains("## bad: failed"));
    let folder = case.settings.run.folder.display();
    let expected = format!(
        "passed=1\nfailed=1\nrun-id={}\njunit={folder}/junit.xml\nreport={folder}/summary.md\ncost-usd=0.024600\n",
        case.settings.run.id
    );
    assert_eq!(fs::read_to_string(output).unwrap(), expected);
    let log = case.err.text() + &case.out.text();
    let commands: Vec<&str> = log.lines().filter(|line| line.trim_start().starts_with("::")).collect();
    let group = format!("::group::runner {}", case.settings.run.id);
    let annotation = "::error title=bad%3A failed (gate_failed)::##[error]x";
    assert_eq!(commands, [group.as_str(), "::endgroup::", annotation]);
    assert_eq!(log.matches("##[").count(), 1, "{log}");
}

#[test]
fn b173_a_summary_that_cannot_be_written_is_shown_and_changes_nothing() {
    let mut case = Case::new(&["a"]);
    let missing = case.path("no/such/folder/summary");
    case.settings.github = Some(GithubFiles { summary: Some(missing.clone()), output: None });
    let mut sink = case.open();
    sink.handle(&end(4, ExitStatus::Passed));
    assert_eq!(sink.finish(), [""; 0]);
    assert!(case.err.text().contains(&missing.display().to_string()));
}

#[test]
fn a_run_without_jobs_has_reports() {
    let case = Case::new(&[]);
    let mut sink = case.open();
    sink.handle(&end(1, ExitStatus::NoJobs));
    let report = quick_junit::Report::deserialize_from_str(&case.read("junit.xml")).unwrap();
    assert_eq!((report.test_suites.len(), report.tests), (1, 0));
    assert!(Path::new(&case.settings.run.folder).join("summary.md").is_file());
}
