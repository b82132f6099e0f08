//! Glob: files by name, newest first.

use super::limit::{count, one_line};
use super::open::missing;
use super::path::{MAX_PATH, Place, is_git};
use super::schema::{Arguments, Declaration, Field, Kind, Need};
use super::walk::{Rules, Walk};
use super::workspace::{Answer, CANCELLED, Workspace};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// How many files are listed.
const MAX_LISTED: usize = 100;
/// How many files are looked at only to say that ignored ones would match.
const HINT_FILES: u64 = 200_000;

/// The declaration.
pub(super) const GLOB: Declaration = Declaration {
    name: "Glob",
    description: "Lists files whose path matches a glob, newest first, 100 at most. `*` stays within a folder, `**` crosses folders, `{a,b}` \
                  and `[ab]` work. Ignored files (.gitignore) are left out unless `path` or the pattern's fixed start leads into them; \
                  hidden ones are not.",
    fields: &[
        Field {
            name: "pattern",
            kind: Kind::Text,
            need: Need::Required,
            about: "Such as `src/**/*.rs`, relative to `path`, or absolute in the worktree.",
        },
        Field {
            name: "path",
            kind: Kind::Text,
            need: Need::Optional,
            about: "Folder. Default: the root of the worktree.",
        },
    ],
};

/// Lists.
pub(super) fn glob(space: &Workspace, input: &Arguments, cancel: &CancellationToken) -> Answer {
    let given = input.required("pattern");
    let folder = space.root.resolve(input.text("path").unwrap_or("."))?;
    if !folder.real.is_dir() {
        return Err(not_a_folder(space, &folder));
    }
    if given.len() > MAX_PATH {
        return Err("The pattern is longer than any path.".into());
    }
    let pattern = Pattern::new(given);
    let base = space.root.resolve(&Path::new(&folder.shown).join(&pattern.folder).to_string_lossy())?;
    if !base.real.is_dir() {
        return Ok(format!("No file matches `{}`. {}", one_line(given), not_a_folder(space, &base)));
    }
    let globs = pattern.compile()?;
    let mut walk = Walk { root: &space.root, base: &base.real, rules: Rules::Respected, limit: u64::MAX, cancel };
    let take = |entry: &ignore::DirEntry| -> Option<Found> {
        let inside = entry.path().strip_prefix(&base.real).ok()?;
        let place = if globs.here.is_match(inside) {
            Depth::Here
        } else if globs.deeper.is_match(inside) {
            Depth::Deeper
        } else {
            return None;
        };
        let changed = entry.metadata().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
        Some(Found { place, changed: Reverse(changed), path: entry.path().to_owned() })
    };
    let mut walked = walk.files(take);
    // A folder of which all is ignored was named on purpose.
    let explicit = walked.seen == 0 && base.real != space.root.path();
    if explicit {
        walk.rules = Rules::Ignored;
        walked = walk.files(take);
    }
    if cancel.is_cancelled() {
        return Err(CANCELLED.into());
    }
    walked.taken.sort_unstable();
    let matching = walked.taken.iter().take_while(|found| found.place == Depth::Here).count();
    let (found, deeper) = walked.taken.split_at(matching);
    if found.is_empty() {
        let mut text = format!("No file matches `{}`.", one_line(given));
        if base.real.join(&pattern.rest).is_dir() {
            let shown = space.root.show(&base.real.join(&pattern.rest));
            text.push_str(&format!(" `{shown}` is a folder: `{shown}/**` matches what is in it."));
        } else if !deeper.is_empty() {
            let files = count(deeper.len() as u64, "file");
            text.push_str(&format!(" `**/{}` would match {files}, such as {}.", pattern.rest, examples(space, deeper)));
        } else if !explicit {
            walk.rules = Rules::Ignored;
            walk.limit = HINT_FILES;
            let walked = walk.files(|entry| take(entry).filter(|found| found.place == Depth::Here));
            let mut ignored = walked.taken;
            ignored.sort_unstable();
            if !ignored.is_empty() {
                let files = count(ignored.len() as u64, "ignored file");
                let at_least = if walked.cut { "at least " } else { "" };
                text.push_str(&format!(
                    " But {at_least}{files} would, such as {}: name their folder in `path` to list them.",
                    examples(space, &ignored)
                ));
            }
        }
        return Ok(text);
    }
    let mut text = String::new();
    for found in found.iter().take(MAX_LISTED) {
        text.push_str(&space.root.show(&found.path));
        text.push('\n');
    }
    if found.len() > MAX_LISTED {
        let more = found.len() - MAX_LISTED;
        text.push_str(&format!("[the newest {MAX_LISTED} of {}; {more} more: narrow the pattern]\n", found.len()));
    }
    if explicit {
        text.push_str("[these files are ignored by git]\n");
    }
    Ok(text)
}

