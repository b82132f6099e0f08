//! Protected paths: the agent may change them, but the change is undone before the work is judged.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::Path;

/// The globs of a job's `protect`, relative to the worktree.
///
/// `*` stays within a folder, `**` does not. A glob that matches a folder protects all that is in it.
#[derive(Clone, Debug)]
pub struct Protected {
    globs: GlobSet,
}

impl Protected {
    /// Compiles the globs.
    ///
    /// # Errors
    /// Names the glob that is wrong and why.
    pub fn new(globs: &[String]) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            let trimmed = glob.strip_prefix("./").unwrap_or(glob).trim_end_matches('/');
            let compiled = GlobBuilder::new(trimmed).literal_separator(true).build();
            set.add(compiled.map_err(|error| format!("protect: `{glob}` is no glob: {}", error.kind()))?);
        }
        let globs = set.build().map_err(|error| format!("protect: {}", error.kind()))?;
        Ok(Self { globs })
    }

    /// Whether a path, relative to the worktree, is protected.
    #[must_use]
    pub fn covers(&self, path: impl AsRef<Path>) -> bool {
        path.as_ref().ancestors().any(|part| !part.as_os_str().is_empty() && self.globs.is_match(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(globs: &[&str], path: &str) -> bool {
        let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
        Protected::new(&globs).unwrap().covers(path)
    }

    #[test]
    fn globs_are_relative_to_the_worktree() {
        assert!(covers(&["tests/**"], "tests/a/b.rs"));
        assert!(covers(&["tests/*.rs"], "tests/b.rs"));
        assert!(!covers(&["tests/*.rs"], "tests/a/b.rs"));
        assert!(!covers(&["tests/**"], "src/tests/b.rs"));
        assert!(covers(&["**/*_test.go"], "a/b/x_test.go"));
        assert!(!covers(&[], "tests/a"));
    }

    #[test]
    fn a_folder_protects_what_is_in_it() {
        for glob in ["tests", "tests/", "./tests"] {
            assert!(covers(&[glob], "tests/a/b.rs"), "{glob}");
            assert!(!covers(&[glob], "tests2/a"), "{glob}");
        }
    }

    #[test]
    fn a_wrong_glob_is_named() {
        let error = Protected::new(&["a[".into()]).unwrap_err();
        assert!(error.starts_with("protect: `a[` is no glob: "), "{error}");
    }
}
