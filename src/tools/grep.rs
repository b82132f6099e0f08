//! Grep: files by content.

use super::limit::{count, head, one_line};
use super::open::{Found, look, missing};
use super::path::Place;
use super::schema::{Arguments, Declaration, Field, Kind, Need, nearest};
use super::search::{Hits, Mode, Results, Search, Shape, matcher};
use super::walk::{Rules, Walk};
use super::workspace::{Answer, CANCELLED, Workspace};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::types::{Types, TypesBuilder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// How many lines or files one call shows unless it says otherwise.
const HEAD: usize = 250;
/// How many bytes one call shows: about 8,000 tokens.
const BYTES: usize = 30_000;
/// The furthest entry that `offset` reaches: all before it are held for a moment.
const MAX_OFFSET: usize = 100_000;
/// The most lines of context.
const MAX_CONTEXT: usize = 100;
/// How many files are searched only to say that ignored ones would match.
const HINT_FILES: u64 = 20_000;

/// The declaration.
pub(super) const GREP: Declaration = Declaration {
    name: "Grep",
    description: "Searches file contents by regular expression (ripgrep's syntax: no look-around, no backreferences; escape literal braces). \
                  Hidden files are searched; binary files never; ignored files (.gitignore) only when `path` leads into them. \
                  Shows 30 KB at most and 500 bytes of a line.",
    fields: &[
        Field { name: "pattern", kind: Kind::Text, need: Need::Required, about: "" },
        Field {
            name: "path",
            kind: Kind::Text,
            need: Need::Optional,
            about: "File or folder. Default: the root of the worktree.",
        },
        Field {
            name: "glob",
            kind: Kind::Text,
            need: Need::Optional,
            about: "Only files that match, such as `*.ts` or `src/**/*.{js,css}`; `!` in front leaves out.",
        },
        Field {
            name: "type",
            kind: Kind::Text,
            need: Need::Optional,
            about: "Only files of this type: rust, py, js, go, ...",
        },
        Field {
            name: "output_mode",
            kind: Kind::Choice(&["content", "files_with_matches", "count"]),
            need: Need::Optional,
            about: "Default files_with_matches.",
        },
        Field { name: "-i", kind: Kind::Flag, need: Need::Optional, about: "Ignore case." },
        Field {
            name: "-n",
            kind: Kind::Flag,
            need: Need::Optional,
            about: "Line numbers in content mode. Default true.",
        },
        Field {
            name: "-o",
            kind: Kind::Flag,
            need: Need::Optional,
            about: "Only the matching parts, in content mode.",
        },
        Field {
            name: "-A",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Lines behind each match, in content mode.",
        },
        Field { name: "-B", kind: Kind::Integer, need: Need::Optional, about: "Lines before." },
        Field { name: "-C", kind: Kind::Integer, need: Need::Optional, about: "Lines before and behind." },
        Field { name: "context", kind: Kind::Integer, need: Need::Optional, about: "The same as -C." },
        Field {
            name: "head_limit",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Lines or files to show. Default 250; 0 for all that fit.",
        },
        Field { name: "offset", kind: Kind::Integer, need: Need::Optional, about: "Lines or files to skip first." },
        Field {
            name: "multiline",
            kind: Kind::Flag,
            need: Need::Optional,
            about: "Matches may span lines, and `.` matches a line end.",
        },
    ],
};

/// Searches.
pub(super) fn grep(space: &Workspace, input: &Arguments, cancel: &CancellationToken) -> Answer {
    let pattern = input.required("pattern");
    let place = space.readable(input.text("path").unwrap_or("."))?;
    let filter = Filter::new(space, &place, input)?;
    let page = Page::new(input);
    let search = search(pattern, input, page)?;
    let scope = Scope::find(space, &place, &filter, cancel)?;
    let results = search.run(&space.root, &scope.files, cancel);
    let hint = if results.hits.is_empty() { scope.hint(&search, &filter, cancel) } else { String::new() };
    if cancel.is_cancelled() {
        return Err(CANCELLED.into());
    }
    let mut text = if results.hits.is_empty() {
        let files = count(scope.files.len() as u64, "file");
        format!("No match for `{}` in {files}.{hint}\n", one_line(pattern))
    } else {
        page.show(space, search.mode, &results)
    };
    if results.binary > 0 {
        let files = count(results.binary as u64, "binary file");
        text.push_str(&format!("[{files} not searched; `grep -a` in Bash does]\n"));
    }
    if results.unreadable > 0 {
        text.push_str(&format!("[{} could not be read]\n", count(results.unreadable as u64, "file")));
    }
    if scope.ignored && !results.hits.is_empty() {
        text.push_str("[these files are ignored by git]\n");
    }
    Ok(text)
}

fn search(pattern: &str, input: &Arguments, page: Page) -> Result<Search, String> {
    if pattern.is_empty() {
        return Err("The pattern is empty: it would match every line.".into());
    }
    let multiline = input.flag("multiline") == Some(true);
    let matcher = matcher(pattern, input.flag("-i") == Some(true), multiline).map_err(|error| {
        let error = error.to_string();
        let advice = if error.contains("look-around") || error.contains("backreferences") {
            "Search for a simpler pattern, or use `grep -P` in Bash.".into()
        } else if error.contains("not allowed") {
            "To match across lines set `multiline` to true.".into()
        } else {
            format!("To find the text itself write `{}`.", one_line(&literal(pattern)))
        };
        format!("The pattern is no regular expression. {}\n{advice}", error.trim())
    })?;
    let both = input.size("-C").or_else(|| input.size("context")).unwrap_or(0);
    let context = |name: &str| input.size(name).unwrap_or(both).min(MAX_CONTEXT);
    let mode = match input.text("output_mode") {
        Some("content") => Mode::Content(Shape {
            numbers: input.flag("-n") != Some(false),
            only_matching: input.flag("-o") == Some(true),
            before: context("-B"),
            after: context("-A"),
        }),
        Some("count") => Mode::Count,
        Some(_) | None => Mode::Files,
    };
    // One more than is shown tells whether there is more.
    Ok(Search { matcher, mode, multiline, wanted: page.offset + page.limit + 1 })
}

/// A pattern that matches this text.
fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Which part of the results is shown.
#[derive(Clone, Copy)]
struct Page {
    offset: usize,
    limit: usize,
}

impl Page {
    fn new(input: &Arguments) -> Self {
        // A line takes at least one byte and its end, so that more can never be shown.
        const ALL: usize = BYTES / 2;
        let limit = match input.size("head_limit") {
            None => HEAD,
            Some(0) => ALL,
            Some(limit) => limit.min(ALL),
        };
        Self { offset: input.size("offset").unwrap_or(0).min(MAX_OFFSET), limit }
    }

    fn show(self, space: &Workspace, mode: Mode, results: &Results) -> String {
        let files = count(results.hits.len() as u64, "file");
        let matches: u64 = results.hits.iter().map(|hits| hits.matches).sum();
        let name = |hits: &Hits| space.root.show(&hits.path);
        let (entries, total, noun): (Vec<String>, _, _) = match mode {
            Mode::Files => (results.hits.iter().map(name).collect(), files, "files"),
            Mode::Count => {
                let entries = results.hits.iter().map(|hits| format!("{}:{}", name(hits), hits.matches));
                (entries.collect(), format!("{} in {files}", count(matches, "matching line")), "files")
            }
            Mode::Content(shape) => {
                let context = shape.before + shape.after > 0 && !shape.only_matching;
                let mut entries = Vec::new();
                for hits in &results.hits {
                    if context && !entries.is_empty() && !hits.lines.is_empty() {
                        entries.push("--".into());
                    }
                    entries.extend(hits.lines.iter().cloned());
                }
                (entries, format!("{} in {files}", count(matches, "matching line")), "lines")
            }
        };
        let mut text = String::new();
        let mut shown = 0;
        for entry in entries.iter().skip(self.offset).take(self.limit) {
            if text.len() + entry.len() > BYTES {
                if shown > 0 {
                    break;
                }
                text.push_str(head(entry, BYTES));
            } else {
                text.push_str(entry);
            }
            text.push('\n');
            shown += 1;
        }
        let end = self.offset + shown;
        if shown == 0 {
            text.push_str(&format!("[nothing at offset {}: {total}]\n", self.offset));
        } else if end < entries.len() {
            text.push_str(&format!(
                "[{noun} {}-{end}; {total} in all: go on with offset {end}, or narrow the search]\n",
                self.offset + 1
            ));
        } else if mode == Mode::Count || self.offset > 0 {
            text.push_str(&format!("[{total}]\n"));
        }
        text
    }
}

/// What files are searched, by `glob` and `type`.
struct Filter {
    root: PathBuf,
    base: PathBuf,
    only: Option<GlobSet>,
    not: GlobSet,
    types: Option<Types>,
}

impl Filter {
    fn new(space: &Workspace, place: &Place, input: &Arguments) -> Result<Self, String> {
        let (mut only, mut not) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let mut any = false;
        for given in split(input.text("glob").unwrap_or_default()) {
            let (set, pattern) = match given.strip_prefix('!') {
                Some(pattern) => (&mut not, pattern),
                None => (&mut only, given),
            };
            any |= !given.starts_with('!');
            let root = space.root.path().to_string_lossy();
            let pattern = pattern.strip_prefix(root.as_ref()).unwrap_or(pattern);
            let pattern = pattern.strip_prefix("./").or_else(|| pattern.strip_prefix('/')).unwrap_or(pattern);
            let folder = pattern.ends_with('/');
            let pattern = pattern.trim_end_matches('/');
            // As in .gitignore: without a slash it is the name of a file in any folder.
            let depth = if pattern.contains('/') { "" } else { "**/" };
            let below = if folder { "/**" } else { "" };
            let glob = GlobBuilder::new(&format!("{depth}{pattern}{below}")).literal_separator(true).build();
            set.add(glob.map_err(|error| format!("glob: `{}` is no glob: {}.", one_line(given), error.kind()))?);
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|error| format!("glob: {}.", error.kind()));
        let types = input.text("type").map(types).transpose()?;
        Ok(Self {
            root: space.root.path().to_owned(),
            base: place.real.clone(),
            only: any.then(|| build(only)).transpose()?,
            not: build(not)?,
            types,
        })
    }

    fn takes(&self, path: &Path) -> bool {
        // A glob with a slash is relative to the worktree or to the folder that is searched: models mean either.
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        let below = path.strip_prefix(&self.base).unwrap_or(inside);
        let left_out =
            |path: &Path| path.ancestors().any(|part| !part.as_os_str().is_empty() && self.not.is_match(part));
        self.only.as_ref().is_none_or(|only| only.is_match(inside) || only.is_match(below))
            && !left_out(inside)
            && !left_out(below)
            && self.types.as_ref().is_none_or(|types| types.matched(path, false).is_whitelist())
    }
}

/// Several globs may be given with commas between them, as long as these are not in braces.
fn split(globs: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = globs.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|glob| !glob.is_empty())
}

