//! What one job is resolved with: the names of its templates, the machine to ask, and the findings so far.

use super::template::{Names, fill};
use super::world::{Purpose, World};
use crate::spec::{Code, Diagnostic, Layer, Written};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// What one job is resolved with. Methods that return `None` have reported why.
pub(super) struct Scope<'a> {
    pub(super) names: Names,
    pub(super) broken: &'a BTreeSet<String>,
    pub(super) world: &'a dyn World,
    pub(super) purpose: Purpose,
    pub(super) found: Vec<Diagnostic>,
}

impl Scope<'_> {
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Whether one of these keys is there but could not be read, so that nothing follows from its absence.
    pub(super) fn is_broken(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.broken.contains(*key))
    }

    /// The text with its names filled in.
    pub(super) fn fill(&mut self, text: &Written<String>) -> Option<Written<String>> {
        match fill(text, &self.names) {
            Ok(value) => Some(Written::new(value, text.place.clone())),
            Err(faults) => {
                self.found.extend(faults);
                None
            }
        }
    }

    /// The texts of a list with their names filled in.
    pub(super) fn fill_all(&mut self, list: &[Written<String>]) -> Option<Vec<Written<String>>> {
        let filled: Vec<_> = list.iter().map(|text| self.fill(text)).collect();
        filled.into_iter().collect()
    }

    /// A list of texts that another list was made of by [`Scope::fill_all`], without their places.
    pub(super) fn texts(&mut self, list: &[Written<String>]) -> Option<Vec<String>> {
        Some(self.fill_all(list)?.into_iter().map(|text| text.value).collect())
    }

    /// A path, from the folder of the text that names it; and the same path as a person would say it.
    pub(super) fn path(&mut self, text: &Written<String>) -> Option<(PathBuf, String)> {
        let path = self.fill(text)?;
        let file = &path.place.file;
        let full = file.folder().join(&path.value);
        // Without the `.` components: `components` drops them where they say nothing.
        Some((full.components().collect(), file.shown_path(&path.value)))
    }

    /// Reports a file or folder that is not there.
    pub(super) fn not_found(&mut self, what: &str, text: &Written<String>, shown: &str) {
        let mut report = Diagnostic::error(Code::NotFound, format!("the {what} {shown} is not there"))
            .at(text.place.clone(), "not found");
        if matches!(text.layer(), Layer::Job | Layer::Settings) && Path::new(&text.value).is_relative() {
            report = report.note("paths are relative to the file that names them");
        }
        self.report(report);
    }

    /// A path or glob of the worktree: relative, and not out of it.
    pub(super) fn inside(&mut self, key: &str, text: &Written<String>) -> Option<()> {
        let path = Path::new(&text.value);
        let leaves = |part: Component<'_>| match part {
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => true,
            Component::CurDir | Component::Normal(_) => false,
        };
        if path.components().any(leaves) {
            let message = format!("`{key}` must stay inside of the worktree");
            let report = Diagnostic::error(Code::BadValue, message)
                .at(text.place.clone(), "relative to the root of the worktree, without `..`");
            self.report(report);
            return None;
        }
        Some(())
    }
}

/// Whether a text can be the name of a variable of the environment.
pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
