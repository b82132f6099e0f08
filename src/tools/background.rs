//! Background commands: started by Bash, read by TaskOutput, ended by TaskStop and at the latest with the job.
//!
//! Each runs under a guard of its own, as every command does, so what a call in the foreground leaves behind ends without
//! them, and no call that is cancelled ends them. Their tasks are in one set: [`Background::shutdown`] waits for it, and
//! dropping it ends them all.

use super::limit::one_line;
use super::schema::{Arguments, Declaration, Field, Kind, Need};
use super::shell::{FILE, Given, KEPT, MAX_TIMEOUT, leftovers, show};
use super::workspace::{Answer, CANCELLED};
use crate::clean::clean;
use crate::process::{Capture, Command, End, Environment, Finished, Live, run_live};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How many may run at once.
const MOST: usize = 8;
/// How many that have ended are remembered; their outputs stay in their files.
const REMEMBERED: usize = 32;
/// The time limit of each, as no command is without one. The job ends long before.
const LONGEST: Duration = Duration::from_hours(24);
/// How long TaskOutput waits unless it says otherwise, in milliseconds.
const WAIT: i64 = 30_000;

/// The declaration of TaskOutput.
pub(super) const TASK_OUTPUT: Declaration = Declaration {
    name: "TaskOutput",
    description: "Shows whether a background command still runs or how it ended, and what it wrote since the last TaskOutput. \
                  Waits for its end first, unless `block` is false.",
    fields: &[
        Field { name: "task_id", kind: Kind::Text, need: Need::Required, about: "From Bash, such as `bash_1`." },
        Field { name: "block", kind: Kind::Flag, need: Need::Optional, about: "Default true." },
        Field {
            name: "timeout",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "How long to wait, in milliseconds. Default 30000, at most 600000.",
        },
        Field { name: "bash_id", kind: Kind::Text, need: Need::Alias("task_id"), about: "" },
        Field { name: "shell_id", kind: Kind::Text, need: Need::Alias("task_id"), about: "" },
    ],
};

/// The declaration of TaskStop.
pub(super) const TASK_STOP: Declaration = Declaration {
    name: "TaskStop",
    description: "Ends a background command and all its processes.",
    fields: &[
        Field { name: "task_id", kind: Kind::Text, need: Need::Required, about: "" },
        Field { name: "bash_id", kind: Kind::Text, need: Need::Alias("task_id"), about: "" },
        Field { name: "shell_id", kind: Kind::Text, need: Need::Alias("task_id"), about: "" },
    ],
};

/// A background command that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The id that the model knows it by.
    pub task_id: String,
    /// The command, in one line.
    pub command: String,
    /// How it ended, to follow its name: `ended with exit code 0`.
    pub how: String,
}

/// The background commands of a job.
#[derive(Debug)]
pub(super) struct Background {
    state: Mutex<State>,
    /// Told of whenever one ends or an announcement becomes due.
    changes: watch::Sender<()>,
    /// Ends them all.
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// The number in the newest id.
    last: usize,
    tasks: Vec<Arc<Task>>,
    running: JoinSet<()>,
}

/// One of them.
#[derive(Debug)]
struct Task {
    id: String,
    command: String,
    log: PathBuf,
    live: Live,
    began: Instant,
    stop: CancellationToken,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    finished: Option<Finished>,
    /// The model knows of its end, or caused it.
    told: bool,
    /// How many calls are about to tell of its end.
    readers: usize,
}

/// What is needed to start one.
pub(super) struct Start<'a> {
    /// The command.
    pub(super) command: &'a str,
    /// The shell that was there last.
    pub(super) program: &'static str,
    /// The working directory.
    pub(super) cwd: PathBuf,
    /// The environment.
    pub(super) env: Environment,
    /// The folder for its output.
    pub(super) outputs: PathBuf,
}

