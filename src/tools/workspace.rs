//! What the file tools work on: the worktree and what is protected in it.

use super::path::{Place, Root};
use super::protect::Protected;

/// What a tool has to say: `Ok` for a result, `Err` for an error result. Both are words for the model.
pub(super) type Answer = Result<String, String>;

/// What is said of a call that was stopped from outside.
pub(super) const CANCELLED: &str = "The call was cancelled before it was done.";

/// The worktree and what is protected in it.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    /// The worktree.
    pub(super) root: Root,
    /// The job's protected paths.
    pub(super) protected: Protected,
}

impl Workspace {
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
        (dir, Workspace { root, protected })
    }

    /// Input, checked against a declaration.
    pub(in crate::tools) fn arguments(declaration: &Declaration, input: Value) -> Arguments {
        let Value::Object(map) = input else { panic!("not an object: {input}") };
        declaration.check(&map).unwrap()
    }
}
