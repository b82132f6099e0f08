//! The runner's side: starts a guard, feeds the command, reads its output, keeps the time, waits for the report.

use super::guard::{NAME, Report};
use super::handover::{ERRORS, INPUT, send};
use super::listen::Listener;
use super::orphans::{Registered, end_session};
use super::pause::wait;
use super::{Command, End, Finished, Live, Output, Streams};
use bytes::Bytes;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::{Instant, timeout};

/// How long a guard may take, after the grace, to end what it guards: only a process that cannot be killed needs it.
const MARGIN: Duration = Duration::from_secs(5);

/// Runs a command to its end.
///
/// Comes back when all its processes are gone, at the latest `grace` and some seconds after `timeout` or `cancel`. Never
/// fails: what goes wrong is an [`End`]. When the future is dropped the command is ended in the same way.
pub async fn run(command: Command) -> Finished {
    perform(command, None).await
}

/// Runs a command as [`run`] does, while somebody reads along.
pub async fn run_live(command: Command, live: Live) -> Finished {
    perform(command, Some(live)).await
}

async fn perform(command: Command, live: Option<Live>) -> Finished {
    let began = Instant::now();
    let (end, (output, streams), leftovers) = match start(&command).await {
        Ok(call) => call.finish(&command, live).await,
        Err(end) => (end, <(Output, Option<Streams>)>::default(), 0),
    };
    Finished { end, output, streams, duration: began.elapsed(), leftovers }
}

/// A running command.
struct Call {
    guard: Child,
    registered: Registered,
    control: UnixStream,
    input: Option<pipe::Sender>,
    output: pipe::Receiver,
    errors: Option<pipe::Receiver>,
}

async fn start(command: &Command) -> Result<Call, End> {
    let refuse = |message: String| End::NotStarted { missing: false, message };
    if command.cancel.is_cancelled() {
        return Err(End::Cancelled);
    }
    let Some(program) = command.argv.first() else { return Err(refuse("the command is empty".into())) };
    if program.is_empty() {
        return Err(refuse("the name of the program is empty".into()));
    }
    if command.argv.iter().any(|word| word.contains('\0')) {
        return Err(refuse("the command holds a NUL character, which no argument can".into()));
    }
    if !tokio::fs::metadata(&command.cwd).await.is_ok_and(|about| about.is_dir()) {
        return Err(refuse(format!("the working directory {} does not exist", command.cwd.display())));
    }
    spawn(command).map_err(|error| refuse(format!("cannot start `{program}`: {error}")))
}

#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn spawn(command: &Command) -> io::Result<Call> {
    let (control, guards_end) = StdUnixStream::pair()?;
    let (output, writer) = io::pipe()?;
    let input = command.input.as_ref().map(|_| io::pipe()).transpose()?;
    let errors = command.apart.map(|_| io::pipe()).transpose()?;
    let handed: Vec<_> = [
        input.as_ref().map(|(reader, _)| (INPUT, reader.as_fd())),
        errors.as_ref().map(|(_, writer)| (ERRORS, writer.as_fd())),
    ]
    .into_iter()
    .flatten()
    .collect();
    let (words, descriptors): (Vec<_>, Vec<_>) = handed.into_iter().unzip();
    if !descriptors.is_empty() {
        // They wait in the socket for the guard.
        send(&control, &descriptors)?;
    }
    let input = input.map(|(_, writer)| pipe::Sender::from_owned_fd(writer.into())).transpose()?;
    let errors = errors.map(|(reader, _)| pipe::Receiver::from_owned_fd(reader.into())).transpose()?;
    control.set_nonblocking(true)?;
    let control = UnixStream::from_std(control)?;
    let output = pipe::Receiver::from_owned_fd(output.into())?;
    let mut guard = tokio::process::Command::new(program()?);
    guard
        .arg0(NAME)
        .args(ENTRY)
        .arg(command.grace.as_millis().to_string())
        .args(words)
        .arg("--")
        .args(&command.argv)
        .current_dir(&command.cwd)
        .env_clear()
        .envs(command.env.iter())
        .stdin(Stdio::from(OwnedFd::from(guards_end)))
        .stdout(Stdio::null())
        .stderr(Stdio::from(OwnedFd::from(writer)));
    let (guard, registered) = Registered::start(|| {
        let child = guard.spawn()?;
        let pid = child.id();
        Ok((child, pid))
    })?;
    Ok(Call { guard, registered, control, input, output, errors })
}

