//! What to run, and how it ended.

use super::{Capture, Environment, Output};
use bytes::Bytes;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A command to run.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The working directory; must exist.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Environment,
    /// What it finds on its standard input, through a pipe; `None` is `/dev/null`. It need not read it.
    pub input: Option<Bytes>,
    /// Past it the command is ended.
    pub timeout: Duration,
    /// How long it may live on after SIGTERM, before SIGKILL.
    pub grace: Duration,
    /// What is kept of its output.
    pub capture: Capture,
    /// How many bytes of stdout, and as many of stderr, are also kept apart, half of them from the beginning and half
    /// from the end; `None` makes one pipe of the two, which alone keeps their exact order.
    pub apart: Option<usize>,
    /// Ends it early.
    pub cancel: CancellationToken,
}

impl Command {
    /// Between SIGTERM and SIGKILL: time to remove a lock file, not to finish work.
    pub const GRACE: Duration = Duration::from_secs(2);

    /// A command with the usual grace and capture, no input, and its streams as one.
    pub fn new(
        argv: Vec<String>,
        cwd: impl Into<PathBuf>,
        env: Environment,
        timeout: Duration,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            argv,
            cwd: cwd.into(),
            env,
            input: None,
            timeout,
            grace: Self::GRACE,
            capture: Capture::default(),
            apart: None,
            cancel,
        }
    }
}

/// How a command ended, and what it said.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub end: End,
    /// What it wrote, stdout and stderr in the order of writing; in that of reading when they are kept apart.
    pub output: Output,
    /// What it wrote to each of them, when they are kept apart and it was started.
    pub streams: Option<Streams>,
    /// From the start to the end of its last process.
    pub duration: Duration,
    /// Background processes that were alive when it ended, and were killed.
    pub leftovers: u32,
}

/// What a command wrote to its two streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
    pub stderr: Output,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// Killed by a signal that did not come from us.
    Signaled(i32),
    /// It was ended at its time limit.
    TimedOut,
    /// It was ended because somebody asked.
    Cancelled,
    /// It never ran.
    NotStarted {
        /// The program does not exist or may not be executed.
        missing: bool,
        /// What is wrong, in words.
        message: String,
    },
}

impl End {
    /// Whether it ran to its end and reported success.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// Its exit code, where it had one.
    #[must_use]
    pub const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Exited(code) => Some(*code),
            Self::Signaled(_) | Self::TimedOut | Self::Cancelled | Self::NotStarted { .. } => None,
        }
    }
}

impl fmt::Display for End {
    /// A fragment that follows a subject: `exited with code 1`, `was killed by signal 9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled(signal) => write!(f, "was killed by signal {signal}"),
            Self::TimedOut => f.write_str("did not end within its time limit"),
            Self::Cancelled => f.write_str("was cancelled"),
            Self::NotStarted { message, .. } => write!(f, "could not be started: {message}"),
        }
    }
}
