//! Edit: one text of a file replaced by another.

use super::limit::{count, head, show_bytes};
use super::nearest::explain;
use super::open::{Found, look, open};
use super::path::Place;
use super::schema::{Arguments, Declaration, Field, Kind, Need};
use super::store::store;
use super::substitute::{Miss, Scope, Substituted, substitute};
use super::workspace::{Answer, CANCELLED, Workspace};
use std::io::Read;
use tokio_util::sync::CancellationToken;

/// The largest file that is edited, in bytes: it is held in memory, twice for a moment.
const MAX_FILE: u64 = 64 << 20;
/// How many lines are shown before and behind a changed one.
const AROUND: usize = 2;
/// How many lines are shown in all.
const MAX_SHOWN: usize = 40;
/// How many bytes of a line are shown.
const MAX_LINE: usize = 300;
/// How many line numbers are listed.
const MAX_LISTED: usize = 20;

/// The declaration.
pub(super) const EDIT: Declaration = Declaration {
    name: "Edit",
    description: "Replaces `old_string` by `new_string` in a file, both taken exactly, white space included. `old_string` must be in the \
                  file exactly once, unless `replace_all` is true: give enough of the lines around it. Line ends, encoding and mode \
                  of the file are kept. An empty `old_string` creates a new file.",
    fields: &[
        Field {
            name: "file_path",
            kind: Kind::Text,
            need: Need::Required,
            about: "Absolute, or relative to the root of the worktree.",
        },
        Field {
            name: "old_string",
            kind: Kind::Text,
            need: Need::Required,
            about: "As it is in the file, without Read's line numbers.",
        },
        Field { name: "new_string", kind: Kind::Text, need: Need::Required, about: "" },
        Field {
            name: "replace_all",
            kind: Kind::Flag,
            need: Need::Optional,
            about: "Replace it wherever it is. Default false.",
        },
    ],
};

/// Edits.
pub(super) fn edit(space: &Workspace, input: &Arguments, cancel: &CancellationToken) -> Answer {
    let place = space.root.resolve(input.required("file_path"))?;
    let (old, new) = (input.required("old_string"), input.required("new_string"));
    if old == new {
        return Err("old_string and new_string are the same: there is nothing to change.".into());
    }
    if old.is_empty() {
        return create(space, &place, new);
    }
    let scope = if input.flag("replace_all") == Some(true) { Scope::All } else { Scope::Unique };
    let content = whole(space, &place)?;
    let done = substitute(&content, old, new, scope).map_err(|miss| missed(&place, &content, old, new, &miss))?;
    if cancel.is_cancelled() {
        return Err(CANCELLED.into());
    }
    if done.content == content {
        return Err(format!(
            "Only the kind of the line ends differs, and `{}` keeps its own: nothing to change.",
            place.shown
        ));
    }
    store(&space.root, &place, &done.content)?;
    Ok(report(&place, &done) + &space.note(&place))
}

fn create(space: &Workspace, place: &Place, new: &str) -> Answer {
    match look(place)? {
        Found::File(meta) if meta.len() > 0 => Err(format!(
            "old_string is empty, but `{}` exists. Give the text to replace, or use Write to replace the whole file.",
            place.shown
        )),
        Found::File(_) | Found::Nothing => {
            store(&space.root, place, new.as_bytes())?;
            let lines = count(new.lines().count() as u64, "line");
            Ok(format!("Created `{}` ({lines}).{}", place.shown, space.note(place)))
        }
    }
}

fn whole(space: &Workspace, place: &Place) -> Result<Vec<u8>, String> {
    let (file, meta) = open(&space.root, place)?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("Cannot read `{}`: {error}.", place.shown))?;
    if content.len() as u64 > MAX_FILE {
        return Err(format!(
            "`{}` is too large to edit ({}, at most {}). Use a program in Bash.",
            place.shown,
            show_bytes(meta.len()),
            show_bytes(MAX_FILE)
        ));
    }
    Ok(content)
}

