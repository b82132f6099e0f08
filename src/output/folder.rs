//! The folder of a run: `<root>/.runner/runs/<run>/jobs/<job>/tools`.

use crate::error::{Error, Kind, Result};
use crate::units::JobId;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The line that keeps the folder out of git's sight.
const EXCLUDE: &str = "/.runner/";

/// Where a run's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, with one for each job.
    ///
    /// # Errors
    /// When it is there already, or cannot be made; names the path.
    pub fn create<'a>(path: &Path, jobs: impl IntoIterator<Item = &'a JobId>) -> Result<Self> {
        let made = |folder: &Path| fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, &error));
        if let Some(parent) = path.parent() {
            made(parent)?;
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let message = format!("the run folder {} is there already", path.display());
                return Err(Error::new(Kind::Environment, message).hint("another run took the same name; run again"));
            }
            result => result.map_err(|error| Error::io("make", path, &error))?,
        }
        let folder = Self { path: path.to_owned() };
        for job in jobs {
            made(&folder.tools(job))?;
        }
        Ok(folder)
    }

    /// The folder of a run that goes on. A torn last line of its events is put aside, so that every line can be read.
    ///
    /// # Errors
    /// Names the path that cannot be read or mended.
    pub fn reopen<'a>(path: &Path, jobs: impl IntoIterator<Item = &'a JobId>) -> Result<Self> {
        let folder = Self { path: path.to_owned() };
        for job in jobs {
            let tools = folder.tools(job);
            fs::create_dir_all(&tools).map_err(|error| Error::io("make", &tools, &error))?;
        }
        let events = folder.file("events.jsonl");
        mend(&events).map_err(|error| Error::io("go on with", &events, &error))?;
        Ok(folder)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the run.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A job's folder.
    #[must_use]
    pub fn job(&self, job: &JobId) -> PathBuf {
        self.path.join("jobs").join(job.as_str())
    }

    /// The folder for full outputs of a job's tools and gates.
    #[must_use]
    pub fn tools(&self, job: &JobId) -> PathBuf {
        self.job(job).join("tools")
    }

    /// A job's `result.json`.
    #[must_use]
    pub fn result(&self, job: &JobId) -> PathBuf {
        self.job(job).join("result.json")
    }

    /// A job's `transcript.jsonl`.
    #[must_use]
    pub fn transcript(&self, job: &JobId) -> PathBuf {
        self.job(job).join("transcript.jsonl")
    }

    /// A job's `diff.patch`.
    #[must_use]
    pub fn patch(&self, job: &JobId) -> PathBuf {
        self.job(job).join("diff.patch")
    }
}

/// Copies the files of a folder, and of the folders below, into another one. Links and what is no file are left out, and so are
/// names at the top that are not `wanted`. What is there already is replaced.
///
/// # Errors
/// Names the path that cannot be read or written.
pub fn copy_files(from: &Path, to: &Path, wanted: &dyn Fn(&OsStr) -> bool) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| Error::io("make", to, &error))?;
    let entries = fs::read_dir(from).map_err(|error| Error::io("read", from, &error))?;
    for entry in entries.flatten().filter(|entry| wanted(&entry.file_name())) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| Error::io("read", &path, &error))?;
        if kind.is_dir() {
            copy_files(&path, &target, &|_| true)?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(|error| Error::io("copy", &path, &error))?;
        }
    }
    Ok(())
}

/// Puts what follows the last newline of a file into a file beside it.
fn mend(path: &Path) -> std::io::Result<()> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let Some(torn) = bytes.get(whole..).filter(|torn| !torn.is_empty()) else { return Ok(()) };
    fs::OpenOptions::new().append(true).create(true).open(path.with_extension("torn"))?.write_all(torn)?;
    fs::OpenOptions::new().write(true).open(path)?.set_len(whole as u64)
}

/// Makes git overlook `.runner/`, by its own list in the common git folder; `.gitignore` is the person's.
///
/// # Errors
/// Names the path. A run can go on without it.
pub(super) fn exclude(git_dir: &Path) -> Result<()> {
    let path = git_dir.join("info").join("exclude");
    let change = || {
        let known = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            known => known?,
        };
        let mut lines = known.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        if lines.any(|line| [EXCLUDE, ".runner/", ".runner", "/.runner"].iter().any(|form| line == form.as_bytes())) {
            return Ok(());
        }
        fs::create_dir_all(git_dir.join("info"))?;
        let start = if known.is_empty() || known.ends_with(b"\n") { "" } else { "\n" };
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&path)?;
        file.write_all(format!("{start}{EXCLUDE}\n").as_bytes())
    };
    change().map_err(|error: std::io::Error| Error::io("change", &path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_folder_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".runner/runs/r1");
        let job = JobId::new("fix").unwrap();
        let folder = RunFolder::create(&path, [&job]).unwrap();
        assert!(path.join("jobs/fix/tools").is_dir());
        assert_eq!(folder.patch(&job), path.join("jobs/fix/diff.patch"));
        let again = RunFolder::create(&path, [&job]).unwrap_err();
        assert!(again.to_string().contains("there already"), "{again}");
    }

    #[cfg(unix)]
    #[test]
    fn files_are_copied_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("tools/deep")).unwrap();
        for (name, text) in [("diff.patch", "new"), ("tools/deep/log", "x"), ("result.json", "{}")] {
            fs::write(from.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("/etc/hostname", from.join("link")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("diff.patch"), "older").unwrap();
        copy_files(&from, &to, &|name| name != "result.json").unwrap();
        assert_eq!(fs::read_to_string(to.join("diff.patch")).unwrap(), "new");
        assert_eq!(fs::read_to_string(to.join("tools/deep/log")).unwrap(), "x");
        assert!(!to.join("result.json").exists() && to.join("link").symlink_metadata().is_err());
        // Each is a file of its own: what is added to one later is not in the other.
        fs::write(from.join("diff.patch"), "later").unwrap();
        assert_eq!(fs::read_to_string(to.join("diff.patch")).unwrap(), "new");
        assert!(copy_files(&root.path().join("none"), &to, &|_| true).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn a_torn_line_is_put_aside() {
        let root = tempfile::tempdir().unwrap();
        let job = JobId::new("fix").unwrap();
        let events = root.path().join("events.jsonl");
        fs::write(&events, "{\"at\":1}\n{\"at").unwrap();
        for _ in 0..2 {
            RunFolder::reopen(root.path(), [&job]).unwrap();
            assert_eq!(fs::read_to_string(&events).unwrap(), "{\"at\":1}\n");
            assert_eq!(fs::read_to_string(root.path().join("events.torn")).unwrap(), "{\"at");
        }
    }

    #[test]
    fn git_is_told_once_and_the_list_is_kept() {
        let git = tempfile::tempdir().unwrap();
        let list = git.path().join("info/exclude");
        exclude(git.path()).unwrap();
        exclude(git.path()).unwrap();
        assert_eq!(fs::read_to_string(&list).unwrap(), "/.runner/\n");
        fs::write(&list, "*.swp").unwrap();
        exclude(git.path()).unwrap();
        assert_eq!(fs::read_to_string(&list).unwrap(), "*.swp\n/.runner/\n");
        fs::write(&list, "a\n .runner/ \r\nb").unwrap();
        exclude(git.path()).unwrap();
        assert_eq!(fs::read_to_string(&list).unwrap(), "a\n .runner/ \r\nb");
    }
}
