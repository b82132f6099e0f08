//! Searching files for a pattern: ripgrep's matcher and searcher, on several threads, with results in a fixed order.

use super::limit::{head, tail};
use super::open::open;
use super::path::{Place, Root};
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// How many bytes of a line are shown: minified files and data in one line would fill the context.
pub(super) const LINE: usize = 500;
/// How many bytes before the match are shown where a line is cut.
const BEFORE: usize = 100;
/// The most memory for one line, or for one file in multiline mode, in bytes.
const HEAP: usize = 64 << 20;
/// The most threads for one search: other jobs want to run too.
const THREADS: usize = 8;

/// What is looked for and how.
#[derive(Debug)]
pub(super) struct Search {
    /// The compiled pattern.
    pub(super) matcher: RegexMatcher,
    /// What is wanted of each file.
    pub(super) mode: Mode,
    /// Whether a match may span lines.
    pub(super) multiline: bool,
    /// How many entries are wanted: lines of output, or files. What comes behind them is only counted.
    pub(super) wanted: usize,
}

/// What is wanted of each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Whether it matches.
    Files,
    /// How many lines match.
    Count,
    /// The lines, as the line of output says.
    Content(Shape),
}

/// What a line of output looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// With its number.
    pub(super) numbers: bool,
    /// The matched parts alone.
    pub(super) only_matching: bool,
    /// Lines of context before a match.
    pub(super) before: usize,
    /// Lines of context behind a match.
    pub(super) after: usize,
}

/// What was found in one file.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// The file.
    pub(super) path: PathBuf,
    /// The number of lines that match, or 1 where only that was asked.
    pub(super) matches: u64,
    /// Lines of output.
    pub(super) lines: Vec<String>,
}

/// What was found in all.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// The files with a match, in the order in which they were given.
    pub(super) hits: Vec<Hits>,
    /// How many files are binary.
    pub(super) binary: usize,
    /// How many files could not be read.
    pub(super) unreadable: usize,
}

/// Compiles a pattern.
///
/// # Errors
/// The regex engine's words.
pub(super) fn matcher(pattern: &str, insensitive: bool, multiline: bool) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).case_insensitive(insensitive);
    if multiline {
        builder.dot_matches_new_line(true);
    } else {
        // `$` also matches before CRLF.
        builder.crlf(true);
    }
    builder.build(pattern)
}

