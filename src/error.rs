//! Errors that end a command: kind, message, causes and hints. They are printed in one place and mapped to an exit
//! code in one place. What goes wrong inside a job is an [`Outcome`](crate::outcome::Outcome), not one of these.

use crate::exit::ExitStatus;
use std::fmt;
use std::path::Path;

/// Whose mistake it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arguments, job files, settings: the person can mend it.
    Usage,
    /// Nothing to run was found.
    NoJobs,
    /// The machine: a disk, a permission, a missing program.
    Environment,
    /// A fault of the runner.
    Internal,
}

/// An error that ends the command.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
}

/// The result of what may end the command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A new error. The message is a lowercase fragment that names what failed.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// The person's mistake.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Nothing to run was found.
    pub fn no_jobs(message: impl Into<String>) -> Self {
        Self::new(Kind::NoJobs, message)
    }

    /// A failed operation on a file or folder, which the message names.
    pub fn io(action: &str, path: &Path, source: &std::io::Error) -> Self {
        Self::new(Kind::Environment, format!("cannot {action} {}", path.display())).because(source.to_string())
    }

    /// Adds a cause, the next deeper one.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds what the person can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Whose mistake it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// How the process ends because of it.
    #[must_use]
    pub const fn exit(&self) -> ExitStatus {
        match self.kind {
            Kind::Usage => ExitStatus::Usage,
            Kind::NoJobs => ExitStatus::NoJobs,
            Kind::Environment | Kind::Internal => ExitStatus::Error,
        }
    }
}

impl fmt::Display for Error {
    /// `message: cause: cause`, without hints: one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The whole report: message, causes and hints, a line each.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        for cause in &self.causes {
            text.push_str(&format!("  caused by: {cause}\n"));
        }
        for hint in &self.hints {
            text.push_str(&format!("  hint: {hint}\n"));
        }
        text
    }
}