fn types(name: &str) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| {
        let known = builder.definitions();
        let known: Vec<&str> = known.iter().map(ignore::types::FileTypeDef::name).collect();
        let hint = nearest(name, &known).map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
        format!("There is no file type `{}`.{hint} Or use `glob`, such as `*.{}`.", one_line(name), one_line(name))
    })
}

/// The files that are searched.
struct Scope<'a> {
    space: &'a Workspace,
    place: &'a Place,
    files: Vec<PathBuf>,
    /// They are ignored ones, searched since their folder was named.
    ignored: bool,
    /// Files that were left out by `glob` and `type`.
    filtered: u64,
}

impl<'a> Scope<'a> {
    fn find(
        space: &'a Workspace,
        place: &'a Place,
        filter: &Filter,
        cancel: &CancellationToken,
    ) -> Result<Self, String> {
        let mut scope = Self { space, place, files: Vec::new(), ignored: false, filtered: 0 };
        if !place.real.is_dir() {
            return match look(place)? {
                // A file that is named is searched, whatever the filters say.
                Found::File(_) => Ok(Self { files: vec![place.real.clone()], ..scope }),
                Found::Nothing => Err(missing(&space.root, place)),
            };
        }
        let mut seen = scope.walk(Rules::Respected, u64::MAX, filter, cancel);
        if seen == 0 && place.real != space.root.path() {
            // A folder of which all is ignored was named on purpose.
            scope.ignored = place.real.starts_with(space.root.path());
            seen = scope.walk(Rules::Ignored, u64::MAX, filter, cancel);
        }
        scope.filtered = seen - scope.files.len() as u64;
        Ok(scope)
    }