/// The error for a text that is not there, or not once.
fn missed(place: &Place, content: &[u8], old: &str, new: &str, miss: &Miss) -> String {
    let file = &place.shown;
    match miss {
        Miss::Nowhere => {
            format!("old_string is not in `{file}`; nothing was changed. {}", explain(content, old, new))
        }
        Miss::NoCrlf => format!(
            "old_string is not in `{file}`; nothing was changed. It has CRLF line ends, the file has LF: write plain line ends."
        ),
        Miss::Several(offsets) => {
            let lines: Vec<usize> = Numbers::new(content).of(offsets.iter().copied());
            format!(
                "old_string is in `{file}` {} times, on lines {}; nothing was changed. Add lines around it until it is unique, or set \
                 replace_all.",
                offsets.len(),
                listed(&lines)
            )
        }
    }
}

/// What was done, with the changed lines as they are now.
fn report(place: &Place, done: &Substituted) -> String {
    let content = &done.content;
    let starts = Numbers::new(content).of(done.places.iter().map(|range| range.start));
    let ends = Numbers::new(content).of(done.places.iter().map(|range| range.end.max(range.start + 1) - 1));
    let mut text = match starts.as_slice() {
        [_] => format!("Edited `{}`. It reads now:\n", place.shown),
        many => {
            format!("Edited `{}` in {} places, on lines {}. It reads now:\n", place.shown, many.len(), listed(many))
        }
    };
    // The windows around the changes, merged where they touch.
    let mut windows: Vec<(usize, usize)> = Vec::new();
    for (start, end) in starts.iter().zip(&ends) {
        let (from, to) = (start.saturating_sub(AROUND).max(1), end + AROUND);
        match windows.last_mut() {
            Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
            Some(_) | None => windows.push((from, to)),
        }
    }
    let mut shown = 0;
    let mut windows = windows.into_iter().peekable();
    for (index, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let Some((from, to)) = windows.peek().copied() else { break };
        if number < from {
            continue;
        }
        if shown == MAX_SHOWN {
            text.push_str("   ...\n");
            break;
        }
        shown += 1;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
        text.push_str(&format!("{number:>6}\t{}\n", head(line, MAX_LINE)));
        if number == to {
            windows.next();
            text.push_str(if windows.peek().is_some() { "   ...\n" } else { "" });
        }
    }
    if shown == 0 {
        text.push_str("(the file is empty now)\n");
    }
    text
}

/// Line numbers of offsets.
struct Numbers<'a> {
    content: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Numbers<'a> {
    fn new(content: &'a [u8]) -> Self {
        Self { content, at: 0, line: 1 }
    }

    /// The line of each offset; they rise.
    fn of(mut self, offsets: impl Iterator<Item = usize>) -> Vec<usize> {
        offsets
            .map(|offset| {
                let offset = offset.min(self.content.len());
                self.line += memchr::memchr_iter(b'\n', &self.content[self.at..offset]).count();
                self.at = offset;
                self.line
            })
            .collect()
    }
}