impl Search {
    /// Searches files. The results do not depend on which thread was faster.
    pub(super) fn run(&self, root: &Root, files: &[PathBuf], cancel: &CancellationToken) -> Results {
        let next = AtomicUsize::new(0);
        let kept = AtomicUsize::new(0);
        let all = Mutex::new((Vec::new(), Results::default()));
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS).min(files.len());
        let work = || {
            let mut searcher = self.searcher();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(path) = files.get(index).filter(|_| !cancel.is_cancelled()) else { break };
                // Files are handed out in order. When enough is kept, it is in files before this one.
                let space = if kept.load(Ordering::Relaxed) < self.wanted { self.wanted } else { 0 };
                let found = self.file(&mut searcher, root, path, space);
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                match found {
                    Found::Binary => all.1.binary += 1,
                    Found::Unreadable => all.1.unreadable += 1,
                    Found::Hits(hits) if hits.matches == 0 => {}
                    Found::Hits(hits) => {
                        kept.fetch_add(hits.lines.len(), Ordering::Relaxed);
                        all.0.push((index, hits));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let (mut hits, mut results) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        hits.sort_unstable_by_key(|(index, _)| *index);
        results.hits = hits.into_iter().map(|(_, hits)| hits).collect();
        results
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .binary_detection(BinaryDetection::quit(0))
            // A mapped file that another process cuts would kill us.
            .memory_map(MmapChoice::never())
            .heap_limit(Some(HEAP))
            .multi_line(self.multiline);
        if !self.multiline {
            builder.line_terminator(LineTerminator::crlf());
        }
        if let Mode::Content(shape) = self.mode {
            builder.before_context(shape.before).after_context(shape.after);
        }
        builder.build()
    }

    fn file(&self, searcher: &mut Searcher, root: &Root, path: &Path, space: usize) -> Found {
        let place = Place { real: path.to_owned(), shown: root.show(path) };
        let Ok((file, _)) = open(root, &place) else { return Found::Unreadable };
        let hits = Hits { path: path.to_owned(), ..Hits::default() };
        let mut collector = Collector { search: self, name: place.shown, space, hits, binary: false };
        match searcher.search_file(&self.matcher, &file, &mut collector) {
            Err(_) => Found::Unreadable,
            Ok(()) if collector.binary => Found::Binary,
            Ok(()) => Found::Hits(collector.hits),
        }
    }
}

enum Found {
    Binary,
    Unreadable,
    Hits(Hits),
}

/// Takes in what the searcher finds in one file.
struct Collector<'a> {
    search: &'a Search,
    name: String,
    /// How many lines of output are kept.
    space: usize,
    hits: Hits,
    binary: bool,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let shape = match self.search.mode {
            Mode::Files => {
                self.hits.matches = 1;
                return Ok(false);
            }
            Mode::Count => {
                self.hits.matches += found.lines().count() as u64;
                return Ok(true);
            }
            Mode::Content(shape) => shape,
        };
        let first = found.line_number().unwrap_or(1);
        if shape.only_matching {
            self.hits.matches += found.lines().count() as u64;
            self.parts(shape, found.bytes(), first)?;
        } else {
            for (number, line) in (first..).zip(found.lines()) {
                self.hits.matches += 1;
                if self.hits.lines.len() < self.space {
                    let start = self.search.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
                    self.push(shape, ':', number, line, start);
                }
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if let Mode::Content(shape) = self.search.mode
            && self.hits.lines.len() < self.space
            && !shape.only_matching
        {
            self.push(shape, '-', context.line_number().unwrap_or(1), context.bytes(), 0);
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.hits.lines.len() < self.space {
            self.hits.lines.push("--".into());
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

impl Collector<'_> {
    /// The matched parts of lines, each for itself.
    fn parts(&mut self, shape: Shape, lines: &[u8], first: u64) -> io::Result<()> {
        let mut number = first;
        let mut counted = 0;
        let mut parts = Vec::new();
        let space = self.space.saturating_sub(self.hits.lines.len());
        self.search
            .matcher
            .find_iter(lines, |found| {
                parts.push(found);
                parts.len() < space
            })
            .map_err(io::Error::other)?;
        for part in parts.into_iter().take(space).filter(|part| !part.is_empty()) {
            number += memchr::memchr_iter(b'\n', &lines[counted..part.start()]).count() as u64;
            counted = part.start();
            self.push(shape, ':', number, &lines[part], 0);
        }
        Ok(())
    }

    fn push(&mut self, shape: Shape, sign: char, number: u64, line: &[u8], start: usize) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = window(line, start);
        let name = &self.name;
        self.hits.lines.push(if shape.numbers {
            format!("{name}{sign}{number}{sign}{line}")
        } else {
            format!("{name}{sign}{line}")
        });
    }
}

/// The part of a line around a match, the whole line where it is short enough.
fn window(line: &[u8], start: usize) -> String {
    if line.len() <= LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let from = start.saturating_sub(BEFORE).min(line.len() - LINE);
    let to = from + LINE;
    let text = String::from_utf8_lossy(&line[from..to]);
    // A character that is cut in two becomes up to three replacement characters: they go.
    let text = text.trim_matches('\u{fffd}');
    let text = tail(head(text, LINE), LINE);
    let (before, behind) = (from, line.len() - to);
    let before = if before > 0 { format!("[{before} bytes] ") } else { String::new() };
    let behind = if behind > 0 { format!(" [{behind} bytes]") } else { String::new() };
    format!("{before}{text}{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let line = format!("{}needle{}", "a".repeat(10_000), "b".repeat(10_000));
        let shown = window(line.as_bytes(), 10_000);
        assert!(shown.starts_with("[9900 bytes] aaa") && shown.ends_with("bbb [9606 bytes]"), "{shown}");
        assert!(shown.contains("needle") && shown.len() < LINE + 40);
        assert_eq!(window(line.as_bytes(), 0).find("[19506 bytes]"), Some(LINE + 1));
        assert!(window(line.as_bytes(), 20_005).ends_with('b'));
    }

    #[test]
    fn b040_a_line_is_cut_between_characters() {
        for shift in 0..4 {
            let line = format!("{}{}", "x".repeat(shift), "😀".repeat(2_000));
            let shown = window(line.as_bytes(), 4_000 + shift);
            assert!(!shown.contains('\u{fffd}') && shown.contains("😀"), "{shown}");
        }
    }
}