/// This program, even when its file has been replaced in the meantime.
fn program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// How this program is made a guard.
#[cfg(not(test))]
const ENTRY: &[&str] = &[super::guard::SUBCOMMAND];

/// In unit tests this program is the test harness, so a test that does nothing else is the entry. What the harness prints
/// goes to a guard's stdout, which is `/dev/null`.
#[cfg(test)]
const ENTRY: &[&str] =
    &["--exact", "process::tests::guard_entry", "--ignored", "--nocapture", "--test-threads=1", "--"];

impl Call {
    async fn finish(mut self, command: &Command, live: Option<Live>) -> (End, (Output, Option<Streams>), u32) {
        let capture = command.capture.clone();
        let mut listener = Listener::open(capture, live, command.apart, self.output, self.errors).await;
        let verdict = {
            let mut supervising = pin!(supervise(&mut self.control, command));
            let mut feeding = pin!(feed(self.input, command.input.clone().unwrap_or_default()));
            let mut hungry = true;
            loop {
                tokio::select! {
                    biased; // A flood of output must not delay the timer.
                    verdict = &mut supervising => break verdict,
                    () = &mut feeding, if hungry => hungry = false,
                    piece = listener.hear() => listener.take(piece).await,
                }
            }
        };
        let (end, leftovers) = close(self.guard, &self.registered, verdict).await;
        (end, listener.finish().await, leftovers)
    }
}

/// Writes what the command may read, and closes the pipe.
async fn feed(input: Option<pipe::Sender>, bytes: Bytes) {
    if let Some(mut input) = input {
        // A command that does not want it closes its end: that is its right, and no failure.
        drop(input.write_all(&bytes).await);
    }
}

/// Waits for the guard's own end, and does its work if it could not.
async fn close(mut guard: Child, registered: &Registered, verdict: Verdict) -> (End, u32) {
    let reported = verdict.report.is_some();
    if !reported {
        // It is dead or stuck; a stuck one would hold its processes for ever.
        drop(guard.start_kill());
    }
    let status = timeout(MARGIN, guard.wait()).await;
    let mut leftovers = 0;
    if let (false, Some(pid)) = (reported, registered.pid()) {
        let ending = tokio::task::spawn_blocking(move || end_session(pid.as_raw_pid()));
        leftovers = ending.await.unwrap_or_default();
    }
    let end = match verdict.report {
        Some(Report::Exited { code, leftovers: count }) => {
            leftovers = count;
            End::Exited(code)
        }
        Some(Report::Signaled { signal, leftovers: count }) => {
            leftovers = count;
            End::Signaled(signal)
        }
        Some(Report::NotStarted { missing, message }) => End::NotStarted { missing, message },
        None => match status.ok().and_then(Result::ok).and_then(|status| status.signal()) {
            Some(signal) => End::Signaled(signal),
            None => End::NotStarted { missing: false, message: "its guard ended without a report".into() },
        },
    };
    (verdict.forced.unwrap_or(end), leftovers)
}

/// What came of a call.
struct Verdict {
    /// We ended it.
    forced: Option<End>,
    /// `None` when the guard is dead or stuck.
    report: Option<Report>,
}

async fn supervise(control: &mut UnixStream, command: &Command) -> Verdict {
    let forced = tokio::select! {
        biased;
        () = command.cancel.cancelled() => End::Cancelled,
        () = wait(command.timeout) => End::TimedOut,
        report = report(control) => return Verdict { forced: None, report },
    };
    // A failure means that the guard is dead, which the missing report tells as well.
    drop(control.write_all(b"k").await);
    let report = timeout(command.grace.saturating_add(MARGIN), report(control)).await.ok().flatten();
    Verdict { forced: Some(forced), report }
}

async fn report(control: &mut UnixStream) -> Option<Report> {
    let mut bytes = Vec::new();
    // An error (the other end reset) is an end like any other: the line counts.
    drop(control.read_to_end(&mut bytes).await);
    Report::parse(String::from_utf8_lossy(&bytes).strip_suffix('\n')?)
}
