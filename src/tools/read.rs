//! Read: a part of a text file with its line numbers, or an image. A text streams by; no size is too large.

use super::limit::{count, head, show_bytes};
use super::open::open;
use super::picture::{Format, MAX_FILE, picture};
use super::schema::{Arguments, Declaration, Field, Kind, Need};
use super::workspace::{CANCELLED, Shown, Workspace};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use tokio_util::sync::CancellationToken;

/// How many lines one call shows unless it says otherwise.
const LINES: usize = 2_000;
/// How many bytes one call shows: about 15,000 tokens.
const BYTES: usize = 50_000;
/// How many characters of a line are shown.
const LINE_CHARS: usize = 2_000;
/// How many bytes of a line are kept: enough for so many characters.
const LINE_BYTES: usize = LINE_CHARS * 4;
/// How far the rest of a file is read only to say how many lines it has, in bytes.
const COUNT_AHEAD: u64 = 64 << 20;

/// The declaration.
pub(super) const READ: Declaration = Declaration {
    name: "Read",
    description: "Reads a text file, or shows a PNG, JPEG, GIF or WebP image. Each line comes as its number, a tab, its text. Shows 2000 lines and 50 KB at most from \
                  `offset` on and says where to go on; cuts lines after 2000 characters. Also reads the whole outputs that Bash names.",
    fields: &[
        Field {
            name: "file_path",
            kind: Kind::Text,
            need: Need::Required,
            about: "Absolute, or relative to the root of the worktree.",
        },
        Field { name: "offset", kind: Kind::Integer, need: Need::Optional, about: "First line, from 1." },
        Field { name: "limit", kind: Kind::Integer, need: Need::Optional, about: "Number of lines. Default 2000." },
    ],
};

/// Reads.
pub(super) fn read(space: &Workspace, input: &Arguments, cancel: &CancellationToken) -> Result<Shown, String> {
    let place = space.readable(input.required("file_path"))?;
    let (file, meta) = open(&space.root, &place)?;
    let fail = |error: std::io::Error| {
        if cancel.is_cancelled() { CANCELLED.to_owned() } else { format!("Cannot read `{}`: {error}.", place.shown) }
    };
    let mut lines = Lines { reader: BufReader::with_capacity(1 << 16, file), cancel };
    let sample = lines.reader.fill_buf().map_err(fail)?;
    if let Some(what) = binary(sample) {
        if let Some(format) = Format::of(sample) {
            let mut bytes = Vec::new();
            lines.reader.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
            return picture(&place.shown, format, &bytes, meta.len());
        }
        return Err(format!(
            "`{}` is {what}, {}. Read shows text and images only.",
            place.shown,
            show_bytes(meta.len())
        ));
    }
    if sample.starts_with(b"\xef\xbb\xbf") {
        lines.reader.consume(3);
    }
    let first = input.size("offset").unwrap_or(1).max(1);
    let limit = input.size("limit").unwrap_or(LINES).max(1);
    let skipped = lines.skip(first - 1).map_err(fail)?;
    let page = Page::fill(&mut lines, first, limit).map_err(fail)?;
    if page.shown == 0 {
        let text = match skipped {
            0 => format!("(`{}` is empty: 0 lines.)", place.shown),
            _ => format!("(`{}` has {} only: nothing at offset {first}.)", place.shown, count(skipped as u64, "line")),
        };
        return Ok(text.into());
    }
    let rest = if page.ended {
        Some(0)
    } else if meta.len() <= COUNT_AHEAD {
        Some(lines.skip(usize::MAX).map_err(fail)?)
    } else {
        None
    };
    Ok(page.text(first, rest).into())
}

/// What is shown.
#[derive(Default)]
struct Page {
    text: String,
    shown: usize,
    ended: bool,
    crlf: bool,
    lossy: bool,
}

impl Page {
    fn fill(lines: &mut Lines<'_>, first: usize, limit: usize) -> std::io::Result<Self> {
        let mut page = Self::default();
        let mut line = Vec::new();
        while page.shown < limit && page.text.len() < BYTES {
            line.clear();
            let Some(length) = lines.next(&mut line)? else {
                page.ended = true;
                break;
            };
            page.push(first.saturating_add(page.shown), &line, length);
            page.shown += 1;
        }
        // The last line shown may be the last of all.
        page.ended = page.ended || lines.reader.fill_buf()?.is_empty();
        Ok(page)
    }