impl Background {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), changes: watch::Sender::default(), closing: CancellationToken::new() }
    }

    /// Starts one and says how to go on with it.
    pub(super) fn start(&self, start: Start<'_>) -> Answer {
        let mut state = lock(&self.state);
        if self.closing.is_cancelled() {
            return Err("Nothing was run: the job is ending.".into());
        }
        let running: Vec<String> = state.tasks.iter().filter(|task| task.runs()).map(|task| task.named()).collect();
        if running.len() >= MOST {
            return Err(format!(
                "Nothing was run: {MOST} background commands run already, which is the most: {}. End one with TaskStop, or wait for \
                 one with TaskOutput.",
                running.join(", ")
            ));
        }
        state.forget();
        let (id, log) = state.name(&start.outputs);
        let task = Arc::new(Task {
            log,
            id,
            command: one_line(start.command.trim()),
            live: Live::new(KEPT, KEPT),
            began: Instant::now(),
            stop: self.closing.child_token(),
            progress: Mutex::default(),
        });
        state.tasks.push(Arc::clone(&task));
        let (id, log) = (&task.id, task.log.display());
        let text = format!(
            "Runs in the background as `{id}`; its output goes to {log}. TaskOutput shows what is new, TaskStop ends it."
        );
        let mut command = Command::new(
            vec![start.program.into(), "-c".into(), start.command.into()],
            start.cwd,
            start.env,
            LONGEST,
            task.stop.clone(),
        );
        command.capture = Capture { head: 0, tail: 0, file: Some(task.log.clone()), file_limit: FILE };
        let ending = Ending { task, changes: self.changes.clone() };
        state.running.spawn(ending.follow(command));
        Ok(text)
    }

    /// What one wrote since the last time, and whether it still runs.
    pub(super) async fn output(&self, input: &Arguments, cancel: &CancellationToken) -> Answer {
        let task = self.find(input.required("task_id"))?;
        let mut note = "";
        // Kept until its end is told, so that it is not announced as well.
        let reader = Reader::new(&task, &self.changes);
        if input.flag("block") != Some(false) {
            let given = input.integer("timeout").unwrap_or(WAIT).max(0);
            if given > MAX_TIMEOUT {
                note = "[no call waits longer than 600000 ms]\n";
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(CANCELLED.into()),
                () = self.end_of(&task) => {}
                () = sleep(Duration::from_millis(given.min(MAX_TIMEOUT).unsigned_abs())) => {}
            }
        }
        let text = task.tell();
        drop(reader);
        Ok(format!("{note}{text}"))
    }

    /// Ends one.
    pub(super) async fn stop(&self, input: &Arguments, cancel: &CancellationToken) -> Answer {
        let task = self.find(input.required("task_id"))?;
        lock(&task.progress).told = true;
        task.stop.cancel();
        tokio::select! {
            biased;
            () = self.end_of(&task) => {}
            () = cancel.cancelled() => return Err(CANCELLED.into()),
        }
        let how = lock(&task.progress).finished.as_ref().map(|finished| how(&finished.end)).unwrap_or_default();
        Ok(format!("{} {how}. TaskOutput shows what it wrote that was not read yet.", task.named()))
    }

    /// The next one that ended by itself and of which the model does not know yet. Waits for it; `None` after
    /// [`shutdown`](Self::shutdown) began. Nothing is lost when the future is dropped.
    pub(super) async fn next_ended(&self) -> Option<Ended> {
        let mut changes = self.changes.subscribe();
        loop {
            let tasks = lock(&self.state).tasks.clone();
            if let Some(ended) = tasks.iter().find_map(|task| task.announce()) {
                return Some(ended);
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                _ = changes.changed() => {}
            }
        }
    }

    /// Ends all and waits until they are gone; from now on none can be started.
    pub(super) async fn shutdown(&self) {
        self.closing.cancel();
        let tasks = lock(&self.state).tasks.clone();
        for task in tasks {
            self.end_of(&task).await;
        }
    }

    async fn end_of(&self, task: &Task) {
        let mut changes = self.changes.subscribe();
        while task.runs() {
            // The sender is ours: it is not gone.
            changes.changed().await.ok();
        }
    }

    fn find(&self, id: &str) -> Result<Arc<Task>, String> {
        let id = id.trim();
        let state = lock(&self.state);
        if let Some(task) = state.tasks.iter().find(|task| task.id == id) {
            return Ok(Arc::clone(task));
        }
        let about = |task: &Arc<Task>| format!("{} ({})", task.id, if task.runs() { "running" } else { "ended" });
        let known: Vec<String> = state.tasks.iter().map(about).collect();
        let known = if known.is_empty() {
            "None was started yet: Bash with `run_in_background` does that.".into()
        } else {
            format!("There are: {}.", known.join(", "))
        };
        Err(format!("There is no background command `{}`. {known}", one_line(id)))
    }
}

