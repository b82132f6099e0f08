//! Replacing text in the bytes of a file: exact, unique unless told otherwise, and nothing else is touched.
//!
//! A file without CRLF is matched and written byte for byte. In a file with CRLF the model, which is shown plain line ends, may
//! write them: then they match either kind, and line ends that are inserted take the kind of the line before.
//! A byte order mark is kept and belongs to no match.

use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;

/// The byte order mark of UTF-8.
const BOM: &str = "\u{feff}";
/// How many places are counted at most.
const MANY: usize = 1_000;

/// How many places are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Exactly one.
    Unique,
    /// All.
    All,
}

/// A file with the text replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Substituted {
    /// The whole new content.
    pub(super) content: Vec<u8>,
    /// Where in it the new text is, in order.
    pub(super) places: Vec<Range<usize>>,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The text is not there.
    Nowhere,
    /// It would be there if its line ends were LF, as all of the file are.
    NoCrlf,
    /// It is there more than once: the offsets, counted up to a thousand.
    Several(Vec<usize>),
}

/// Replaces `old`, which is not empty, by `new`.
pub(super) fn substitute(content: &[u8], old: &str, new: &str, scope: Scope) -> Result<Substituted, Miss> {
    let (start, old, new) = if content.starts_with(BOM.as_bytes()) {
        match old.strip_prefix(BOM) {
            Some(rest) => (BOM.len(), rest, new.strip_prefix(BOM).unwrap_or(new)),
            None => (BOM.len(), old, new),
        }
    } else {
        (0, old, new)
    };
    if old.is_empty() {
        return Err(Miss::Nowhere);
    }
    let text = Text::new(&content[start..]);
    let knows_crlf = old.contains("\r\n");
    if text.returns.is_empty() || knows_crlf {
        let exact = find(text.raw, old.as_bytes(), scope);
        if !exact.is_empty() {
            unique(&exact, scope, |at| start + at)?;
            let ranges = exact.iter().map(|at| (*at..at + old.len(), Cow::Borrowed(new.as_bytes())));
            return Ok(splice(content, start, ranges));
        }
        if text.returns.is_empty() {
            let other = knows_crlf && memmem::find(text.raw, old.replace("\r\n", "\n").as_bytes()).is_some();
            return Err(if other { Miss::NoCrlf } else { Miss::Nowhere });
        }
    }
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let found = find(&text.plain, old.as_bytes(), scope);
    if found.is_empty() {
        return Err(Miss::Nowhere);
    }
    unique(&found, scope, |at| start + text.raw_offset(at))?;
    // What old and new text have in common at both ends stays as it is in the file, each line end with it.
    let (head, tail) = common(old.as_bytes(), new.as_bytes());
    let middle = &new.as_bytes()[head..new.len() - tail];
    let ranges = found.iter().map(|at| {
        let (from, to) = (at + head, at + old.len() - tail);
        (text.raw_offset(from)..text.raw_offset(to), with_ends(middle, text.crlf_at(from)))
    });
    Ok(splice(content, start, ranges))
}

/// A text beside itself with plain line ends.
struct Text<'a> {
    raw: &'a [u8],
    plain: Cow<'a, [u8]>,
    /// The offsets, in `plain`, of the line ends that have a carriage return in `raw`; rising.
    returns: Vec<usize>,
}

impl<'a> Text<'a> {
    fn new(raw: &'a [u8]) -> Self {
        let mut returns = Vec::new();
        let mut plain = Vec::new();
        let mut done = 0;
        for at in memmem::find_iter(raw, b"\r\n") {
            plain.extend_from_slice(&raw[done..at]);
            returns.push(plain.len());
            done = at + 1;
        }
        if returns.is_empty() {
            return Self { raw, plain: Cow::Borrowed(raw), returns };
        }
        plain.extend_from_slice(&raw[done..]);
        Self { raw, plain: Cow::Owned(plain), returns }
    }

    /// Where an offset in `plain` is in `raw`; that of a line end is the offset of its carriage return.
    fn raw_offset(&self, plain: usize) -> usize {
        plain + self.returns.partition_point(|at| *at < plain)
    }

    /// Whether a line end that is put here is a CRLF: as the line before, or this one where it is the first.
    fn crlf_at(&self, plain: usize) -> bool {
        let end = memchr::memrchr(b'\n', &self.plain[..plain])
            .or_else(|| memchr::memchr(b'\n', &self.plain[plain..]).map(|at| plain + at));
        end.is_some_and(|end| self.returns.binary_search(&end).is_ok())
    }
}

