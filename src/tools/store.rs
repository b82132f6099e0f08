//! Writing a file whole: into a temporary file beside it, which then takes its place.

use super::open::{Found, look};
use super::path::{Place, Root};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Puts content at a place: another process sees the old file or the new one, never a part.
///
/// Missing folders are made. A file that was there keeps its mode and, where that is allowed, its owner. A hard link
/// to it elsewhere keeps the old content, as with every editor that saves in this way.
///
/// # Errors
/// Says in words what failed. Then nothing has changed but perhaps the folders.
pub(super) fn store(root: &Root, place: &Place, content: &[u8]) -> Result<(), String> {
    let before = look(place)?;
    let fail = |error: std::io::Error| format!("Cannot write `{}`: {error}. The file is unchanged.", place.shown);
    let folder = place.real.parent().unwrap_or(root.path());
    fs::create_dir_all(folder).map_err(fail)?;
    if !folder.canonicalize().map_err(fail)?.starts_with(root.path()) {
        return Err(format!("`{}` now leads out of the worktree. Nothing was written.", place.shown));
    }
    // 0666 less the umask is what a new file gets from any program.
    let mode = Permissions::from_mode(0o666);
    let mut temporary = tempfile::Builder::new().prefix(".new-").permissions(mode).tempfile_in(folder).map_err(fail)?;
    temporary.write_all(content).map_err(fail)?;
    if let Found::File(meta) = before {
        let file = temporary.as_file();
        let new = file.metadata().map_err(fail)?;
        if (new.uid(), new.gid()) != (meta.uid(), meta.gid()) {
            // Only root may give files away; for all others the new file is simply theirs.
            std::os::unix::fs::fchown(file, Some(meta.uid()), Some(meta.gid())).ok();
        }
        file.set_permissions(meta.permissions()).map_err(fail)?;
    }
    temporary.persist(&place.real).map_err(|error| fail(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_gets_its_folders_and_the_common_mode() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        store(&root, &root.resolve("a/b/c.txt").unwrap(), b"x").unwrap();
        assert_eq!(fs::read(dir.path().join("a/b/c.txt")).unwrap(), b"x");
        fs::write(dir.path().join("plain"), "x").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("a/b/c.txt"), mode("plain"));
        let left: Vec<_> = fs::read_dir(dir.path().join("a/b")).unwrap().collect();
        assert_eq!(left.len(), 1, "a temporary file is left");
    }

    #[test]
    fn b147_the_mode_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let path = dir.path().join("run.sh");
        fs::write(&path, "old").unwrap();
        for mode in [0o755, 0o600, 0o444] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            store(&root, &root.resolve("run.sh").unwrap(), b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
    }

    #[test]
    fn a_folder_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        assert_eq!(store(&root, &root.resolve("d").unwrap(), b"x").unwrap_err(), "`d` is a folder, not a file.");
        fs::write(dir.path().join("f"), "x").unwrap();
        assert!(store(&root, &root.resolve("f/g").unwrap(), b"x").unwrap_err().contains("is a file, not a folder"));
    }
}
