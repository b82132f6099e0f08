//! What the file tools work on: the worktree, what is protected in it, the outputs beside it.

use super::path::{Place, Root};
use super::protect::Protected;
use crate::query::Media;
use std::path::PathBuf;

/// What a tool has to say: `Ok` for a result, `Err` for an error result. Both are words for the model.
pub(super) type Answer = Result<String, String>;

/// A result that may hold more than words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The words.
    pub(super) text: String,
    /// Images, after the words.
    pub(super) media: Vec<Media>,
}

impl From<String> for Shown {
    fn from(text: String) -> Self {
        Self { text, media: Vec::new() }
    }
}

/// What is said of a call that was stopped from outside.
pub(super) const CANCELLED: &str = "The call was cancelled before it was done.";

/// The worktree, what is protected in it, and the outputs beside it.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    /// The worktree.
    pub(super) root: Root,
    /// The job's protected paths.
    pub(super) protected: Protected,
    /// The folder of whole outputs, which may only be read. It may not exist yet.
    pub(super) outputs: PathBuf,
}

impl Workspace {
    /// Resolves a path that is only read: in the worktree, or absolute in the folder of outputs.
    ///
    /// # Errors
    /// Those of [`Root::resolve`].
    pub(super) fn readable(&self, given: &str) -> Result<Place, String> {
        self.root.resolve(given).or_else(|error| self.root.beside(given, &self.outputs).ok_or(error))
    }

    /// What is to be said after a change of this place; empty for most.
    pub(super) fn note(&self, place: &Place) -> String {
        if place.real.strip_prefix(self.root.path()).is_ok_and(|inside| self.protected.covers(inside)) {
            format!(
                "\n[`{}` is a protected path: this change will be undone before the work is judged. Solve the task without it.]",
                place.shown
            )
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tools::schema::{Arguments, Declaration};
    use serde_json::Value;

    /// A worktree in a temporary folder, with the files of this list.
    pub(in crate::tools) fn workspace(files: &[(&str, &str)]) -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let root = Root::open(dir.path()).unwrap();
        let protected = Protected::new(&["tests/**".into()]).unwrap();
        (dir, Workspace { root, protected, outputs: PathBuf::from("/nowhere") })
    }

    /// Input, checked against a declaration.
    pub(in crate::tools) fn arguments(declaration: &Declaration, input: Value) -> Arguments {
        let Value::Object(map) = input else { panic!("not an object: {input}") };
        declaration.check(&map).unwrap()
    }
}