/// The places of a text; overlapping ones too where it must be unique.
fn find(text: &[u8], wanted: &[u8], scope: Scope) -> Vec<usize> {
    let finder = memmem::Finder::new(wanted);
    match scope {
        Scope::All => finder.find_iter(text).collect(),
        Scope::Unique => {
            let mut found = Vec::new();
            let mut from = 0;
            while found.len() < MANY {
                let Some(at) = finder.find(&text[from..]) else { break };
                found.push(from + at);
                from += at + 1;
            }
            found
        }
    }
}

fn unique(found: &[usize], scope: Scope, offset: impl Fn(usize) -> usize) -> Result<(), Miss> {
    match scope {
        Scope::Unique if found.len() > 1 => Err(Miss::Several(found.iter().map(|at| offset(*at)).collect())),
        Scope::Unique | Scope::All => Ok(()),
    }
}

/// Puts new bytes for ranges, which count from `start` and rise.
fn splice<'a>(
    content: &[u8],
    start: usize,
    ranges: impl Iterator<Item = (Range<usize>, Cow<'a, [u8]>)>,
) -> Substituted {
    let mut out = Vec::with_capacity(content.len());
    let mut places = Vec::new();
    let mut done = 0;
    for (range, new) in ranges {
        out.extend_from_slice(&content[done..start + range.start]);
        let from = out.len();
        out.extend_from_slice(&new);
        places.push(from..out.len());
        done = start + range.end;
    }
    out.extend_from_slice(&content[done..]);
    Substituted { content: out, places }
}

/// How much two texts have in common at their starts, and behind that at their ends.
fn common(old: &[u8], new: &[u8]) -> (usize, usize) {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    (head, tail)
}

