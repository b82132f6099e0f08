//! Colour on the terminal: when, and which.

use crate::outcome::Verdict;

/// What the person said about colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// As the terminal and its variables suggest.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What is known about where text goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tty {
    /// It is a terminal.
    pub is_terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `CLICOLOR_FORCE` is set and neither empty nor `0`.
    pub clicolor_force: bool,
    /// `TERM` is `dumb`: no colour, no moving of the cursor.
    pub dumb: bool,
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    #[default]
    Plain,
    /// With ANSI colours.
    Colored,
}

impl Paint {
    /// Decides. An explicit choice outranks `NO_COLOR`, which outranks `CLICOLOR_FORCE`, which outranks what the
    /// terminal can do.
    #[must_use]
    pub const fn decide(choice: ColorChoice, terminal: Tty) -> Self {
        let colored = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if terminal.no_color => false,
            ColorChoice::Auto => terminal.clicolor_force || (terminal.is_terminal && !terminal.dumb),
        };
        if colored { Self::Colored } else { Self::Plain }
    }

    /// A verdict's colour on a text.
    #[must_use]
    pub fn verdict(self, verdict: Verdict, text: &str) -> String {
        let code = match verdict {
            Verdict::Passed => "32",
            Verdict::Failed => "31",
            Verdict::Error => "1;31",
            Verdict::Skipped | Verdict::Cancelled => "33",
        };
        self.with(code, text)
    }

    /// A text of less weight.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// A heading.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colored => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stronger_word_decides() {
        let terminal = Tty { is_terminal: true, ..Tty::default() };
        let decide = Paint::decide;
        assert_eq!(decide(ColorChoice::Auto, terminal), Paint::Colored);
        assert_eq!(decide(ColorChoice::Auto, Tty::default()), Paint::Plain);
        assert_eq!(decide(ColorChoice::Auto, Tty { dumb: true, ..terminal }), Paint::Plain);
        assert_eq!(decide(ColorChoice::Auto, Tty { no_color: true, ..terminal }), Paint::Plain);
        assert_eq!(decide(ColorChoice::Auto, Tty { clicolor_force: true, ..Tty::default() }), Paint::Colored);
        assert_eq!(decide(ColorChoice::Auto, Tty { clicolor_force: true, no_color: true, ..terminal }), Paint::Plain);
        assert_eq!(decide(ColorChoice::Always, Tty { no_color: true, ..terminal }), Paint::Colored);
        assert_eq!(decide(ColorChoice::Never, terminal), Paint::Plain);
    }

    #[test]
    fn plain_text_carries_no_codes() {
        assert_eq!(Paint::Plain.verdict(Verdict::Failed, "x"), "x");
        assert_eq!(Paint::Colored.verdict(Verdict::Failed, "x"), "\x1b[31mx\x1b[0m");
    }
}
