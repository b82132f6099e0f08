//! Text from outside, cut to what a line, a cell or an attribute can hold.

use crate::clean::{clean, tail};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands for what was cut off.
const ELLIPSIS: &str = "…";

/// The text on one line: cleaned, white space runs as one space, at most `max` bytes, the mark of a cut included.
#[must_use]
pub fn one_line(text: &str, max: usize) -> String {
    // Four times the room is plenty before cleaning and keeps a text of megabytes cheap.
    let near = head(text, max.saturating_mul(4).saturating_add(256));
    let mut line = String::new();
    for word in clean(near).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !reorders(*c)));
        if line.len() > max {
            break;
        }
    }
    marked_head(&line, max)
}

/// The first line with something on it, cleaned, at most `max` bytes.
#[must_use]
pub fn first_line(text: &str, max: usize) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(first, max)
}

/// The last `count` lines with something on them, each on one line of at most `max` bytes.
#[must_use]
pub fn last_lines(text: &str, count: usize, max: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(count).map(|line| one_line(line, max)).collect();
    lines.reverse();
    lines
}

/// The end of the text, cleaned, at most `max` bytes, whole lines where it can be, without white space after it.
#[must_use]
pub fn clean_tail(text: &str, max: usize) -> String {
    // Four times the room is plenty before cleaning. What a cut leaves of an escape sequence stands in a line that is
    // cut away too, unless that line alone is longer than that.
    let cleaned = clean(tail(text.trim_end(), max.saturating_mul(4)));
    tail(cleaned.trim_end(), max).to_owned()
}

/// The longest beginning of at most `max` bytes that ends between two characters.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// As [`head`], with a mark where something was cut off.
#[must_use]
pub fn marked_head(text: &str, max: usize) -> String {
    if text.len() <= max {
        text.to_owned()
    } else {
        format!("{}{ELLIPSIS}", head(text, max.saturating_sub(ELLIPSIS.len())))
    }
}

/// The columns that a text takes on a terminal.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text in at most `max` columns, with a mark where something was cut off.
#[must_use]
pub fn to_columns(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(1) else { return String::new() };
    let mut used = 0;
    let kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= room
        })
        .collect();
    kept + ELLIPSIS
}

/// Whether the character changes the order in which its neighbours are shown: it could make a line lie.
const fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_was_in_it() {
        assert_eq!(one_line("  a\nb\r\n\tc\x1b[31m d\x1b[0m\u{202e} ", 100), "a b c d");
        assert_eq!(one_line("abcdef", 5), "ab…");
        assert_eq!(one_line("éééé", 6), "é…");
        assert_eq!(one_line(&"long words ".repeat(1_000_000), 20), "long words long w…");
        assert_eq!(first_line("\n \nfirst\nsecond", 50), "first");
        assert_eq!(last_lines("a\n\nb\n  \nc\n", 2, 50), ["b", "c"]);
    }

    #[test]
    fn the_end_is_clean_and_bounded_even_of_very_much() {
        assert_eq!(clean_tail("a\n\x1b[31mb\x1b[0m\n\n", 100), "a\nb");
        assert_eq!(clean_tail(&"\x1b[31mline\x1b[0m\n".repeat(500_000), 11), "line\nline");
    }

    #[test]
    fn columns_count_wide_characters_twice() {
        assert_eq!(columns("日本"), 4);
        assert_eq!(to_columns("日本語", 4), "日…");
        assert_eq!(to_columns("abc", 3), "abc");
        assert_eq!(to_columns("abcd", 3), "ab…");
        assert_eq!(to_columns("abcd", 0), "");
    }
}
