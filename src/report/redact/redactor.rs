//! Finds secrets in text.

use aho_corasick::{AhoCorasick, MatchKind};
use std::borrow::Cow;
use std::fmt;

/// A variable whose value must not be written anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The variable's name, which takes the value's place.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Replaces secrets by `[redacted:NAME]`.
#[derive(Default)]
pub struct Redactor {
    finder: Option<AhoCorasick>,
    marks: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("marks", &self.marks).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Shorter values are left alone: replacing every `true` or `1234` would spoil reports and hide nothing.
    pub const MIN: usize = 8;
    /// A line of a value of many lines counts alone from this length on: keys are quoted in parts.
    const MIN_LINE: usize = 16;

    /// Looks for these secrets, as they are and in the forms that they take inside JSON and XML.
    #[must_use]
    pub fn new(secrets: &[Secret]) -> Self {
        let mut patterns: Vec<String> = Vec::new();
        let mut marks = Vec::new();
        for secret in secrets {
            let mark =
                format!("[redacted:{}]", secret.name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_"));
            for form in forms(secret.value.trim()) {
                if !patterns.contains(&form) {
                    patterns.push(form);
                    marks.push(mark.clone());
                }
            }
        }
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns).ok();
        Self { finder: finder.filter(|_| !patterns.is_empty()), marks }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// The text without the secrets.
    #[must_use]
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => Cow::Owned(finder.replace_all(text, &self.marks)),
            Some(_) | None => Cow::Borrowed(text),
        }
    }
}

/// The forms in which a value may appear.
fn forms(value: &str) -> Vec<String> {
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= Redactor::MIN_LINE && *line != value);
    let mut forms = Vec::new();
    for part in std::iter::once(value).chain(lines).filter(|part| part.len() >= Redactor::MIN) {
        let json = serde_json::Value::from(part).to_string();
        forms.push(part.to_owned());
        forms.push(json.trim_matches('"').to_owned());
        forms.push(quick_xml::escape::escape(part).into_owned());
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, value: &str) -> Secret {
        Secret { name: name.into(), value: value.into() }
    }

    #[test]
    fn every_form_of_a_secret_goes() {
        let redactor = Redactor::new(&[secret("API_KEY", "sk-\"a&b\"-123"), secret("SHORT", "1234567")]);
        assert_eq!(redactor.apply("x sk-\"a&b\"-123 y 1234567"), "x [redacted:API_KEY] y 1234567");
        assert_eq!(redactor.apply(r#"{"t":"sk-\"a&b\"-123"}"#), r#"{"t":"[redacted:API_KEY]"}"#);
        assert_eq!(redactor.apply("<a>sk-&quot;a&amp;b&quot;-123</a>"), "<a>[redacted:API_KEY]</a>");
        assert_eq!(redactor.apply("nothing here"), "nothing here");
    }

    #[test]
    fn a_secret_inside_another_leaves_no_rest() {
        let redactor = Redactor::new(&[secret("A", "abcdefgh"), secret("B", "abcdefgh-longer")]);
        assert_eq!(redactor.apply("abcdefgh-longer abcdefgh"), "[redacted:B] [redacted:A]");
    }

    #[test]
    fn the_lines_of_a_key_go_one_by_one_too() {
        let redactor = Redactor::new(&[secret("KEY", "line-one-is-long-enough\nline-two-is-long-enough\nend\n")]);
        assert_eq!(redactor.apply("> line-two-is-long-enough"), "> [redacted:KEY]");
        assert_eq!(redactor.apply("line-one-is-long-enough\\nline-two-is-long-enough\\nend"), "[redacted:KEY]");
    }

    #[test]
    fn without_secrets_nothing_is_replaced_and_debug_shows_no_value() {
        assert_eq!(Redactor::new(&[]).apply("text"), "text");
        let value = secret("KEY", "very-secret-value");
        let shown = format!("{value:?} {:?}", Redactor::new(std::slice::from_ref(&value)));
        assert!(!shown.contains("very-secret-value"), "{shown}");
    }
}