/// A file that matches. The order is that of the list.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    place: Depth,
    changed: Reverse<SystemTime>,
    path: PathBuf,
}

/// Whether a file matches the pattern, or would if the pattern began with `**/`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    Here,
    Deeper,
}

/// A pattern, taken apart.
struct Pattern {
    /// The folders that it begins with, without a wildcard; may be absolute.
    folder: String,
    /// What follows; never empty.
    rest: String,
}

struct Globs {
    here: GlobSet,
    deeper: GlobSet,
}

impl Pattern {
    fn new(given: &str) -> Self {
        let mut given = given.to_owned();
        if given.ends_with('/') {
            given.push_str("**");
        }
        let wild = given.find(['*', '?', '[', '{', '\\']).unwrap_or(given.len());
        // The last part is always left to match, wildcard or not.
        let cut = given[..wild].rfind('/').map_or(0, |slash| slash + 1);
        let rest = given.split_off(cut);
        Self { folder: given, rest }
    }

    fn compile(&self) -> Result<Globs, String> {
        let rest = &self.rest;
        if rest.split('/').any(|part| part == ".." || is_git(OsStr::new(part))) {
            return Err(format!("`{}`: `..` and `.git` cannot stand behind a wildcard.", one_line(rest)));
        }
        // Brackets in names of files are common (`[id].tsx`): both readings count.
        let literal = rest.replace('[', "\u{1}").replace(']', "[]]").replace('\u{1}', "[[]");
        let set = |prefix: &str| -> Result<GlobSet, String> {
            let mut set = GlobSetBuilder::new();
            for pattern in [rest, &literal] {
                let glob = GlobBuilder::new(&format!("{prefix}{pattern}")).literal_separator(true).build();
                set.add(glob.map_err(|error| format!("`{}` is no glob: {}.", one_line(rest), error.kind()))?);
            }
            set.build().map_err(|error| format!("`{}` is no glob: {}.", one_line(rest), error.kind()))
        };
        Ok(Globs { here: set("")?, deeper: set("**/")? })
    }
}

fn not_a_folder(space: &Workspace, place: &Place) -> String {
    if place.real.symlink_metadata().is_ok() {
        format!("`{}` is not a folder.", place.shown)
    } else {
        missing(&space.root, place)
    }
}

