//! What is near when an edit's text is not in the file: where it probably was meant, and in what it differs there.

use super::limit::head;
use similar::{ChangeTag, TextDiff};
use std::collections::BTreeMap;

/// Larger files are not searched for what is near, in bytes.
const MAX_FILE: usize = 8 << 20;
/// A line that is there more often than this, a brace mostly, says nothing about the place.
const MAX_SAME: usize = 200;
/// So many lines of a file are compared one by one when none of the text is there as it is.
const MAX_COMPARED: usize = 20_000;
/// How many lines of a difference are shown.
const MAX_SHOWN: usize = 30;
/// How many bytes of a line are shown.
const MAX_LINE: usize = 300;

/// Explains why a text is not in a file, in a few lines for the model.
pub(super) fn explain(content: &[u8], old: &str, new: &str) -> String {
    if content.len() > MAX_FILE {
        return "Read the place again and copy it exactly.".into();
    }
    let text = String::from_utf8_lossy(content).replace("\r\n", "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut hints = Vec::new();
    let new = new.replace("\r\n", "\n");
    if new.trim().len() >= 8
        && let Some(at) = text.find(&new)
    {
        let line = text[..at].matches('\n').count() + 1;
        hints.push(format!("new_string is there already, at line {line}: perhaps this edit was made before."));
    }
    let mut old = old.replace("\r\n", "\n");
    if let Some(plain) = without_numbers(&old) {
        hints.push("old_string has the line numbers that Read prints: leave them and the tab behind them out.".into());
        if text.contains(&plain) {
            return hints.join("\n");
        }
        old = plain;
    }
    let unescaped = old.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
    if unescaped != old && text.contains(&unescaped) {
        hints.push(
            "It is there when `\\n`, `\\t` and `\\\"` are one character each: old_string is escaped once too often."
                .into(),
        );
    } else {
        hints.push(place(text, &old).unwrap_or_else(|| "Nothing in the file is like it: read the file again.".into()));
    }
    hints.join("\n")
}

/// The text without the line numbers of Read; `None` unless every line has one.
fn without_numbers(text: &str) -> Option<String> {
    let lines = text.lines().map(|line| {
        let (number, rest) = line.split_once('\t').unwrap_or((line, ""));
        let number = number.trim();
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
    });
    let lines: Vec<&str> = lines.collect::<Option<_>>()?;
    lines.iter().any(|line| !line.is_empty()).then(|| lines.join("\n"))
}

/// The nearest place and the difference there.
fn place(text: &str, old: &str) -> Option<String> {
    let file: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    let first = by_lines(&file, &wanted).or_else(|| by_likeness(&file, &wanted))?;
    let there = &file[first..file.len().min(first + wanted.len())];
    let mut shown = match there.len() {
        0 | 1 => format!("The nearest place is line {}", first + 1),
        count => format!("The nearest place is lines {}-{}", first + 1, first + count),
    };
    let same = wanted.iter().map(|line| line.trim()).eq(there.iter().map(|line| line.trim()));
    shown.push_str(if same { ", where only white space differs" } else { "" });
    shown.push_str(" (- old_string, + the file):\n");
    // Comparing takes time that grows with the square of the difference, and no more than this is shown.
    let most = MAX_SHOWN * 2;
    let diff = TextDiff::from_slices(&wanted[..wanted.len().min(most)], &there[..there.len().min(most)]);
    for (count, change) in diff.iter_all_changes().enumerate() {
        if count == MAX_SHOWN {
            shown.push_str("[...]\n");
            break;
        }
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        shown.push_str(&format!("{sign}{}\n", head(change.value(), MAX_LINE)));
    }
    shown.push_str(&difference(&wanted, there, first));
    Some(shown)
}

/// The place where most of the wanted text is in the file line for line, white space at both ends aside.
fn by_lines(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut index: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, line) in file.iter().enumerate() {
        index.entry(line.trim()).or_default().push(at);
    }
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for (offset, line) in wanted.iter().enumerate() {
        let line = line.trim();
        let Some(places) = index.get(line).filter(|places| !line.is_empty() && places.len() <= MAX_SAME) else {
            continue;
        };
        for at in places.iter().filter(|at| **at >= offset) {
            *votes.entry(at - offset).or_default() += line.len();
        }
    }
    // The earliest of the best; a few characters in common are no trace.
    votes.into_iter().rev().max_by_key(|(_, votes)| *votes).filter(|(_, votes)| *votes >= 6).map(|(at, _)| at)
}