fn with_ends(text: &[u8], crlf: bool) -> Cow<'_, [u8]> {
    if !crlf || !text.contains(&b'\n') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(line);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(content: impl AsRef<[u8]>, old: &str, new: &str) -> Result<Vec<u8>, Miss> {
        substitute(content.as_ref(), old, new, Scope::Unique).map(|done| done.content)
    }

    #[test]
    fn b141_plain_line_ends_match_crlf_and_the_file_keeps_its_own() {
        let file = "a\r\nb\r\nc\r\nd\r\n";
        assert_eq!(one(file, "a\nb\nc", "a\nX\nY\nc").unwrap(), b"a\r\nX\r\nY\r\nc\r\nd\r\n");
        assert_eq!(one(file, "b", "b1\nb2").unwrap(), b"a\r\nb1\r\nb2\r\nc\r\nd\r\n");
        assert_eq!(one(file, "a", "0\na").unwrap(), b"0\r\na\r\nb\r\nc\r\nd\r\n");
        assert_eq!(one(file, "b\n", "").unwrap(), b"a\r\nc\r\nd\r\n");
        assert_eq!(one(file, "b\nc", "bc").unwrap(), b"a\r\nbc\r\nd\r\n");
        assert_eq!(one(file, "a\r\nb", "x\r\ny\r\nz").unwrap(), b"x\r\ny\r\nz\r\nc\r\nd\r\n");
        // Whoever writes the carriage return himself can also take it away.
        assert_eq!(one(file, "a\r\nb", "a\nb").unwrap(), b"a\nb\r\nc\r\nd\r\n");
    }

    #[test]
    fn mixed_files_keep_each_line_end() {
        let file = "a\r\nb\nc\r\nd\n";
        assert_eq!(one(file, "a\nb\nc\nd", "a\nb\nX\nd").unwrap(), b"a\r\nb\nX\r\nd\n");
        assert_eq!(one(file, "b\nc", "b\n1\nc").unwrap(), b"a\r\nb\n1\nc\r\nd\n");
        assert_eq!(one(file, "a\nb", "a\n1\nb").unwrap(), b"a\r\n1\r\nb\nc\r\nd\n");
    }

    #[test]
    fn a_file_with_plain_line_ends_is_written_exactly() {
        assert_eq!(one("a\nb\n", "a\n", "a\r\n").unwrap(), b"a\r\nb\n");
        assert_eq!(one("a\rb\n", "a\rb", "ab").unwrap(), b"ab\n");
        assert_eq!(one("a\nb\n", "a\r\nb", "x"), Err(Miss::NoCrlf));
    }

    #[test]
    fn b146_a_byte_order_mark_is_kept_and_belongs_to_no_match() {
        let file = "\u{feff}first\r\nsecond\r\n";
        let expected = "\u{feff}1st\r\nsecond\r\n".as_bytes();
        assert_eq!(one(file, "first\nsecond", "1st\nsecond").unwrap(), expected);
        assert_eq!(one(file, "\u{feff}first", "\u{feff}1st").unwrap(), expected);
        assert_eq!(one(file, "\u{feff}first", "1st").unwrap(), expected);
        assert_eq!(one(file, "\u{feff}", "x"), Err(Miss::Nowhere));
    }

    #[test]
    fn b143_b144_other_bytes_stay_whatever_they_are() {
        let file = b"\xef\xbb\xbf// \xa9 caf\xe9\r\nlet a = 1;\r\n\x00\xff";
        assert_eq!(one(file, "a = 1", "a = 2").unwrap(), b"\xef\xbb\xbf// \xa9 caf\xe9\r\nlet a = 2;\r\n\x00\xff");
    }

    #[test]
    fn b145_quotes_are_written_exactly() {
        let file = "say “old” and ‘x’";
        assert_eq!(one(file, "old", r#"a "b" 'c'"#).unwrap(), "say “a \"b\" 'c'” and ‘x’".as_bytes());
        assert_eq!(one(file, "\"old\"", "x"), Err(Miss::Nowhere));
    }

    #[test]
    fn several_places_are_an_error_unless_all_are_meant() {
        assert_eq!(one("x y x", "x", "z"), Err(Miss::Several(vec![0, 4])));
        assert_eq!(one("\u{feff}a\r\na\r\n", "a\n", "z"), Err(Miss::Several(vec![3, 6])));
        // Overlapping places are two: which one is meant is not said.
        assert_eq!(one("aaa", "aa", "b"), Err(Miss::Several(vec![0, 1])));
        let all = substitute(b"x y x", "x", "zz", Scope::All).unwrap();
        assert_eq!(all, Substituted { content: b"zz y zz".to_vec(), places: vec![0..2, 5..7] });
        assert_eq!(substitute(b"aaa", "aa", "b", Scope::All).unwrap().content, b"ba");
        assert_eq!(substitute(b"q", "x", "b", Scope::All), Err(Miss::Nowhere));
    }

    /// Bytes of all kinds; `@` is left to the text that is looked for, so that this is unique.
    fn around() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\xe9\xff\0".to_vec()),
            Just("é“".as_bytes().to_vec()),
            "[ a-c]{0,3}".prop_map(String::into_bytes),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn plain(text: &[u8]) -> Vec<u8> {
        Text::new(text).plain.into_owned()
    }

    proptest! {
        /// In a file without CRLF an edit changes exactly the bytes that it names.
        #[test]
        fn an_edit_changes_what_it_names(before in around(), after in around(), old in "[a-c\n]{0,4}", new in "[a-c“\"\n]{0,6}") {
            let old = format!("@{old}@");
            let (before, after) = (plain(&before), plain(&after));
            let file = [&before, old.as_bytes(), &after].concat();
            prop_assume!(memmem::find(&file, b"\r\n").is_none());
            let done = substitute(&file, &old, &new, Scope::Unique).unwrap();
            prop_assert_eq!(&done.content, &[&before, new.as_bytes(), &after].concat());
            prop_assert_eq!(&done.content[done.places[0].clone()], new.as_bytes());
        }

        /// In any file every byte around the text stays, and what is put there is the new text but for its line ends,
        /// each of which is one that the file has.
        #[test]
        fn line_ends_are_the_files_own(before in around(), after in around(), old in "[a-c\n]{0,6}", new in "@?[a-c\n]{0,6}@?", crlf: bool) {
            let old = format!("@{old}@");
            let inside = if crlf { old.replace('\n', "\r\n") } else { old.clone() };
            let file = [&before, inside.as_bytes(), &after].concat();
            prop_assume!(old != new);
            let done = one(&file, &old, &new).unwrap();
            prop_assert!(done.starts_with(&before) && done.ends_with(&after));
            let put = &done[before.len()..done.len() - after.len()];
            prop_assert_eq!(plain(put), new.as_bytes());
            let ends = memchr::memchr_iter(b'\n', &file).count();
            let returns = memmem::find_iter(&file, b"\r\n").count();
            if returns == 0 {
                prop_assert_eq!(put, new.as_bytes());
            } else if returns == ends {
                let expected = new.replace('\n', "\r\n");
                prop_assert_eq!(put, expected.as_bytes());
            }
        }
    }
}
