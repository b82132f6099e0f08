//! Opening what a path names: files only, and never anything that could block.

use super::limit::one_line;
use super::path::{Place, Root};
use super::schema::nearest;
use rustix::fs::OFlags;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// What a place holds.
#[derive(Debug)]
pub(super) enum Found {
    /// A regular file.
    File(Metadata),
    /// Nothing, and the folders above it may be missing too.
    Nothing,
}

/// Looks at a place where a regular file is, or may be made.
///
/// # Errors
/// Says what else is there: a folder, or something that must not be opened.
pub(super) fn look(place: &Place) -> Result<Found, String> {
    match place.real.symlink_metadata() {
        Ok(meta) if meta.is_file() => Ok(Found::File(meta)),
        Ok(meta) => Err(format!("`{}` is {}, not a file.", place.shown, kind(meta.file_type()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(format!("`{}` cannot be: a part of the path is a file, not a folder.", place.shown))
        }
        Err(error) => Err(format!("Cannot look at `{}`: {error}.", place.shown)),
    }
}

/// Opens a regular file for reading.
///
/// The kind is asked before the file is opened, since opening a FIFO or a device can block or do something, and again
/// afterwards, since it can be replaced in between.
///
/// # Errors
/// Says in words what is there instead, and what is near when nothing is there.
pub(super) fn open(root: &Root, place: &Place) -> Result<(File, Metadata), String> {
    if let Found::Nothing = look(place)? {
        return Err(missing(root, place));
    }
    let fail = |error: std::io::Error| format!("Cannot open `{}`: {error}.", place.shown);
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&place.real).map_err(fail)?;
    let meta = file.metadata().map_err(fail)?;
    if !meta.is_file() {
        return Err(format!("`{}` is {}, not a file.", place.shown, kind(meta.file_type())));
    }
    Ok((file, meta))
}

/// The error for a place where nothing is, with what is near.
pub(super) fn missing(root: &Root, place: &Place) -> String {
    let mut there = place.real.as_path();
    let mut name = None;
    while let Some(parent) = there.parent() {
        name = there.file_name();
        there = parent;
        if there.is_dir() || there == root.path() {
            break;
        }
    }
    let folder = root.show(there);
    let wanted = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut text = format!("There is no `{}`", place.shown);
    if there != place.real.parent().unwrap_or(root.path()) {
        text.push_str(&format!(": the folder `{folder}` has no `{}`", one_line(&wanted)));
    }
    text.push('.');
    let names = names(there);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(near) = nearest(&wanted, &names) {
        text.push_str(&format!(" Did you mean `{}`?", root.show(&there.join(near))));
    }
    text
}

/// The names in a folder; at most so many that comparing them all takes no time.
fn names(folder: &Path) -> Vec<String> {
    const MAX: usize = 2_000;
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.take(MAX).filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name != ".git").collect()
}

/// What something is that is no regular file.
fn kind(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe (FIFO)"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "a special file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn error(root: &Root, given: &str) -> String {
        open(root, &root.resolve(given).unwrap()).unwrap_err()
    }

    #[test]
    fn what_is_missing_is_said_with_what_is_near() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src/parser")).unwrap();
        fs::write(dir.path().join("src/parser/lexer.rs"), "").unwrap();
        let root = Root::open(dir.path()).unwrap();
        assert_eq!(
            error(&root, "src/parser/lexr.rs"),
            "There is no `src/parser/lexr.rs`. Did you mean `src/parser/lexer.rs`?"
        );
        assert_eq!(
            error(&root, "src/parsers/lexer.rs"),
            "There is no `src/parsers/lexer.rs`: the folder `src` has no `parsers`. Did you mean `src/parser`?"
        );
        assert_eq!(error(&root, "zzz"), "There is no `zzz`.");
        assert_eq!(error(&root, "src"), "`src` is a folder, not a file.");
        assert_eq!(
            error(&root, "src/parser/lexer.rs/x"),
            "`src/parser/lexer.rs/x` cannot be: a part of the path is a file, not a folder."
        );
    }

    #[test]
    fn b151_special_files_are_refused_without_being_opened() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        // Nobody ever writes to the pipe: opening it in the common way would wait for ever.
        mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        assert_eq!(error(&root, "pipe"), "`pipe` is a named pipe (FIFO), not a file.");
        assert_eq!(error(&root, "socket"), "`socket` is a socket, not a file.");
    }
}