fn listed(lines: &[usize]) -> String {
    let shown: Vec<String> = lines.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let more = if lines.len() > MAX_LISTED { ", ..." } else { "" };
    shown.join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::workspace::tests::{arguments, workspace};
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn run(space: &Workspace, path: &str, old: &str, new: &str, all: bool) -> Answer {
        let input = json!({ "file_path": path, "old_string": old, "new_string": new, "replace_all": all });
        edit(space, &arguments(&EDIT, input), &CancellationToken::new())
    }

    #[test]
    fn the_report_shows_the_changed_lines() {
        let (dir, space) = workspace(&[("f", "1\n2\n3\n4\n5\n6\n7\n")]);
        insta::assert_snapshot!(run(&space, "f", "4\n", "four\nvier\n", false).unwrap(), @r"
        Edited `f`. It reads now:
             2	2
             3	3
             4	four
             5	vier
             6	5
             7	6
        ");
        assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "1\n2\n3\nfour\nvier\n5\n6\n7\n");
        insta::assert_snapshot!(run(&space, "f", "vier\n", "", false).unwrap(), @r"
        Edited `f`. It reads now:
             3	3
             4	four
             5	5
             6	6
             7	7
        ");
    }

    #[test]
    fn replace_all_lists_the_places() {
        let lines =
            (1..=60).map(|n| if n % 10 == 0 { "x\n".into() } else { format!("{n}\n") }).collect::<Vec<_>>().concat();
        let (_dir, space) = workspace(&[("f", &lines)]);
        let text = run(&space, "f", "x", "ten", true).unwrap();
        assert!(
            text.starts_with("Edited `f` in 6 places, on lines 10, 20, 30, 40, 50, 60. It reads now:\n     8\t8\n"),
            "{text}"
        );
        assert_eq!(text.matches("\tten\n").count(), 6);
        assert_eq!(text.matches("   ...\n").count(), 5);
        let (_dir, space) = workspace(&[("f", &"x\n".repeat(500))]);
        let text = run(&space, "f", "x", "y", true).unwrap();
        assert_eq!(text.matches("\ty\n").count(), MAX_SHOWN);
        assert!(text.contains("in 500 places, on lines 1, 2, 3, ") && text.contains(", 20, ..."), "{text}");
    }

    #[test]
    fn several_places_are_counted_with_their_lines() {
        let (dir, space) = workspace(&[("f", "a\nb\na\n")]);
        insta::assert_snapshot!(
            run(&space, "f", "a", "c", false).unwrap_err(),
            @"old_string is in `f` 2 times, on lines 1, 3; nothing was changed. Add lines around it until it is unique, or set replace_all."
        );
        assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "a\nb\na\n");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let (_dir, space) = workspace(&[("f", "a\n"), ("empty", "")]);
        assert!(run(&space, "f", "a", "a", false).unwrap_err().contains("are the same"));
        assert!(run(&space, "f", "", "b", false).unwrap_err().contains("old_string is empty, but `f` exists"));
        assert!(
            run(&space, "f", "zzzzz", "b", false)
                .unwrap_err()
                .starts_with("old_string is not in `f`; nothing was changed. ")
        );
        assert!(run(&space, "f", "a\r\n", "b", false).unwrap_err().contains("write plain line ends"));
        assert!(run(&space, "g", "a", "b", false).unwrap_err().contains("There is no `g`"));
        assert!(run(&space, ".", "a", "b", false).unwrap_err().contains("is a folder"));
        assert_eq!(run(&space, "empty", "", "b\n", false).unwrap(), "Created `empty` (1 line).");
        assert_eq!(
            run(&space, "tests/new", "", "b\nc", false).unwrap().lines().next(),
            Some("Created `tests/new` (2 lines).")
        );
    }

    #[test]
    fn all_can_be_deleted() {
        let (dir, space) = workspace(&[("f", "a\n")]);
        assert!(run(&space, "f", "a\n", "", false).unwrap().contains("(the file is empty now)"));
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"");
    }

    #[test]
    fn b147_a_script_stays_executable() {
        let (dir, space) = workspace(&[("run.sh", "#!/bin/sh\necho a\n")]);
        let path = dir.path().join("run.sh");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        run(&space, "run.sh", "echo a", "echo b", false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn b149_edits_by_other_names_of_a_file_add_up() {
        let (dir, space) = workspace(&[("f", "1\n2\n3\n")]);
        symlink("f", dir.path().join("link")).unwrap();
        for (path, old) in [("f", "1"), ("./f", "2"), ("link", "3")] {
            run(&space, path, old, "x", false).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "x\nx\nx\n");
        assert!(dir.path().join("link").is_symlink());
    }

    #[test]
    fn b141_crlf_through_the_tool() {
        let (dir, space) = workspace(&[("f", "\u{feff}a\r\nb\r\nc\r\n")]);
        let text = run(&space, "f", "a\nb", "a\nx\ny", false).unwrap();
        assert_eq!(text, "Edited `f`. It reads now:\n     1\ta\n     2\tx\n     3\ty\n     4\tc\n");
        assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "\u{feff}a\r\nx\r\ny\r\nc\r\n");
        assert!(run(&space, "f", "x\n", "x\r\n", false).unwrap_err().contains("keeps its own"));
    }
}
