//! The one look at the environment. Nothing later asks again.

use crate::error::{Error, Kind};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// What the process was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The environment. Variables that are not UTF-8 text are left out.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Whether standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub stderr_is_terminal: bool,
}

/// Takes the snapshot.
///
/// # Errors
/// The working directory is gone.
pub fn snapshot() -> Result<Snapshot, Error> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that looks")]
    let (env, cwd) = (std::env::vars_os(), std::env::current_dir());
    let cwd = cwd.map_err(|error| {
        Error::new(Kind::Environment, "cannot find the working directory").because(error.to_string())
    })?;
    let env = env.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
    Ok(Snapshot {
        env,
        cwd,
        stdout_is_terminal: std::io::stdout().is_terminal(),
        stderr_is_terminal: std::io::stderr().is_terminal(),
    })
}

impl Snapshot {
    /// The value of a variable that is set to something.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The nearest folder, from the working directory upwards, that holds `.git`: the root of the repository.
    pub fn repository_root(&self) -> Option<&Path> {
        self.cwd.ancestors().find(|folder| folder.join(".git").exists())
    }
}
