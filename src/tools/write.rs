//! Write: a whole file, exactly as given.

use super::limit::count;
use super::open::{Found, look, open};
use super::path::Place;
use super::schema::{Arguments, Declaration, Field, Kind, Need};
use super::store::store;
use super::workspace::{Answer, CANCELLED, Workspace};
use std::io::Read;
use tokio_util::sync::CancellationToken;

/// The declaration.
pub(super) const WRITE: Declaration = Declaration {
    name: "Write",
    description: "Creates a file, or replaces one whole, with exactly `content`. Missing folders are made; the mode of an existing file is kept. \
                  To change a part of a file use Edit.",
    fields: &[
        Field {
            name: "file_path",
            kind: Kind::Text,
            need: Need::Required,
            about: "Absolute, or relative to the root of the worktree.",
        },
        Field { name: "content", kind: Kind::Text, need: Need::Required, about: "" },
    ],
};

/// Writes.
pub(super) fn write(space: &Workspace, input: &Arguments, cancel: &CancellationToken) -> Answer {
    let given = input.required("file_path");
    let content = input.required("content").as_bytes();
    let place = space.root.resolve(given)?;
    if given.ends_with('/') {
        return Err(format!("`{}/` names a folder. Write makes files, and their folders with them.", place.shown));
    }
    let lines = count(lines(content), "line");
    let before = Before::of(space, &place, content)?;
    if cancel.is_cancelled() {
        return Err(CANCELLED.into());
    }
    let done = match before {
        Before::Same => {
            return Ok(format!("`{}` had exactly this content already ({lines}); nothing was changed.", place.shown));
        }
        Before::Nothing => format!("Created `{}` ({lines}).", place.shown),
        Before::Crlf if !crlf(content) => {
            format!("Replaced `{}` ({lines}). Its lines ended with CRLF before; now they end with LF.", place.shown)
        }
        Before::Other | Before::Crlf => format!("Replaced `{}` ({lines}).", place.shown),
    };
    store(&space.root, &place, content)?;
    Ok(done + &space.note(&place))
}

/// What was there before.
enum Before {
    Nothing,
    /// The very content that is to be written.
    Same,
    /// Other content, with CRLF line ends.
    Crlf,
    Other,
}

impl Before {
    fn of(space: &Workspace, place: &Place, content: &[u8]) -> Result<Self, String> {
        let Found::File(_) = look(place)? else { return Ok(Self::Nothing) };
        // A file that cannot be read can still be replaced.
        let Ok((file, meta)) = open(&space.root, place) else { return Ok(Self::Other) };
        // More than the new content is never needed, nor is more than a glance at the line ends.
        let same_size = meta.len() == content.len() as u64;
        let wanted = if same_size { meta.len() } else { GLANCE };
        let mut start = Vec::new();
        if file.take(wanted).read_to_end(&mut start).is_err() {
            return Ok(Self::Other);
        }
        Ok(if same_size && start == content {
            Self::Same
        } else if crlf(&start) {
            Self::Crlf
        } else {
            Self::Other
        })
    }
}

/// How much of an old file is looked at for its line ends, in bytes.
const GLANCE: u64 = 64 << 10;

fn crlf(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"\r\n")
}

/// How many lines a text has; an unfinished last one counts.
fn lines(text: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text).count() as u64;
    ends + u64::from(!text.is_empty() && !text.ends_with(b"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::workspace::tests::{arguments, workspace};
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn run(space: &Workspace, path: &str, content: &str) -> Answer {
        let input = arguments(&WRITE, json!({ "file_path": path, "content": content }));
        write(space, &input, &CancellationToken::new())
    }

    #[test]
    fn a_file_is_made_and_replaced() {
        let (dir, space) = workspace(&[]);
        assert_eq!(run(&space, "a/b.txt", "x\ny").unwrap(), "Created `a/b.txt` (2 lines).");
        assert_eq!(run(&space, "a/b.txt", "z\r\n").unwrap(), "Replaced `a/b.txt` (1 line).");
        assert_eq!(fs::read(dir.path().join("a/b.txt")).unwrap(), b"z\r\n");
        assert_eq!(
            run(&space, "a/b.txt", "q\n").unwrap(),
            "Replaced `a/b.txt` (1 line). Its lines ended with CRLF before; now they end with LF."
        );
        assert_eq!(run(&space, "empty", "").unwrap(), "Created `empty` (0 lines).");
    }

    #[test]
    fn the_same_content_changes_nothing() {
        let (dir, space) = workspace(&[("f", "same\n")]);
        let before = fs::metadata(dir.path().join("f")).unwrap().modified().unwrap();
        assert!(run(&space, "f", "same\n").unwrap().contains("nothing was changed"));
        assert_eq!(fs::metadata(dir.path().join("f")).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn a_link_is_followed_inside_and_refused_outside() {
        let outside = tempfile::tempdir().unwrap();
        let (dir, space) = workspace(&[("real.txt", "old")]);
        symlink("real.txt", dir.path().join("link")).unwrap();
        symlink(outside.path().join("new"), dir.path().join("out")).unwrap();
        run(&space, "link", "new").unwrap();
        assert_eq!(fs::read(dir.path().join("real.txt")).unwrap(), b"new");
        assert!(dir.path().join("link").is_symlink());
        assert!(run(&space, "out", "x").unwrap_err().contains("outside of the worktree"));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_and_git_are_refused() {
        let (_dir, space) = workspace(&[("d/f", "x")]);
        assert_eq!(run(&space, "d", "x").unwrap_err(), "`d` is a folder, not a file.");
        assert!(run(&space, "new/", "x").unwrap_err().contains("names a folder"));
        assert!(run(&space, ".git/hooks/pre-commit", "x").unwrap_err().contains("belongs to git"));
        assert!(run(&space, ".", "x").is_err());
    }

    #[test]
    fn a_protected_path_is_written_with_a_warning() {
        let (dir, space) = workspace(&[]);
        let answer = run(&space, "tests/a.rs", "x").unwrap();
        assert!(answer.contains("`tests/a.rs` is a protected path: this change will be undone"), "{answer}");
        assert!(dir.path().join("tests/a.rs").exists());
    }
}