fn examples(space: &Workspace, found: &[Found]) -> String {
    let shown: Vec<String> = found.iter().take(3).map(|found| format!("`{}`", space.root.show(&found.path))).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::workspace::tests::{arguments, workspace};
    use serde_json::json;
    use std::fs;
    use std::time::Duration;

    fn run(space: &Workspace, pattern: &str, path: Option<&str>) -> Answer {
        let input = arguments(&GLOB, json!({ "pattern": pattern, "path": path }));
        glob(space, &input, &CancellationToken::new())
    }

    fn lines(answer: Answer) -> Vec<String> {
        let mut lines: Vec<String> = answer.unwrap().lines().map(ToString::to_string).collect();
        lines.sort();
        lines
    }

    #[test]
    fn files_are_listed_by_their_path() {
        let (dir, space) = workspace(&[("src/a.rs", ""), ("src/b/c.rs", ""), ("src/d.py", ""), ("top.rs", "")]);
        assert_eq!(lines(run(&space, "**/*.rs", None)), ["src/a.rs", "src/b/c.rs", "top.rs"]);
        assert_eq!(lines(run(&space, "*.rs", None)), ["top.rs"]);
        assert_eq!(lines(run(&space, "src/*", None)), ["src/a.rs", "src/d.py"]);
        assert_eq!(lines(run(&space, "*.{rs,py}", Some("src"))), ["src/a.rs", "src/d.py"]);
        assert_eq!(lines(run(&space, "src/a.rs", None)), ["src/a.rs"]);
        assert_eq!(lines(run(&space, "./src/b/", None)), ["src/b/c.rs"]);
        let absolute = format!("{}/src/**/*.rs", dir.path().display());
        assert_eq!(lines(run(&space, &absolute, None)), ["src/a.rs", "src/b/c.rs"]);
        assert_eq!(lines(run(&space, "../top.rs", Some("src"))), ["top.rs"]);
    }

    #[test]
    fn the_newest_come_first_and_a_hundred_at_most() {
        let (dir, space) = workspace(&[]);
        for n in 0..103_u64 {
            let path = dir.path().join(format!("{n:03}.txt"));
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + n)).unwrap();
        }
        let text = run(&space, "*.txt", None).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[99], lines.len()), ("102.txt", "003.txt", 101));
        assert_eq!(lines[100], "[the newest 100 of 103; 3 more: narrow the pattern]");
    }

    #[test]
    fn b155_hidden_files_are_reached_and_ignored_ones_are_mentioned() {
        let (_dir, space) = workspace(&[
            (".gitignore", "scripts/*\n"),
            (".github/workflows/ci.yml", ""),
            ("scripts/go.sh", ""),
            ("src/x", ""),
        ]);
        assert_eq!(lines(run(&space, ".github/workflows/*.yml", None)), [".github/workflows/ci.yml"]);
        assert_eq!(
            run(&space, "**/*.sh", None).unwrap(),
            "No file matches `**/*.sh`. But 1 ignored file would, such as `scripts/go.sh`: name their folder in `path` to list them."
        );
        for (pattern, path) in [("*.sh", Some("scripts")), ("scripts/*.sh", None)] {
            assert_eq!(run(&space, pattern, path).unwrap(), "scripts/go.sh\n[these files are ignored by git]\n");
        }
        assert_eq!(run(&space, "**/*.none", None).unwrap(), "No file matches `**/*.none`.");
    }

    #[test]
    fn brackets_in_names_are_found() {
        let (_dir, space) = workspace(&[("app/[id]/page.tsx", ""), ("app/i/page.tsx", ""), ("a.rs", ""), ("c.rs", "")]);
        assert_eq!(lines(run(&space, "app/[id]/*.tsx", None)), ["app/[id]/page.tsx", "app/i/page.tsx"]);
        assert_eq!(lines(run(&space, "[ab].rs", None)), ["a.rs"]);
    }

    #[test]
    fn a_pattern_without_a_match_gets_a_hint() {
        let (dir, space) = workspace(&[("src/a.rs", ""), ("src/b/c.rs", "")]);
        let old = fs::File::options().write(true).open(dir.path().join("src/a.rs")).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(
            run(&space, "*.rs", None).unwrap(),
            "No file matches `*.rs`. `**/*.rs` would match 2 files, such as `src/b/c.rs`, `src/a.rs`."
        );
        assert!(run(&space, "src", None).unwrap().contains("`src` is a folder: `src/**` matches"));
        assert!(run(&space, "scr/*.rs", None).unwrap().contains("There is no `scr`. Did you mean `src`?"));
    }

    #[test]
    fn what_is_outside_is_refused() {
        let (_dir, space) = workspace(&[("f", "")]);
        assert!(run(&space, "/etc/*", None).unwrap_err().contains("outside of the worktree"));
        assert!(run(&space, "../*", None).unwrap_err().contains("outside of the worktree"));
        assert!(run(&space, "*/../../x", None).unwrap_err().contains("cannot stand behind a wildcard"));
        assert!(run(&space, ".git/*", None).unwrap_err().contains("belongs to git"));
        assert!(run(&space, "*", Some("nowhere")).unwrap_err().contains("There is no `nowhere`"));
        assert!(run(&space, "*", Some("f")).unwrap_err().contains("is not a folder"));
        assert!(
            run(&space, "a[", None).is_ok_and(|text| text.starts_with("No file")) || run(&space, "a[", None).is_err()
        );
    }
}
