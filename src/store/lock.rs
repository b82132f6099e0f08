//! The lock of a run: held by the living process that works on it, free as soon as that one is gone, however it went.
//!
//! The lock is the system's, on an open file, so it ends with the process; children do not inherit it. What the file says is for people.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The file in the run's folder.
const NAME: &str = "lock";

/// A run that this process holds; free when it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Whether somebody holds a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nobody.
    Free,
    /// This one.
    By(Holder),
    /// It cannot be told; in doubt it is held.
    Unsure(String),
}

/// Who holds a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// What its lock file says: process, machine, boot.
    pub said: String,
}

impl RunLock {
    /// Takes the lock of a run.
    ///
    /// # Errors
    /// Says who holds it, or names the path that cannot be locked.
    pub fn take(folder: &Path) -> Result<std::result::Result<Self, Holder>> {
        let path = folder.join(NAME);
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = open.map_err(|error| Error::io("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(Holder { said: text(&mut file) })),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, &error)),
        }
        let said = format!("pid {} on {} since boot {}\n", std::process::id(), machine(), boot());
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(said.as_bytes()));
        written.map_err(|error| Error::io("write", &path, &error))?;
        Ok(Ok(Self { _file: file }))
    }

    /// Whether somebody holds a run. A run without a lock file is from before there were any, or was cleaned: nobody does.
    #[must_use]
    pub fn state(folder: &Path) -> Held {
        let path = folder.join(NAME);
        let mut file = match OpenOptions::new().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Held::Free,
            Err(error) => return Held::Unsure(format!("cannot open {}: {error}", path.display())),
        };
        match file.try_lock_shared() {
            Ok(()) => Held::Free,
            Err(TryLockError::WouldBlock) => Held::By(Holder { said: text(&mut file) }),
            Err(TryLockError::Error(error)) => Held::Unsure(format!("cannot lock {}: {error}", path.display())),
        }
    }
}

fn text(file: &mut File) -> String {
    const MOST: u64 = 300;
    let mut text = String::new();
    drop(file.take(MOST).read_to_string(&mut text));
    let text = text.trim();
    if text.is_empty() { "another process".to_owned() } else { text.to_owned() }
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The id of this start of the machine; Linux alone has one.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_others_are_told_who_and_it_is_free_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunLock::state(folder.path()), Held::Free);
        let lock = RunLock::take(folder.path()).unwrap().unwrap();
        let holder = RunLock::take(folder.path()).unwrap().unwrap_err();
        assert!(holder.said.contains(&format!("pid {}", std::process::id())), "{holder:?}");
        assert_eq!(RunLock::state(folder.path()), Held::By(holder));
        drop(lock);
        assert_eq!(RunLock::state(folder.path()), Held::Free);
        assert!(RunLock::take(folder.path()).unwrap().is_ok());
    }
}