/// The place whose line is most like the longest wanted line.
fn by_likeness(file: &[&str], wanted: &[&str]) -> Option<usize> {
    const ALIKE: f32 = 0.6;
    let clip = |line: &'_ str| head(line.trim(), MAX_LINE).to_owned();
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let longest = clip(longest);
    if longest.len() < 4 {
        return None;
    }
    // Lines of another length cannot be alike enough; leaving them out first saves nearly all of the time.
    let near = |line: &&str| {
        let length = line.trim().len().min(MAX_LINE);
        length * 7 >= longest.len() * 3 && longest.len() * 7 >= length * 3
    };
    let lines: Vec<String> = file.iter().take(MAX_COMPARED).filter(|line| near(line)).map(|line| clip(line)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let best = similar::get_close_matches(longest.as_str(), &lines, 1, ALIKE).into_iter().next()?;
    let at = file.iter().position(|line| clip(line) == best)?;
    Some(at.saturating_sub(offset))
}

/// The first character that differs, by name: what looks alike, or is not seen at all, can be told apart in no other way.
fn difference(wanted: &[&str], there: &[&str], first: usize) -> String {
    for (index, line) in wanted.iter().enumerate() {
        let Some(real) = there.get(index) else { return "The file ends before old_string does.".into() };
        if line == real {
            continue;
        }
        let column = line.chars().zip(real.chars()).take_while(|(a, b)| a == b).count();
        let name = |line: &str| line.chars().nth(column).map_or("the end of the line".into(), name);
        return format!(
            "First difference, line {} column {}: old_string has {}, the file has {}.",
            first + index + 1,
            column + 1,
            name(line),
            name(real)
        );
    }
    "All lines are there, but not as old_string has them before the first or behind the last one.".into()
}

fn name(c: char) -> String {
    match c {
        ' ' => "a space".into(),
        '\t' => "a tab".into(),
        c if c.is_ascii_graphic() => format!("`{c}`"),
        c if c.is_control() || c.is_whitespace() => format!("U+{:04X}", u32::from(c)),
        c => format!("`{c}` (U+{:04X})", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn parse(text: &str) {\n\tlet word = text.trim();\n\tcall(word);\n}\n\nfn other() {\n}\n";

    #[test]
    fn the_nearest_place_is_shown_with_the_difference() {
        insta::assert_snapshot!(
            explain(FILE.as_bytes(), "fn parse(text: &str) {\n\tlet word = text.trim_end();\n\tcall(word);", "x"),
            @r"
        The nearest place is lines 1-3 (- old_string, + the file):
         fn parse(text: &str) {
        -	let word = text.trim_end();
        +	let word = text.trim();
         	call(word);
        First difference, line 2 column 22: old_string has `_`, the file has `(`.
        "
        );
    }

    #[test]
    fn white_space_is_named() {
        insta::assert_snapshot!(
            explain(FILE.as_bytes(), "    let word = text.trim();\n    call(word);\n", "x"),
            @r"
        The nearest place is lines 2-3, where only white space differs (- old_string, + the file):
        -    let word = text.trim();
        -    call(word);
        +	let word = text.trim();
        +	call(word);
        First difference, line 2 column 1: old_string has a space, the file has a tab.
        "
        );
    }

    #[test]
    fn characters_that_look_alike_are_told_apart() {
        let text = explain("say(“it’s”)\n".as_bytes(), "say(\"it's\")", "x");
        assert!(text.ends_with("column 5: old_string has `\"`, the file has `“` (U+201C)."), "{text}");
        let text = explain("let a\u{a0}= some;\n".as_bytes(), "let a = some;", "x");
        assert!(text.ends_with("old_string has a space, the file has U+00A0."), "{text}");
    }

    #[test]
    fn a_single_line_is_found_by_likeness() {
        let text = explain(FILE.as_bytes(), "let wrod = text.trim()", "x");
        assert!(text.starts_with("The nearest place is line 2 ("), "{text}");
    }

    #[test]
    fn common_mistakes_are_recognised() {
        assert!(
            explain(FILE.as_bytes(), "     1\tfn parse(text: &str) {\n     2\t\tlet", "x").contains("line numbers")
        );
        assert!(explain(FILE.as_bytes(), "fn other() {\\n}", "x").contains("escaped once too often"));
        let text = explain(FILE.as_bytes(), "fn another() {", "\tcall(word);");
        assert!(text.starts_with("new_string is there already, at line 3: "), "{text}");
        assert_eq!(
            explain(FILE.as_bytes(), "#include <stdio.h>", "x"),
            "Nothing in the file is like it: read the file again."
        );
        assert_eq!(explain(b"", "abcdef", "x"), "Nothing in the file is like it: read the file again.");
    }

    #[test]
    fn a_long_difference_is_bounded() {
        let file = (0..1_000).map(|n| format!("line {n} {}\n", "x".repeat(1_000))).collect::<Vec<_>>().concat();
        let old = file.replace("line", "lane");
        let text = explain(file.as_bytes(), &old, "y");
        assert!(text.len() < MAX_SHOWN * (MAX_LINE + 2) + 300, "{}", text.len());
    }
}