    /// Takes the files of a walk; says how many regular files there were.
    fn walk(&mut self, rules: Rules, limit: u64, filter: &Filter, cancel: &CancellationToken) -> u64 {
        let walk = Walk { root: &self.space.root, base: &self.place.real, rules, limit, cancel };
        let walked = walk.files(|entry| {
            let file = entry.file_type().is_some_and(|kind| kind.is_file());
            (file && filter.takes(entry.path())).then(|| entry.path().to_owned())
        });
        self.files = walked.taken;
        self.files.sort_unstable();
        walked.seen
    }

    /// What is said when nothing was found: whether that may be due to the ignore rules or the filters.
    fn hint(&self, search: &Search, filter: &Filter, cancel: &CancellationToken) -> String {
        let mut text = String::new();
        if self.files.is_empty() && self.filtered > 0 {
            text.push_str(&format!(" `glob` and `type` leave out all {}.", count(self.filtered, "file")));
        }
        if self.ignored || !self.place.real.is_dir() {
            return text;
        }
        let mut rest = Self { files: Vec::new(), ..*self };
        rest.walk(Rules::Ignored, HINT_FILES, filter, cancel);
        let searched: BTreeSet<&PathBuf> = self.files.iter().collect();
        rest.files.retain(|file| !searched.contains(file));
        if rest.files.is_empty() {
            return text;
        }
        let quick = Search { mode: Mode::Files, wanted: 0, matcher: search.matcher.clone(), ..*search };
        let hits = quick.run(&self.space.root, &rest.files, cancel).hits;
        let ignored = count(rest.files.len() as u64, "ignored file");
        if hits.is_empty() {
            return text;
        }
        let names: Vec<String> =
            hits.iter().take(3).map(|hits| format!("`{}`", self.space.root.show(&hits.path))).collect();
        text.push_str(&format!(
            " But {} of {ignored} would match, such as {}: name the folder in `path` to search it.",
            hits.len(),
            names.join(", ")
        ));
        text
    }
}

#[cfg(test)]
mod tests;