    fn push(&mut self, number: usize, line: &[u8], length: u64) {
        let whole = line.len() as u64 == length;
        let line = match line.strip_suffix(b"\r") {
            Some(line) if whole => {
                self.crlf = true;
                line
            }
            Some(_) | None => line,
        };
        let text = String::from_utf8_lossy(line);
        // A cut inside of a character makes one replacement character, far behind the last one shown.
        self.lossy |= whole && matches!(text, std::borrow::Cow::Owned(_)) || text.contains('\0');
        let text = text.replace('\0', "\u{fffd}");
        let end = text.char_indices().nth(LINE_CHARS).map_or(text.len(), |(at, _)| at);
        self.text.push_str(&format!("{number:>6}\t{}", head(&text, end)));
        if end < text.len() || !whole {
            self.text.push_str(&format!(" [... line cut: {} in all]", show_bytes(length)));
        }
        self.text.push('\n');
    }

    fn text(mut self, first: usize, rest: Option<usize>) -> String {
        let last = first + self.shown - 1;
        let next = last + 1;
        match rest {
            Some(0) => {}
            Some(rest) => {
                self.text.push_str(&format!("[lines {first}-{last} of {}; go on with offset {next}]\n", last + rest));
            }
            None => self.text.push_str(&format!("[lines {first}-{last}; more follow: go on with offset {next}]\n")),
        }
        if self.crlf {
            self.text.push_str("[lines end with CRLF; Edit matches plain line ends too and keeps the file's]\n");
        }
        if self.lossy {
            self.text.push_str("[\u{fffd} stands for bytes that are no text; leave them out of an Edit]\n");
        }
        self.text
    }
}

/// The lines of a file, one by one in bounded memory.
struct Lines<'a> {
    reader: BufReader<File>,
    cancel: &'a CancellationToken,
}

