//! Text of a prompt or a model, made so that no forge finds a person to call or an issue to close in it.

/// Shown as nothing, and no part of a name or a number.
const BREAK: char = '\u{200b}';

/// The same text to the eye, in which `@name`, `#12`, `!12`, `GH-12` and links to issues and changes mean nothing to a forge.
///
/// An invisible character stands behind the sign. What is done twice is done once.
#[must_use]
pub fn inert(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (sign, after) = rest.split_at(sign_len(rest).unwrap_or(c.len_utf8()));
        out.push_str(sign);
        if sign_len(rest).is_some() {
            out.push(BREAK);
        }
        rest = after;
    }
    out
}

/// The length of the sign that the text begins with, if it means something together with what follows.
fn sign_len(text: &str) -> Option<usize> {
    const BEFORE_NUMBERS: [&str; 8] =
        ["#", "!", "gh-", "/issues/", "/pull/", "/pulls/", "/merge_requests/", "/discussions/"];
    if let Some(rest) = text.strip_prefix('@') {
        return rest.starts_with(|c: char| c.is_alphanumeric() || c == '_').then_some(1);
    }
    BEFORE_NUMBERS.iter().map(|sign| sign.len()).find(|length| {
        let Some((start, rest)) = text.split_at_checked(*length) else { return false };
        let known = BEFORE_NUMBERS.iter().any(|sign| start.eq_ignore_ascii_case(sign));
        known && rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a visible mark in place of the invisible one.
    fn shown(text: &str) -> String {
        inert(text).replace(BREAK, "|")
    }

    #[test]
    fn people_and_issues_are_left_alone() {
        assert_eq!(shown("thanks @octo-cat, @org/team and a@b.c"), "thanks @|octo-cat, @|org/team and a@|b.c");
        assert_eq!(shown("fixes #12, closes o/r#3, GH-4, gh-5, !6"), "fixes #|12, closes o/r#|3, GH-|4, gh-|5, !|6");
        assert_eq!(
            shown("resolves https://github.com/o/r/issues/7 and /pull/8 and /-/merge_requests/9"),
            "resolves https://github.com/o/r/issues/|7 and /pull/|8 and /-/merge_requests/|9"
        );
    }

    #[test]
    fn other_text_stays_as_it_is_and_twice_is_once() {
        for text in ["", "# Title", "a # b", "@ x", "x != 3", "C# and #define", "é#é", "/issues/new"] {
            assert_eq!(inert(text), text);
        }
        let once = inert("fixes #12 @me");
        assert_eq!(inert(&once), once);
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(text in ".{0,60}") {
            proptest::prop_assert_eq!(inert(&text).replace(BREAK, ""), text.replace(BREAK, ""));
        }
    }
}
