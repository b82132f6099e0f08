//! The git command line, without anything that a person's settings or an agent could make it do on the side.

use crate::clean::{clean, tail};
use crate::process::{Command, End, Environment, run};
use bytes::Bytes;
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// For what writes or reads all files of a worktree: a large checkout on a slow disk takes minutes.
pub(super) const ALL_FILES: Duration = Duration::from_mins(5);

/// For everything else.
pub(super) const QUICK: Duration = Duration::from_mins(1);

/// Outranks every configuration file.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "index.sparse=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
    "submodule.recurse=false",
];

/// Switches Git LFS off: files stay the pointers that the repository holds.
const WITHOUT_LFS: &[&str] =
    &["filter.lfs.smudge=", "filter.lfs.clean=", "filter.lfs.process=", "filter.lfs.required=false"];

/// What git says when another process holds one of its locks; that passes.
const LOCKED: &[&str] = &["could not lock", "cannot lock ref", ".lock': File exists", "commondir: Success"];

/// How often a command that met a lock is tried in all: with the waits between, for about ten seconds.
const TRIES: u32 = 8;

/// Before the second try; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(80);

/// How a git command went wrong.
#[derive(Clone, Debug)]
pub(super) struct GitError {
    /// The end of its output.
    pub said: String,
    /// The whole sentence.
    pub message: String,
}

impl From<GitError> for String {
    fn from(error: GitError) -> Self {
        error.message
    }
}

/// The git program with its environment and settings.
#[derive(Clone, Debug)]
pub(super) struct Git {
    env: Environment,
    settings: Vec<&'static str>,
}

impl Git {
    /// Takes `env` without any variable of git's own.
    pub(super) fn new(env: &Environment) -> Self {
        let mut scrubbed = env.clone();
        for (name, _) in env.iter().filter(|(name, _)| name.starts_with("GIT_")) {
            scrubbed.unset(name);
        }
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("GIT_EDITOR", "true"),
            // Its messages are looked at.
            ("LC_ALL", "C"),
        ] {
            scrubbed.set(name, value);
        }
        scrubbed.unset("LANGUAGE");
        Self { env: scrubbed, settings: SETTINGS.to_vec() }
    }

    /// The same, with Git LFS off.
    pub(super) fn without_lfs(mut self) -> Self {
        self.settings.extend(WITHOUT_LFS);
        self
    }

    /// The same, with a variable set: where the repository, the worktree or the index is.
    pub(super) fn with(&self, name: &str, value: &Path) -> Self {
        let mut git = self.clone();
        git.env.set(name, value.to_string_lossy());
        git
    }

    /// The same, told these settings, which outrank every file. Names may hold any character.
    pub(super) fn told(&self, settings: &[(String, String)]) -> Self {
        let mut git = self.clone();
        for (index, (name, value)) in settings.iter().enumerate() {
            git.env.set(format!("GIT_CONFIG_KEY_{index}"), name);
            git.env.set(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        git.env.set("GIT_CONFIG_COUNT", settings.len().to_string());
        git
    }

    /// The same, with a variable of text set.
    pub(super) fn given(mut self, name: &str, value: &str) -> Self {
        self.env.set(name, value);
        self
    }

    /// The same, with a variable taken away.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.env.unset(name);
        self
    }

    /// The environment that it runs with.
    pub(super) const fn env(&self) -> &Environment {
        &self.env
    }

    /// Runs it and gives back what it said, standard error included; tries again when another process holds a lock.
    pub(super) async fn run(
        &self,
        cwd: &Path,
        args: &[&str],
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<String, GitError> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES {
            match self.run_once(cwd, args, None, limit, cancel).await {
                Err(error) if LOCKED.iter().any(|sign| error.said.contains(sign)) => {
                    tokio::select! {
                        () = cancel.cancelled() => return Err(error),
                        () = sleep(wait) => wait *= 2,
                    }
                }
                result => return result,
            }
        }
        self.run_once(cwd, args, None, limit, cancel).await
    }

    /// Runs it once, with this on its standard input.
    pub(super) async fn feed(
        &self,
        cwd: &Path,
        args: &[&str],
        input: Bytes,
        limit: Duration,
    ) -> Result<String, GitError> {
        self.run_once(cwd, args, Some(input), limit, &CancellationToken::new()).await
    }

    async fn run_once(
        &self,
        cwd: &Path,
        args: &[&str],
        input: Option<Bytes>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<String, GitError> {
        let mut words = vec!["git".to_owned()];
        words.extend(self.settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        let command = Command::new(words, cwd, self.env.clone(), limit, cancel.clone());
        let finished = run(Command { input, ..command }).await;
        let said = finished.output.text();
        if finished.end.is_success() {
            return Ok(said);
        }
        let action = args.iter().take_while(|arg| !arg.starts_with('-')).take(2).copied().collect::<Vec<_>>().join(" ");
        let message = match finished.end {
            End::NotStarted { missing: true, .. } => "the program `git` is missing: it is not in PATH".to_owned(),
            End::Cancelled => format!("`git {action}` was cancelled"),
            end @ (End::Exited(_) | End::Signaled(_) | End::TimedOut | End::NotStarted { .. }) => {
                let cleaned = clean(&said);
                let last = tail(&cleaned, 2 << 10).trim();
                if last.is_empty() { format!("`git {action}` {end}") } else { format!("`git {action}` {end}: {last}") }
            }
        };
        Err(GitError { said, message })
    }
}
