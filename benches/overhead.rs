//! What the harness itself costs, beside a bare client that sends the same bytes and starts the same programs.
//!
//! `cargo bench --bench overhead` prints one table and judges nothing; `start`, `turn`, `memory`, `many`, `growth` behind `--` choose. The model is the mock server of the tests; the bare client
//! repeats the requests that the runner sent, byte for byte, with one `bash -c true` for each Bash call.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench stands outside the doors"
)]

#[expect(dead_code, unused_imports, reason = "the tests use more of it")]
#[path = "../tests/it/mock/mod.rs"]
mod mock;

use mock::{Answer, Mock, Request, Script, text, tool};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Turns of the long job.
const TURNS: usize = 200;

fn main() {
    println!("{:<46} {:>10} {:>10} {:>10}", "", "min", "median", "max");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|want| want == name);
    if wants("start") {
        start_up();
    }
    if wants("turn") {
        per_turn("Bash", |turn| tool("Bash", json!({"command": format!("true {turn}")})));
        per_turn("Read", |turn| tool("Read", json!({"file_path": "a.txt", "limit": turn})));
    }
    if wants("memory") {
        memory();
    }
    if wants("many") {
        side_by_side();
    }
    if wants("growth") {
        growth();
    }
}

/// One turn: the whole process, and of it what git's own programs take.
fn start_up() {
    let script = || Script::made(|_| text("Done."));
    let walls = repeat(7, || {
        let mock = Mock::start(script());
        run(&mock, 1, "x").wall
    });
    row("one-turn job, the whole process", "ms", &walls);
    let bare = repeat(7, || {
        let mock = Mock::start(script());
        run(&mock, 1, "x");
        let requests = mock.requests();
        let again = Mock::start(script());
        timed(|| replay(&again.url(), &requests, 0))
    });
    row("  bare client, the same call", "ms", &bare);
    let git = repeat(7, || {
        let repo = repository();
        timed(|| {
            for args in [
                &["worktree", "add", "-q", "--no-track", "-b", "b", "../w"][..],
                &["-C", "../w", "add", "--all"],
                &["-C", "../w", "write-tree"],
                &["diff", "--binary", "HEAD", "HEAD"],
            ] {
                git(&repo.path().join("repo"), args);
            }
        })
    });
    row("  git worktree add, add, write-tree, diff", "ms", &git);
}

/// A long job: what a turn costs, ours and a bare client's.
fn per_turn(name: &str, call: fn(usize) -> Answer) {
    let script = move || {
        Script::made(move |request: &Request| if request.turn() < TURNS { call(request.turn()) } else { text("Done.") })
    };
    let mut requests = Vec::new();
    let ours = repeat(3, || {
        let mock = Mock::start(script());
        let wall = run(&mock, 1, "x").wall;
        requests = mock.requests();
        wall / f64::from(u32::try_from(TURNS).unwrap())
    });
    row(&format!("{name}: a turn of {TURNS}"), "ms", &ours);
    let forks = usize::from(name == "Bash");
    let bare = repeat(3, || {
        let again = Mock::start(script());
        timed(|| replay(&again.url(), &requests, forks)) / f64::from(u32::try_from(TURNS).unwrap())
    });
    row("  bare client, the same calls and forks", "ms", &bare);
}

/// Peak memory of the runner process.
fn memory() {
    let one = repeat(3, || run(&Mock::start(Script::made(|_| text("Done."))), 1, "x").peak);
    row("peak memory, one turn", "MB", &one);
    let long = repeat(3, || {
        let call = |request: &Request| {
            if request.turn() < TURNS {
                tool("Read", json!({"file_path": "a.txt", "limit": request.turn()}))
            } else {
                text("Done.")
            }
        };
        run(&Mock::start(Script::made(call)), 1, "x").peak
    });
    row(&format!("peak memory, {TURNS} turns"), "MB", &long);
    let flood = repeat(3, || {
        let call = |request: &Request| {
            if request.turn() == 1 {
                tool("Bash", json!({"command": "yes | head -c 400000000"}))
            } else {
                text("Done.")
            }
        };
        run(&Mock::start(Script::made(call)), 1, "x").peak
    });
    row("peak memory, a command that prints 400 MB", "MB", &flood);
}

/// Sixteen jobs against a slow server, and one of them alone.
fn side_by_side() {
    let script = || {
        let slow = |request: &Request| {
            let answer = if request.turn() < 5 { tool("Bash", json!({"command": "true"})) } else { text("Done.") };
            answer.after(Duration::from_millis(300))
        };
        Script::made(slow)
    };
    let alone = repeat(3, || run(&Mock::start(script()), 1, "x").wall);
    row("one job of 5 turns, 300 ms a call", "ms", &alone);
    let many = repeat(3, || run(&Mock::start(script()), 16, "x").wall);
    row("  16 of them at once", "ms", &many);
}