impl Lines<'_> {
    /// The next line without its `\n`: its start is put into `line`, its whole length is returned. `None` at the end.
    fn next(&mut self, line: &mut Vec<u8>) -> std::io::Result<Option<u64>> {
        let mut length = 0;
        let mut any = false;
        loop {
            let buffer = self.buffer()?;
            if buffer.is_empty() {
                return Ok(any.then_some(length));
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            length += part.len() as u64;
            line.extend_from_slice(&part[..part.len().min(LINE_BYTES.saturating_sub(line.len()))]);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }

    /// Skips so many lines; says how many there were.
    fn skip(&mut self, wanted: usize) -> std::io::Result<usize> {
        let mut skipped = 0;
        let mut open = false;
        while skipped < wanted {
            let buffer = self.buffer()?;
            if buffer.is_empty() {
                return Ok(skipped + usize::from(open));
            }
            let mut used = 0;
            while skipped < wanted && used < buffer.len() {
                let rest = &buffer[used..];
                let end = rest.iter().position(|byte| *byte == b'\n');
                open = end.is_none();
                skipped += usize::from(!open);
                used += end.map_or(rest.len(), |end| end + 1);
            }
            self.reader.consume(used);
        }
        Ok(skipped)
    }

    fn buffer(&mut self) -> std::io::Result<&[u8]> {
        if self.cancel.is_cancelled() {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        self.reader.fill_buf()
    }
}

/// What a file is whose start does not look like text; `None` for text.
fn binary(start: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 6] = [
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"\x7fELF", "an ELF program"),
        (b"\xff\xfe", "UTF-16 text (`iconv -f UTF-16` in Bash makes it readable)"),
        (b"\xfe\xff", "UTF-16 text (`iconv -f UTF-16` in Bash makes it readable)"),
    ];
    let start = &start[..start.len().min(8_192)];
    let odd: usize = start
        .utf8_chunks()
        .map(|chunk| {
            let control = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\x0c' | '\x1b' | '\x08');
            chunk.invalid().len() + chunk.valid().chars().filter(control).count()
        })
        .sum();
    // Text in an old 8-bit encoding has odd bytes too: about one in six in Western languages.
    if !start.contains(&0) && odd * 10 <= start.len() * 3 {
        return None;
    }
    KINDS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, kind)| *kind).or(Some("a binary file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::picture::tests::a_png;
    use crate::tools::workspace::Answer;
    use crate::tools::workspace::tests::{arguments, workspace};
    use serde_json::{Value, json};

    fn run(space: &Workspace, input: Value) -> Answer {
        read(space, &arguments(&READ, input), &CancellationToken::new()).map(|shown| shown.text)
    }

    /// Reads a file with this content from a line on.
    fn page(content: impl AsRef<[u8]>, offset: i64, limit: i64) -> Answer {
        let (dir, space) = workspace(&[]);
        std::fs::write(dir.path().join("f"), content).unwrap();
        run(&space, json!({ "file_path": "f", "offset": offset, "limit": limit }))
    }

    #[test]
    fn lines_are_numbered() {
        assert_eq!(page("a\n\n  b", 1, 10).unwrap(), "     1\ta\n     2\t\n     3\t  b\n");
        assert_eq!(page("a\nb\nc\n", 2, 10).unwrap(), "     2\tb\n     3\tc\n");
        assert_eq!(page("a\n", 0, 0).unwrap(), "     1\ta\n");
    }

    #[test]
    fn a_page_says_where_to_go_on() {
        assert_eq!(page("a\nb\nc\nd", 2, 2).unwrap(), "     2\tb\n     3\tc\n[lines 2-3 of 4; go on with offset 4]\n");
        assert_eq!(page("a\nb\nc\nd", 2, 3).unwrap(), "     2\tb\n     3\tc\n     4\td\n");
        let many = "0123456789\n".repeat(5_000);
        assert!(page(&many, 1, 2_000).unwrap().ends_with("[lines 1-2000 of 5000; go on with offset 2001]\n"));
        let text = page(&many, 1, i64::MAX).unwrap();
        assert!(text.len() < BYTES + 200, "{}", text.len());
        assert!(text.contains(" of 5000; go on with offset "));
    }

    #[test]
    fn b152_empty_files_and_offsets_past_the_end_are_said() {
        assert_eq!(page("", 1, 10).unwrap(), "(`f` is empty: 0 lines.)");
        assert_eq!(page("a\nb\nc", 9, 10).unwrap(), "(`f` has 3 lines only: nothing at offset 9.)");
        assert_eq!(page("a\n", i64::MAX, 10).unwrap(), "(`f` has 1 line only: nothing at offset 9223372036854775807.)");
    }

    #[test]
    fn b152_a_huge_line_is_cut() {
        let text = page("x".repeat(3_000_000) + "\nnext\n", 1, 10).unwrap();
        assert!(text.len() < 2_200, "{}", text.len());
        assert!(text.contains("x [... line cut: 3.0 MB in all]\n     2\tnext\n"), "{text}");
        let text = page("é".repeat(2_001), 1, 10).unwrap();
        assert_eq!(text.matches('é').count(), 2_000);
        assert!(!page("é".repeat(2_000), 1, 10).unwrap().contains("cut"));
        // The cut at the reader falls inside of a character.
        assert!(!page(format!("a{}", "😀".repeat(9_000)), 1, 10).unwrap().contains('\u{fffd}'));
    }

    #[test]
    fn crlf_and_a_byte_order_mark_are_not_part_of_the_lines() {
        let text = page("\u{feff}a\r\nb\r\n", 1, 10).unwrap();
        assert!(text.starts_with("     1\ta\n     2\tb\n[lines end with CRLF"), "{text}");
    }

    #[test]
    fn bytes_that_are_no_text_are_marked() {
        let text = page(b"caf\xe9 au lait\nb\n", 1, 10).unwrap();
        assert!(text.starts_with("     1\tcaf\u{fffd} au lait\n     2\tb\n[\u{fffd} stands for"), "{text}");
    }

    #[test]
    fn binary_files_are_recognised() {
        let error = page(b"abc\0def", 1, 1).unwrap_err();
        assert_eq!(error, "`f` is a binary file, 7 bytes. Read shows text and images only.");
        assert_eq!(
            page(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 1, 1).unwrap_err(),
            "`f` is a PNG image, 16 bytes, but it is broken and cannot be shown: it ends too early."
        );
        assert!(page("GIF89a is a format", 1, 1).unwrap().contains("GIF89a is a format"));
        assert!(page([0xb5; 100], 1, 1).unwrap_err().contains("a binary file"));
        assert!(page(b"\xff\xfea\0b\0", 1, 1).unwrap_err().contains("UTF-16"));
    }

    #[test]
    fn images_are_shown_whatever_their_name() {
        let (dir, space) = workspace(&[]);
        std::fs::write(dir.path().join("shot.txt"), a_png(640, 480, 1_000)).unwrap();
        let input = arguments(&READ, json!({ "file_path": "shot.txt", "offset": 3 }));
        let shown = read(&space, &input, &CancellationToken::new()).unwrap();
        assert_eq!(shown.text, "`shot.txt` is a PNG image, 640 x 480 pixels, 1.1 KB.");
        assert_eq!((shown.media.len(), shown.media[0].media_type), (1, "image/png"));
        std::fs::write(dir.path().join("big.png"), a_png(640, 480, 30_000_000)).unwrap();
        let error = run(&space, json!({ "file_path": "big.png" })).unwrap_err();
        assert!(error.starts_with("`big.png` is a PNG image, 640 x 480 pixels, 30.0 MB: too large"), "{error}");
    }

    #[test]
    fn a_cancelled_read_ends() {
        let (_dir, space) = workspace(&[("f", "a")]);
        let cancel = CancellationToken::new();
        cancel.cancel();
        let input = arguments(&READ, json!({ "file_path": "f" }));
        assert_eq!(read(&space, &input, &cancel).unwrap_err(), CANCELLED);
    }
}
