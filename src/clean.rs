//! Program output made fit for reading: no escape sequences, no control characters, nothing that XML 1.0 forbids.

use std::iter::Peekable;
use std::str::Chars;

/// Cleans text that a program wrote for a terminal.
///
/// Escape sequences go as a whole, the text between them stays. Of control characters only `\n` and `\t` stay. A
/// carriage return does what a terminal shows at last: the line is what follows it. What XML 1.0 does not allow
/// becomes U+FFFD. The result is never longer than the input, U+FFFD included, and cleaning it again changes nothing.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut returned = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let shown = match c {
            '\x1b' => {
                skip_escape(&mut chars);
                continue;
            }
            '\u{9b}' => {
                skip_control_sequence(&mut chars);
                continue;
            }
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => {
                skip_string(&mut chars);
                continue;
            }
            '\n' => {
                returned = false;
                out.push('\n');
                line_start = out.len();
                continue;
            }
            '\r' => {
                returned = true;
                continue;
            }
            '\t' => '\t',
            c if c.is_control() => continue,
            '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        if returned {
            out.truncate(line_start);
            returned = false;
        }
        out.push(shown);
    }
    out
}

/// The end of a text, at most `max_bytes` long: whole lines, or the end of the last line when that is longer.
#[must_use]
pub fn tail(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let mut start = text.len() - max_bytes;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let (before, rest) = text.split_at(start);
    if before.ends_with('\n') {
        return rest;
    }
    match rest.find('\n') {
        Some(end_of_line) if end_of_line + 1 < rest.len() => &rest[end_of_line + 1..],
        Some(_) | None => rest,
    }
}

/// After ESC.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control_sequence(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_string(chars);
        }
        Some(_) | None => {
            // Two characters, or more with intermediate ones: `ESC 7`, `ESC ( B`.
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// After CSI: parameters, intermediate characters, one final character.
fn skip_control_sequence(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, '0'..='?')).is_some() {}
    while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// After OSC, DCS and their kin: up to BEL or ST. A line end also stops it, or a missing ST would swallow all the rest,
/// and so does the start of another sequence.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| !matches!(c, '\n' | '\x1b')) {
        if matches!(c, '\x07' | '\u{9c}') {
            return;
        }
    }
    let mut ahead = chars.clone();
    if ahead.next() == Some('\x1b') && ahead.next() == Some('\\') {
        *chars = ahead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_go_whole_and_text_stays() {
        assert_eq!(clean("\x1b[1;31merror\x1b[0m: \x1b[38;5;12mx\x1b[K"), "error: x");
        assert_eq!(clean("\x1b]0;title\x07text"), "text");
        assert_eq!(clean("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\."), "link.");
        assert_eq!(clean("\x1bPq#0\x1b\\a\x1b(Bb\x1b7c\x1b=d\x1bMe"), "abcde");
        assert_eq!(clean("\u{9b}31mred\u{9d}0;t\u{9c}!"), "red!");
    }

    #[test]
    fn broken_sequences_do_not_swallow_what_follows() {
        assert_eq!(clean("a\x1b"), "a");
        assert_eq!(clean("a\x1b[12;"), "a");
        assert_eq!(clean("\x1b]0;never closed\nnext line"), "\nnext line");
        assert_eq!(clean("\x1b[3\nx"), "\nx");
        assert_eq!(clean("\x1b[31é"), "é");
        assert_eq!(clean("\x1b]0;t\x1b[31mred"), "red");
        assert_eq!(clean(&"\x1b]".repeat(100_000)), "");
    }

    #[test]
    fn control_characters_are_dropped_but_for_line_end_and_tab() {
        assert_eq!(clean("a\0b\x07c\x08d\x7fe\u{85}f\tg\nh"), "abcdef\tg\nh");
        assert_eq!(clean("x]]>\u{fffe}\u{ffff}"), "x]]>\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_carriage_return_starts_the_line_again() {
        assert_eq!(clean("10%\r50%\r100%\ndone\r\n"), "100%\ndone\n");
        assert_eq!(clean("a\r\nb\r\r\nc\r"), "a\nb\nc");
        assert_eq!(clean("wait\x1b[2K\rready"), "ready");
        assert_eq!(clean("1\n2\r3"), "1\n3");
    }

    #[test]
    fn the_tail_is_whole_lines_where_it_can_be() {
        assert_eq!(tail("one\ntwo\nthree", 100), "one\ntwo\nthree");
        assert_eq!(tail("one\ntwo\nthree", 9), "two\nthree");
        assert_eq!(tail("one\ntwo\nthree", 8), "three");
        assert_eq!(tail("one\ntwo\n", 5), "two\n");
        assert_eq!(tail("a long line", 4), "line");
        assert_eq!(tail("a long line\n", 5), "line\n");
        assert_eq!(tail("ééé", 3), "é");
        assert_eq!(tail("abc", 0), "");
    }

    proptest! {
        #[test]
        fn the_result_is_clean_for_any_input(text in "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]|\x1b[\\[\\]P(]?|\u{ffff}){0,60}") {
            let cleaned = clean(&text);
            prop_assert!(cleaned.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control()));
            let forbidden = cleaned.contains(['\u{fffe}', '\u{ffff}']);
            prop_assert!(!forbidden);
            prop_assert!(cleaned.len() <= text.len());
            prop_assert_eq!(clean(&cleaned), cleaned);
        }

        #[test]
        fn the_tail_is_an_end_within_its_bound(text in "[aé\n]{0,40}", max in 0_usize..50) {
            let end = tail(&text, max);
            prop_assert!(end.len() <= max);
            prop_assert!(text.ends_with(end));
        }
    }
}
