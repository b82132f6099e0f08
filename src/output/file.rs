//! The door to the disk: files that are replaced whole, and files that only grow. No report is written elsewhere.

use crate::error::{Error, Result};
use crate::report::redact::{Redactor, Secret};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes files, without secrets. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct Files {
    redactor: Arc<Redactor>,
}

impl Files {
    /// Takes these secrets out of everything that it writes.
    #[must_use]
    pub fn new(secrets: &[Secret]) -> Self {
        Self { redactor: Arc::new(Redactor::new(secrets)) }
    }

    /// What takes the secrets out.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The text without secrets.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        self.redactor.apply(text).into_owned()
    }

    /// Replaces a file: readers see the old text or the new one, never a part. Folders are made where they are missing.
    /// What is no regular file (a pipe, a device) is written into.
    ///
    /// # Errors
    /// Names the path.
    pub fn replace(&self, path: &Path, text: &str) -> Result<()> {
        let text = self.redactor.apply(text);
        replace(path, text.as_bytes()).map_err(|error| Error::io("write", path, &error))
    }

    /// Adds to the end of a file, which is made where it is missing.
    ///
    /// # Errors
    /// Names the path.
    pub fn append(&self, path: &Path, text: &str) -> Result<()> {
        let text = self.redactor.apply(text);
        let add = || OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes());
        add().map_err(|error| Error::io("append to", path, &error))
    }

    /// Opens a file that grows line by line. What it holds already stays.
    ///
    /// # Errors
    /// Names the path.
    pub fn lines(&self, path: &Path) -> Result<Lines> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| Error::io("open", path, &error))?;
        Ok(Lines { file, path: path.to_owned(), redactor: Arc::clone(&self.redactor), torn: false })
    }
}

/// Whether the path is there and is no regular file, once links are followed.
pub(super) fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file())
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if is_special(path) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    // A link stays a link: its target is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tmp-");
    #[cfg(unix)]
    {
        // As a file made in the ordinary way: others may read it, as far as the umask lets them.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// A file that only grows. Each line is handed to the system whole and at once, so a killed process loses none.
#[derive(Debug)]
pub struct Lines {
    file: File,
    path: PathBuf,
    redactor: Arc<Redactor>,
    torn: bool,
}

impl Lines {
    /// Adds a line. A newline within it would make it two: callers hand over JSON.
    ///
    /// # Errors
    /// Names the path. The next line starts afresh even if this one was written in part.
    pub fn write(&mut self, line: &str) -> Result<()> {
        let line = self.redactor.apply(line);
        let start = if self.torn { "\n" } else { "" };
        let written = self.file.write_all(format!("{start}{line}\n").as_bytes());
        self.torn = written.is_err();
        written.map_err(|error| Error::io("append to", &self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/deep/junit.xml");
        let files = Files::default();
        files.replace(&path, "one").unwrap();
        files.replace(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_others_may_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        Files::default().replace(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&target), mode(&plain));
    }

    #[test]
    fn an_error_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let below = file.join("x.xml");
        let error = Files::default().replace(&below, "text").unwrap_err().to_string();
        assert!(error.contains(&below.display().to_string()), "{error}");
        assert!(Files::default().replace(folder.path(), "text").is_err());
    }

    #[test]
    fn every_door_takes_secrets_out() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(&[Secret { name: "KEY".into(), value: "abcd-efgh".into() }]);
        let path = folder.path().join("file");
        files.replace(&path, "1 abcd-efgh\n").unwrap();
        files.append(&path, "2 abcd-efgh\n").unwrap();
        files.lines(&path).unwrap().write("3 abcd-efgh").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "1 [redacted:KEY]\n2 [redacted:KEY]\n3 [redacted:KEY]\n");
    }
}
