//! One finding about what the author wrote: what, where, and how to mend it.

use super::source::Place;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is run until it is mended.
    Error,
    /// Worth knowing; the run goes on.
    Warning,
}

/// The kind of a finding. The texts are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The file is not TOML.
    Syntax,
    /// The file is not UTF-8 text.
    NotUtf8,
    /// A key that does not exist, or not here.
    UnknownKey,
    /// A key that must be there is not.
    MissingKey,
    /// A value of another type.
    WrongType,
    /// A number, text or list outside of what is allowed.
    OutOfRange,
    /// A span of time that cannot be read.
    BadDuration,
    /// None of the words that are allowed.
    BadChoice,
    /// A text that breaks the rules of what it names: a variable, a header, a branch, a path.
    BadValue,
    /// Two keys that exclude each other, or one that needs another.
    Conflict,
    /// A key or password that stands in a file.
    SecretInFile,
    /// A name in `{{ … }}` that is not defined.
    UndefinedName,
    /// A `{{ … }}` that cannot be read.
    BadTemplate,
    /// A name that breaks the rules of names.
    BadName,
    /// Two of one name.
    DuplicateName,
    /// A glob that does not compile.
    BadGlob,
    /// A file, folder or program that is not there.
    NotFound,
    /// A variable of the environment that is not set.
    KeyMissing,
    /// A form of thinking that the model refuses.
    ThinkingRefused,
    /// A model that the built-in table does not know.
    UnknownModel,
    /// A tool that does not exist.
    UnknownTool,
    /// A price that is not known, so that money cannot be counted.
    PriceUnknown,
}

impl Code {
    /// The stable text, shown in brackets.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::NotUtf8 => "not-utf8",
            Self::UnknownKey => "unknown-key",
            Self::MissingKey => "missing-key",
            Self::WrongType => "wrong-type",
            Self::OutOfRange => "out-of-range",
            Self::BadDuration => "bad-duration",
            Self::BadChoice => "bad-choice",
            Self::BadValue => "bad-value",
            Self::Conflict => "conflict",
            Self::SecretInFile => "secret-in-file",
            Self::UndefinedName => "undefined-name",
            Self::BadTemplate => "bad-template",
            Self::BadName => "bad-name",
            Self::DuplicateName => "duplicate-name",
            Self::BadGlob => "bad-glob",
            Self::NotFound => "not-found",
            Self::KeyMissing => "key-missing",
            Self::ThinkingRefused => "thinking-refused",
            Self::UnknownModel => "unknown-model",
            Self::UnknownTool => "unknown-tool",
            Self::PriceUnknown => "price-unknown",
        }
    }
}

/// One finding. Without a place it stands for the whole invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// Its kind.
    pub code: Code,
    /// What is wrong, as a lowercase fragment.
    pub message: String,
    /// Where, and what to say under the underlined text.
    pub at: Option<(Place, String)>,
    /// Other places that belong to it, each with its label.
    pub also: Vec<(Place, String)>,
    /// Facts that explain it.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        let (message, at) = (message.into(), None);
        Self { level: Level::Error, code, message, at, also: Vec::new(), notes: Vec::new(), help: Vec::new() }
    }

    /// A warning without a place.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(code, message) }
    }

    /// Points at a place, with a few words under it; they may be empty.
    #[must_use]
    pub fn at(mut self, place: Place, label: impl Into<String>) -> Self {
        self.at = Some((place, label.into()));
        self
    }

    /// Points at one more place.
    #[must_use]
    pub fn also(mut self, place: Place, label: impl Into<String>) -> Self {
        self.also.push((place, label.into()));
        self
    }

    /// Adds a fact that explains it.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Whether it stops the run.
    pub const fn is_error(&self) -> bool {
        matches!(self.level, Level::Error)
    }
}