/// A job of 400 turns: whether a turn costs more processor time late than early, beside a client that sends the same bytes.
fn growth() {
    const ALL: usize = 400;
    const STEP: usize = 100;
    // The processor time of the runner at each request, in ms.
    let marks = Arc::new(Mutex::new(Vec::new()));
    let pid = Arc::new(AtomicU32::new(0));
    let script = || {
        let (marks, pid) = (Arc::clone(&marks), Arc::clone(&pid));
        Script::made(move |request: &Request| {
            marks.lock().unwrap().push(processor_time(pid.load(Ordering::Relaxed)));
            if request.turn() < ALL {
                tool("Read", json!({"file_path": "long.txt", "limit": 20 + request.turn() % 7}))
            } else {
                text("Done.")
            }
        })
    };
    let steps = ALL / STEP;
    let (mut ours, mut bare) = (vec![Vec::new(); steps], vec![Vec::new(); steps]);
    let mut sizes = vec![0.0; steps];
    for _ in 0..3 {
        marks.lock().unwrap().clear();
        let mock = Mock::start(script());
        run_as(&mock, 1, "x", &pid);
        let (requests, marks) = (mock.requests(), marks.lock().unwrap().clone());
        let sink = sink();
        for step in 0..steps {
            let range = step * STEP..(step + 1) * STEP;
            let spent = marks[(range.end).min(marks.len() - 1)] - marks[range.start];
            ours[step].push(spent / STEP as f64);
            sizes[step] = requests[range.clone()].iter().map(|r| r.bytes.len() as f64).sum::<f64>() / STEP as f64 / 1e3;
            let before = thread_time();
            replay(&sink, &requests[range], 0);
            bare[step].push((thread_time() - before) / STEP as f64);
        }
    }
    for step in 0..steps {
        let name = format!("turns {}-{}, {:.0} kB each", step * STEP + 1, (step + 1) * STEP, sizes[step]);
        for (name, figures) in
            [(format!("processor time, {name}"), &mut ours[step]), ("  bare client".into(), &mut bare[step])]
        {
            figures.sort_by(f64::total_cmp);
            row(&name, "ms", figures);
        }
    }
}

/// A server that takes every request and answers with the end of a message at once. It ends with the bench.
fn sink() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nevent: message_stop\r\n").unwrap();
        }
    });
    url
}

/// The processor time that a process has used, in ms; the system counts in hundredths of a second.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) * 10.0
}

/// The processor time that this thread has used, in ms.
fn thread_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

/// What a run took.
struct Ran {
    wall: f64,
    peak: f64,
}

/// Runs so many equal jobs at once in a fresh repository.
fn run(mock: &Mock, jobs: usize, prompt: &str) -> Ran {
    run_as(mock, jobs, prompt, &AtomicU32::new(0))
}

fn run_as(mock: &Mock, jobs: usize, prompt: &str, pid: &AtomicU32) -> Ran {
    let folder = repository();
    let repo = folder.path().join("repo");
    std::fs::create_dir(repo.join("jobs")).unwrap();
    for n in 0..jobs {
        let job = format!(
            "prompt = \"{prompt} {n}\"\nmax_turns = 1000\ntoken_budget = 100_000_000\nrequire_changes = false\n\
             [model]\nname = \"mock\"\nbase_url = \"{}\"\n",
            mock.url()
        );
        std::fs::write(repo.join(format!("jobs/job-{n:02}.toml")), job).unwrap();
    }
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .args(["run", "-q", "-j", "16"])
        .current_dir(&repo)
        .env("RUNNER_WORKTREES", folder.path().join("worktrees"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    pid.store(child.id(), Ordering::Relaxed);
    let mut peak: f64 = 0.0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        peak = peak.max(high_water(child.id()));
        std::thread::sleep(Duration::from_millis(1));
    };
    let wall = began.elapsed().as_secs_f64() * 1e3;
    assert!(status.success(), "the runner ended with {status}");
    assert!(mock.breaches().is_empty(), "{:?}", mock.breaches());
    Ran { wall, peak }
}

/// The most memory that a process has held so far, in megabytes; zero where the system does not tell.
fn high_water(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

/// Sends the same bytes again, one request after the other, and reads each answer to its end.
fn replay(url: &str, requests: &[Request], forks: usize) {
    let address = url.trim_start_matches("http://").to_owned();
    for (index, request) in requests.iter().enumerate() {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nanthropic-version: 2023-06-01\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n",
            request.path,
            request.bytes.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&request.bytes).unwrap();
        let mut answer = Vec::new();
        let mut chunk = [0; 16_384];
        while !answer.windows(12).any(|window| window == b"message_stop") {
            match stream.read(&mut chunk).unwrap() {
                0 => panic!("the answer ended early: {}", String::from_utf8_lossy(&answer)),
                count => answer.extend_from_slice(&chunk[..count]),
            }
        }
        if index + 1 < requests.len() {
            for _ in 0..forks {
                assert!(Command::new("bash").args(["-c", "true"]).status().unwrap().success());
            }
        }
    }
}

/// A repository with a few files.
fn repository() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let repo = folder.path().join("repo");
    std::fs::create_dir(&repo).unwrap();
    std::fs::write(repo.join("a.txt"), "one\n".repeat(20)).unwrap();
    std::fs::write(repo.join("b.txt"), "two\n").unwrap();
    std::fs::write(repo.join("long.txt"), "a line of some forty characters, no more\n".repeat(60)).unwrap();
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "--all"]);
    git(&repo, &["-c", "user.name=B", "-c", "user.email=b@localhost", "commit", "-q", "-m", "base"]);
    folder
}

fn git(folder: &Path, args: &[&str]) {
    let output = Command::new("git").args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e3
}

/// Once to warm up, then so often; sorted.
fn repeat(times: usize, mut measure: impl FnMut() -> f64) -> Vec<f64> {
    measure();
    let mut figures: Vec<f64> = (0..times).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn row(name: &str, unit: &str, figures: &[f64]) {
    let (min, median, max) = (figures[0], figures[figures.len() / 2], figures[figures.len() - 1]);
    println!("{name:<46} {min:>7.1} {unit} {median:>7.1} {unit} {max:>7.1} {unit}");
}
