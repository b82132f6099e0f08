//! Just enough reading of Rust source to check rules on it: which text is code, and which paths it names.

/// The text with comments, strings and characters replaced by spaces. Lines stay where they are.
pub(super) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = opaque_end(&chars, at).unwrap_or(at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { c } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Where the comment, string or character that begins here ends; `None` if none begins here.
fn opaque_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    let in_word = at > 0 && is_word(chars[at - 1]);
    match chars[at] {
        '/' if next == Some('/') => Some(find(chars, at, |rest| rest[0] == '\n')),
        '/' if next == Some('*') => Some(block_comment_end(chars, at)),
        '"' => Some(quoted_end(chars, at + 1, '"')),
        'r' if !in_word || chars[at - 1] == 'b' => raw_string_end(chars, at + 1),
        // A lifetime has no closing quote right after its first letter.
        '\'' if next == Some('\\') || chars.get(at + 2) == Some(&'\'') => Some(quoted_end(chars, at + 1, '\'')),
        _ => None,
    }
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

fn quoted_end(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let start = at + hashes + 1;
    Some((find(chars, start, |rest| rest.starts_with(&close)) + close.len()).min(chars.len()))
}

fn find(chars: &[char], from: usize, matches: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|&at| matches(&chars[at..])).unwrap_or(chars.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits [`code`] into what ships and the names of the modules that are declared under `#[cfg(test)]`.
///
/// What is under `#[cfg(test)]` is taken away whole, up to its closing brace or semicolon.
pub(super) fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut rest, mut shipped, mut modules) = (code, String::new(), Vec::new());
    while let Some(start) = rest.find(MARK) {
        let (before, item) = rest.split_at(start);
        let item = &item[..item_end(item)];
        if let Some((_, declared)) = item.split_once("mod ").filter(|_| item.ends_with(';')) {
            modules.push(declared.trim_end_matches(';').trim().to_owned());
        }
        shipped.push_str(before);
        rest = &rest[start + item.len()..];
    }
    shipped.push_str(rest);
    (shipped, modules)
}

fn item_end(item: &str) -> usize {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

/// Every path that [`code`] names, with its line: `a::b`, and one for each leaf of `a::{b, c::d}`.
///
/// A keyword is a path of one segment, so that `async` and `await` are found the same way.
pub(super) fn paths(code: &str) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        at = path_at(&tokens, at, "", &mut found);
    }
    found
}

/// Reads one token, or one path with all its branches, and returns where to go on.
fn path_at(tokens: &[(usize, &str)], start: usize, prefix: &str, found: &mut Vec<(usize, String)>) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", |(_, token)| token);
    let (mut path, mut at) = (prefix.to_owned(), start);
    while token(at).starts_with(is_word) {
        path.push_str(token(at));
        at += 1;
        if token(at) != "::" {
            break;
        }
        path.push_str("::");
        at += 1;
    }
    if at == start {
        return start + 1;
    }
    if !(path.ends_with("::") && token(at) == "{") {
        found.push((tokens[start].0, path.trim_end_matches(':').to_owned()));
        return at;
    }
    at += 1;
    while at < tokens.len() && token(at) != "}" {
        at = path_at(tokens, at, &path, found);
    }
    at + 1
}

/// Words, `::` and single other characters, each with its line, counted from 1.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            let (token, after) = rest.split_at(length);
            tokens.push((index + 1, token));
            rest = after.trim_start();
        }
    }
    tokens
}

#[test]
fn comments_and_strings_are_not_code() {
    let text = "a // std::fs\n/* x /* tokio */ y */ b \"git2 \\\" \" c r#\"async \"\" \"# 'x' '\\'' &'static d";
    let words: Vec<_> = paths(&code(text)).into_iter().map(|(_, path)| path).collect();
    assert_eq!(words, ["a", "b", "c", "static", "d"]);
}

#[test]
fn tests_do_not_ship() {
    let (shipped, modules) =
        without_tests("fn a() {}\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { fn b() { {} } }\nc");
    assert_eq!(shipped.split_whitespace().collect::<Vec<_>>(), ["fn", "a()", "{}", "c"]);
    assert_eq!(modules, ["tests"]);
}

#[test]
fn grouped_paths_are_spelled_out() {
    let found = paths("use std::{\n  fmt,\n  fs::{self, File},\n};\nx.await; crate::a::B::new()");
    let shown: Vec<_> = found.iter().map(|(line, path)| format!("{line} {path}")).collect();
    assert_eq!(
        shown,
        ["1 use", "2 std::fmt", "3 std::fs::self", "3 std::fs::File", "5 x", "5 await", "5 crate::a::B::new"]
    );
}
