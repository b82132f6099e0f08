//! What planning asks of the machine. The rim answers; a test answers from a table.

use std::path::Path;

/// What planning asks of the machine.
pub trait World {
    /// The text of a file, or why it cannot be had, as a fragment behind a colon.
    ///
    /// # Errors
    /// The file is not there, cannot be read, is too large or is not UTF-8 text.
    fn text(&self, path: &Path) -> Result<String, String>;

    /// Whether there is such a file.
    fn is_file(&self, path: &Path) -> bool;

    /// Whether there is such a folder.
    fn is_folder(&self, path: &Path) -> bool;

    /// Whether a program can be found by its name or absolute path.
    fn has_program(&self, name: &str) -> bool;

    /// Whether a variable of the environment is set to something.
    fn has_variable(&self, name: &str) -> bool;
}

/// What the plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `runner check`: a missing program is an error.
    Check,
    /// `runner run`: it is a warning, for setup may install it.
    Run,
}