impl State {
    /// An id and a file for the next one. What a run before this one left in the folder is not written over, as the
    /// transcript still tells of it.
    fn name(&mut self, outputs: &Path) -> (String, PathBuf) {
        loop {
            self.last += 1;
            let id = format!("bash_{}", self.last);
            let log = outputs.join(format!("{id}.log"));
            if !log.exists() {
                return (id, log);
            }
        }
    }

    /// Forgets what has ended long ago: first what the model knows of.
    fn forget(&mut self) {
        while self.running.try_join_next().is_some() {}
        let ended = self.tasks.iter().filter(|task| !task.runs()).count();
        if ended >= REMEMBERED {
            let told = |task: &Arc<Task>| !task.runs() && lock(&task.progress).told;
            let oldest = self.tasks.iter().position(told);
            if let Some(index) = oldest.or_else(|| self.tasks.iter().position(|task| !task.runs())) {
                self.tasks.remove(index);
            }
        }
    }
}

impl Task {
    fn runs(&self) -> bool {
        lock(&self.progress).finished.is_none()
    }

    /// For a message.
    fn named(&self) -> String {
        format!("`{}` ({})", self.id, self.command)
    }

    /// What is new, and how it is.
    fn tell(&self) -> String {
        let mut progress = lock(&self.progress);
        let (output, state) = match &progress.finished {
            None => (self.live.take(), format!("still running after {} s", self.began.elapsed().as_secs())),
            Some(finished) => {
                let mut state = format!("{} after {} s", how(&finished.end), finished.duration.as_secs());
                for note in finished.output.file_error.iter().cloned().chain(leftovers(finished)) {
                    state.push_str(&format!("; {note}"));
                }
                (self.live.take_rest(), state)
            }
        };
        progress.told |= progress.finished.is_some();
        drop(progress);
        let log = self.log.is_file().then_some(self.log.as_path());
        let text = show(&clean(&output.text()), Given { total: output.total, what: "new output", log });
        let text = if text.is_empty() { "(no new output)".into() } else { text };
        format!("{text}\n[`{}`: {state}]", self.id)
    }

    fn announce(&self) -> Option<Ended> {
        let mut progress = lock(&self.progress);
        let end = &progress.finished.as_ref()?.end;
        if progress.told || progress.readers > 0 || *end == End::Cancelled {
            return None;
        }
        let how = how(end);
        progress.told = true;
        Some(Ended { task_id: self.id.clone(), command: self.command.clone(), how })
    }
}

/// How it ended, to follow its name.
fn how(end: &End) -> String {
    match end {
        End::Exited(code) => format!("ended with exit code {code}"),
        End::Cancelled => "was stopped".into(),
        End::TimedOut => "was ended after a day".into(),
        End::Signaled(_) | End::NotStarted { .. } => end.to_string(),
    }
}

/// Sees to it that a task has an end, whatever becomes of what runs it.
struct Ending {
    task: Arc<Task>,
    changes: watch::Sender<()>,
}

impl Ending {
    async fn follow(self, mut command: Command) {
        let mut finished = run_live(command.clone(), self.task.live.clone()).await;
        if matches!(finished.end, End::NotStarted { missing: true, .. }) && command.argv[0] == "bash" {
            command.argv[0] = "sh".into();
            finished = run_live(command, self.task.live.clone()).await;
        }
        lock(&self.task.progress).finished = Some(finished);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&self.task.progress).finished.get_or_insert_with(|| Finished {
            end: End::Cancelled,
            output: crate::process::Output::default(),
            duration: self.task.began.elapsed(),
            leftovers: 0,
            streams: None,
        });
        self.changes.send_replace(());
    }
}

/// A call that is about to tell of a task's end.
struct Reader<'a> {
    task: &'a Task,
    changes: &'a watch::Sender<()>,
}

impl<'a> Reader<'a> {
    fn new(task: &'a Task, changes: &'a watch::Sender<()>) -> Self {
        lock(&task.progress).readers += 1;
        Self { task, changes }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        lock(&self.task.progress).readers -= 1;
        self.changes.send_replace(());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
