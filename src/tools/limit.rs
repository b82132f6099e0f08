//! What a result may hold: texts are cut on character boundaries, and a cut says what is missing.

use std::borrow::Cow;

/// The most that any result may hold, in bytes. Each tool stays under it by itself; this is the net below them.
pub(super) const RESULT: usize = 100_000;

/// The start of a text, at most `max` bytes long.
pub(super) fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The end of a text, at most `max` bytes long.
pub(super) fn tail(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut start = text.len() - max;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Cuts the middle out of a text that is longer than `max` bytes and says how much is missing there.
pub(super) fn middle_out(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let start = head(text, max / 2);
    let end = tail(text, max - max / 2);
    let missing = text.len() - start.len() - end.len();
    Cow::Owned(format!("{start}\n[... {missing} bytes left out ...]\n{end}"))
}

/// A text with its control characters escaped, so that it is one line.
pub(super) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// A quotation for a message: one line, cut after 200 bytes.
pub(super) fn one_line(text: &str) -> String {
    const MAX: usize = 200; // Longer than nearly any path.
    let start = head(text, MAX);
    escaped(start) + if start.len() < text.len() { "..." } else { "" }
}

/// A number of bytes for people: `950 bytes`, `12.3 KB`, `4.5 MB`.
pub(super) fn show_bytes(count: u64) -> String {
    match count {
        1 => "1 byte".into(),
        0..1_000 => format!("{count} bytes"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// `1 line`, `2 lines`.
pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_fits_is_untouched() {
        assert_eq!(middle_out("abc", 3), "abc");
        assert_eq!(middle_out("", 0), "");
    }

    #[test]
    fn a_cut_says_how_much_is_missing() {
        assert_eq!(middle_out("0123456789", 4), "01\n[... 6 bytes left out ...]\n89");
    }

    #[test]
    fn one_line_has_no_line_end() {
        assert_eq!(one_line("a\nb\u{1b}[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(one_line(&"x".repeat(201)).len(), 203);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(show_bytes(1), "1 byte");
        assert_eq!(show_bytes(999), "999 bytes");
        assert_eq!(show_bytes(30_000_000), "30.0 MB");
    }

    proptest! {
        /// B040: a cut falls on a character boundary, wherever it falls.
        #[test]
        fn b040_cuts_fall_between_characters(text in "[a-zé→😀]{0,40}", max in 0_usize..60) {
            let (start, end) = (head(&text, max), tail(&text, max));
            prop_assert!(start.len() <= max && text.starts_with(start));
            prop_assert!(end.len() <= max && text.ends_with(end));
            prop_assert!(text.len() <= max || start.len() + 4 > max && end.len() + 4 > max);
        }
    }
}
