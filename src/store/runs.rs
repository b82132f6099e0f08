//! The runs below a repository.

use crate::error::{Error, Kind, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    folder: PathBuf,
}

impl Runs {
    /// Those of a repository (or of another folder in which the runner was started), by its root.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { folder: root.join(".runner/runs") }
    }

    /// The folder itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folders of all runs, oldest first: their names sort by time.
    #[must_use]
    pub fn list(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut runs: Vec<PathBuf> = entries.filter(|path| path.join("run.json").is_file()).collect();
        runs.sort();
        runs
    }

    /// The run that a person means: a folder, a name, the beginning of one, or `last`.
    ///
    /// # Errors
    /// Says that there is none, or which ones it could be.
    pub fn find(&self, said: &str, cwd: &Path) -> Result<PathBuf> {
        let path = cwd.join(said);
        if path.join("run.json").is_file() {
            return Ok(path);
        }
        let runs = self.list();
        if said == "last" {
            return runs.last().cloned().ok_or_else(|| self.none("there is no run yet"));
        }
        let named = |run: &&PathBuf| name(run).starts_with(said) && !said.is_empty();
        let found: Vec<&PathBuf> = runs.iter().filter(named).collect();
        match found[..] {
            [one] => Ok(one.clone()),
            [] => Err(self.none(&format!("there is no run `{said}`"))),
            [first, .., last] => match found.iter().find(|run| name(run) == said) {
                Some(exact) => Ok((*exact).clone()),
                None => Err(Error::new(
                    Kind::Usage,
                    format!("`{said}` could be {} runs, from {} to {}", found.len(), name(first), name(last)),
                )
                .hint("say more of its name")),
            },
        }
    }

    fn none(&self, what: &str) -> Error {
        let error = Error::new(Kind::Usage, format!("{what} in {}", self.folder.display()));
        match self.list().last() {
            Some(last) => error.hint(format!("the last one is {}; `runner runs` lists all", name(last))),
            None => error.hint("`runner run` makes one"),
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_what_a_person_says() {
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::at(root.path());
        assert!(runs.find("last", root.path()).unwrap_err().to_string().contains("no run yet"));
        for name in ["20261130-235522-3f2a9c", "20261201-010101-aaaaaa", "20261201-010101-bbbbbb"] {
            fs::create_dir_all(runs.folder().join(name)).unwrap();
            fs::write(runs.folder().join(name).join("run.json"), "{}").unwrap();
        }
        fs::create_dir(runs.folder().join("other")).unwrap();
        let found =
            |said: &str| runs.find(said, root.path()).map(|path| name(&path)).map_err(|error| error.to_string());
        assert_eq!(found("last").unwrap(), "20261201-010101-bbbbbb");
        assert_eq!(found("20261130").unwrap(), "20261130-235522-3f2a9c");
        assert_eq!(found(".runner/runs/20261201-010101-aaaaaa").unwrap(), "20261201-010101-aaaaaa");
        assert!(found("2026").unwrap_err().contains("3 runs"));
        assert!(found("nope").unwrap_err().contains("no run `nope`"));
        assert!(found("other").is_err());
    }
}
