//! `{{ name }}` in texts, strictly: what is not defined is an error. `{{ "{{" }}` writes `{{`.

use crate::spec::{Code, Diagnostic, Written};
use std::collections::BTreeMap;

/// The names that are defined where a text is filled in, each with its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(pub(super) BTreeMap<String, String>);

/// Fills in the names of a text. Everything that is wrong with it is reported, at its place.
pub(super) fn fill(text: &Written<String>, names: &Names) -> Result<String, Vec<Diagnostic>> {
    let mut filled = String::with_capacity(text.value.len());
    let mut faults: Vec<Diagnostic> = Vec::new();
    let mut rest = text.value.as_str();
    while let Some(start) = rest.find("{{") {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        match expression(from) {
            Ok((inside, whole)) => {
                let after_dollar = before.ends_with('$');
                match value(inside, names) {
                    Ok(value) => filled.push_str(&value),
                    Err(fault) => {
                        let fault = fault.at(text.place.narrowed(whole), "not defined");
                        faults.push(if after_dollar { github(fault) } else { fault });
                    }
                }
                rest = &from[whole.len()..];
            }
            Err(message) => {
                let line = from.lines().next().unwrap_or(from);
                faults.push(
                    Diagnostic::error(Code::BadTemplate, message)
                        .at(text.place.narrowed(line), "opened here")
                        .help("to write two braces, put {{ \"{{\" }}"),
                );
                rest = "";
            }
        }
    }
    filled.push_str(rest);
    if faults.is_empty() { Ok(filled) } else { Err(faults) }
}

/// The expression at the start of `text`: what is inside of its braces, and the whole with them.
fn expression(text: &str) -> Result<(&str, &str), String> {
    let inner = &text[2..];
    let body = inner.trim_start();
    let skipped = inner.len() - body.len();
    // A quoted text may hold braces itself.
    let quoted = body.chars().next().filter(|c| matches!(c, '"' | '\''));
    let searched = match quoted.and_then(|quote| body[1..].find(quote)) {
        Some(end) => skipped + end + 2,
        None => 0,
    };
    match inner[searched..].find("}}") {
        Some(end) => Ok((inner[..searched + end].trim(), &text[..2 + searched + end + 2])),
        None => Err("`{{` is never closed".into()),
    }
}

fn value(inside: &str, names: &Names) -> Result<String, Box<Diagnostic>> {
    for quote in ['"', '\''] {
        if let Some(literal) = inside.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return Ok(literal.to_owned());
        }
    }
    names.0.get(inside).cloned().ok_or_else(|| {
        let known: Vec<_> = names.0.keys().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        let message =
            if inside.is_empty() { "`{{ }}` names nothing".into() } else { format!("`{inside}` is not defined") };
        Diagnostic::error(Code::UndefinedName, message)
            .note(format!("defined here: {known}"))
            .help("to write two braces, put {{ \"{{\" }}")
            .into()
    })
}

fn github(fault: Diagnostic) -> Diagnostic {
    fault.note("`${{ … }}` is filled in by GitHub Actions in workflow files only, not in job files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Layer, Place, SourceFile};

    fn filled(text: &str) -> Result<String, Vec<String>> {
        let names = [("job", "fix"), ("matrix.file", "a.rs")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let file = SourceFile::new(Layer::Job, "a.toml", "", text);
        let text = Written::new(text.to_owned(), Place::whole(&file));
        let place = |fault: &Diagnostic| fault.at.as_ref().map_or("", |(place, _)| place.text()).to_owned();
        fill(&text, &Names(names.into_iter().collect()))
            .map_err(|faults| faults.iter().map(|fault| format!("{}: {}", place(fault), fault.message)).collect())
    }

    #[test]
    fn names_are_filled_in() {
        assert_eq!(filled("{{ job }}/{{matrix.file}} }} { }"), Ok("fix/a.rs }} { }".into()));
        assert_eq!(filled("{{ \"{{\" }} x {{ '}}' }}"), Ok("{{ x }}".into()));
        assert_eq!(filled(""), Ok(String::new()));
    }

    #[test]
    fn every_fault_of_a_text_is_found_at_its_place() {
        assert_eq!(
            filled("{{ jub }} ${{ github.sha }} {{ }} {{ x"),
            Err(vec![
                "{{ jub }}: `jub` is not defined".into(),
                "{{ github.sha }}: `github.sha` is not defined".into(),
                "{{ }}: `{{ }}` names nothing".into(),
                "{{ x: `{{` is never closed".into(),
            ])
        );
    }

    #[test]
    fn odd_braces_never_panic() {
        for text in ["{{", "{{\"", "{{ \"}}", "{{'é", "{{{{}}}}", "}}{{", "{{ \"é\" }}"] {
            drop(filled(text));
        }
    }
}
