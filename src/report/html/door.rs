//! The one door from text to HTML.

use crate::clean::{clean, tail};
use crate::report::cut;

/// HTML under construction. Foreign text enters by [`Html::text`] alone: tags are literals of this program.
#[derive(Clone, Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Tags and words of our own.
    pub(super) fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Text from anywhere, as the content of an element or inside a quoted attribute. What it holds is shown and never acts.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            match c {
                // The forms in which secrets are looked for at the door to the disk.
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&apos;"),
                '\n' | '\t' => self.0.push(c),
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => self.0.push(char::REPLACEMENT_CHARACTER),
                // A character that changes the order of its neighbours could make code lie.
                c if reorders(c) => self.0.push_str(&format!("[U+{:04X}]", u32::from(c))),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Something that says itself, as text.
    pub(super) fn show(&mut self, value: impl std::fmt::Display) -> &mut Self {
        self.text(&value.to_string())
    }

    /// One line of text from outside, cut to so many bytes.
    pub(super) fn line(&mut self, text: &str, max: usize) -> &mut Self {
        self.text(&cut::one_line(text, max))
    }

    /// HTML that was made before.
    pub(super) fn add(&mut self, part: &Self) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }

    /// A block of text from outside in at most so many bytes: its beginning and its end, and what is left out between them.
    pub(super) fn block(&mut self, text: &str, max: usize) -> &mut Self {
        let parts = ends(text, max);
        self.raw("<pre>").text(&parts.head);
        if parts.left_out > 0 {
            self.raw("\n<i class=\"cut\">").text(&size(parts.left_out)).raw(" left out</i>\n").text(&parts.tail);
        }
        self.raw("</pre>")
    }

    /// How many bytes there are.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// The two ends of a text, cleaned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) head: String,
    /// Bytes between them.
    pub(super) left_out: usize,
    pub(super) tail: String,
}

/// At most so many bytes of a text: all of it, or a third from its beginning and the rest from its end.
pub(super) fn ends(text: &str, max: usize) -> Ends {
    let text = text.trim_end();
    let near = max.saturating_mul(4).saturating_add(256);
    if text.len() <= near.saturating_mul(2) {
        let whole = clean(text);
        if whole.len() <= max {
            return Ends { head: whole, ..Ends::default() };
        }
        return split(&whole, &whole, whole.len(), max);
    }
    // Four times the room is plenty before cleaning and keeps a text of megabytes cheap.
    split(&clean(cut::head(text, near)), &clean(tail(text, near)), text.len(), max)
}

fn split(beginning: &str, end: &str, all: usize, max: usize) -> Ends {
    let head = cut::head(beginning, max / 3).to_owned();
    let tail = tail(end, max - max / 3).to_owned();
    Ends { left_out: all.saturating_sub(head.len() + tail.len()).max(1), head, tail }
}

/// `812 bytes`, `12 kB`, `3.4 MB`.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".into(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Whether the character changes the order in which its neighbours are shown, or hides among them.
const fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> String {
        let mut html = Html::default();
        html.text(text);
        html.into_string()
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(text("<b a='\"'>&amp;"), "&lt;b a=&apos;&quot;&apos;&gt;&amp;amp;");
        assert_eq!(text("a\u{202e}b\u{0}c\u{7f}\td\n"), "a[U+202E]b\u{fffd}c\u{fffd}\td\n");
    }

    #[test]
    fn a_long_text_keeps_both_ends_and_says_so() {
        let long = format!("first\n{}last\n", "middle\n".repeat(100_000));
        let parts = ends(&long, 60);
        assert!(parts.head.starts_with("first\nmiddle") && parts.tail.ends_with("middle\nlast"), "{parts:?}");
        assert!(parts.head.len() + parts.tail.len() <= 60);
        assert_eq!(parts.left_out, long.len() - 1 - parts.head.len() - parts.tail.len());
        assert_eq!(ends("short\n", 60), Ends { head: "short".into(), ..Ends::default() });
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(700_001), "701 kB");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_leaves_the_door(input in any::<String>()) {
            let out = text(&input);
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
            prop_assert!(out.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
            for (at, _) in out.match_indices('&') {
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
                prop_assert!(known.iter().any(|name| out[at..].starts_with(name)));
            }
        }

        #[test]
        fn ends_are_within_their_bound(input in "(\\x1b\\[3[0-9]m|é|line\n|\r){0,200}", max in 0_usize..100) {
            let parts = ends(&input, max);
            prop_assert!(parts.head.len() + parts.tail.len() <= max);
        }
    }
}
