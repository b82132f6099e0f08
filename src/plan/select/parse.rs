//! Reads a filter: words, `tag:`, `file:`, `verdict:`, `reason:`; `and` / `&`, `or` / `|`, `not` / `!`, parentheses. `and` binds tighter
//! than `or`.

use super::filter::{Expr, Filter};
use crate::outcome::{Reason, Verdict};
use crate::spec::nearest_word;
use globset::{GlobBuilder, GlobMatcher};

/// What is wrong with a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte at which it is.
    pub at: usize,
    /// What, in words.
    pub message: String,
}

impl Fault {
    /// The filter with a mark under the place, and what is wrong there.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text).chars().count();
        format!("  {text}\n  {}^ {}", " ".repeat(before), self.message)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    And,
    Or,
    Not,
    Open,
    Close,
}

/// Every verdict, for the words of filters.
const VERDICTS: [Verdict; 5] = [Verdict::Passed, Verdict::Failed, Verdict::Error, Verdict::Skipped, Verdict::Cancelled];
/// What may be asked about.
const KINDS: [&str; 5] = ["name", "tag", "file", "verdict", "reason"];
/// Parentheses and `not` may be nested so deep.
const DEPTH: u32 = 64;

impl Filter {
    /// Reads one.
    ///
    /// # Errors
    /// Says what is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let tokens = tokens(text);
        let mut parser = Parser { tokens: &tokens, at: 0, end: text.len() };
        let expr = parser.either(0)?;
        match parser.peek() {
            None => Ok(Self(expr)),
            Some((at, Token::Close)) => {
                Err(Fault { at: *at, message: "nothing was opened that this could close".into() })
            }
            Some((at, _)) => Err(Fault { at: *at, message: "`and` or `or` is missing before this".into() }),
        }
    }

    /// Takes what both take.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Expr::And(Box::new(self.0), Box::new(other.0)))
    }

    /// Takes what one of them takes.
    #[must_use]
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Option<Self> {
        filters.into_iter().reduce(|one, other| Self(Expr::Or(Box::new(one.0), Box::new(other.0))))
    }
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut word: Option<usize> = None;
    let end_word = |word: &mut Option<usize>, end: usize, tokens: &mut Vec<(usize, Token)>| {
        let Some(start) = word.take() else { return };
        let token = match &text[start..end] {
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            other => Token::Word(other.to_owned()),
        };
        tokens.push((start, token));
    };
    for (at, c) in text.char_indices() {
        let single = match c {
            '&' => Some(Token::And),
            '|' => Some(Token::Or),
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            // Within a word it belongs to a glob such as `[!a]`.
            '!' if word.is_none() => Some(Token::Not),
            _ => None,
        };
        if single.is_some() || c.is_whitespace() {
            end_word(&mut word, at, &mut tokens);
            // `&&` and `||` say the same.
            let again = matches!(single, Some(Token::And | Token::Or))
                && tokens.last().is_some_and(|(last, token)| *last + 1 == at && Some(token) == single.as_ref());
            if let Some(token) = single.filter(|_| !again) {
                tokens.push((at, token));
            }
        } else if word.is_none() {
            word = Some(at);
        }
    }
    end_word(&mut word, text.len(), &mut tokens);
    tokens
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    at: usize,
    end: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&(usize, Token)> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, token: &Token) -> bool {
        let found = self.peek().is_some_and(|(_, next)| next == token);
        self.at += usize::from(found);
        found
    }

    fn either(&mut self, depth: u32) -> Result<Expr, Fault> {
        let mut expr = self.both(depth)?;
        while self.eat(&Token::Or) {
            expr = Expr::Or(Box::new(expr), Box::new(self.both(depth)?));
        }
        Ok(expr)
    }

    fn both(&mut self, depth: u32) -> Result<Expr, Fault> {
        let mut expr = self.one(depth)?;
        while self.eat(&Token::And) {
            expr = Expr::And(Box::new(expr), Box::new(self.one(depth)?));
        }
        Ok(expr)
    }

    fn one(&mut self, depth: u32) -> Result<Expr, Fault> {
        let here = self.peek().map_or(self.end, |(at, _)| *at);
        if depth > DEPTH {
            return Err(Fault { at: here, message: "this is nested too deep".into() });
        }
        if self.eat(&Token::Not) {
            return Ok(Expr::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.eat(&Token::Open) {
            let expr = self.either(depth + 1)?;
            if self.eat(&Token::Close) {
                return Ok(expr);
            }
            let at = self.peek().map_or(self.end, |(at, _)| *at);
            return Err(Fault { at, message: "`)` is missing here".into() });
        }
        match self.peek().cloned() {
            Some((at, Token::Word(word))) => {
                self.at += 1;
                leaf(&word).map_err(|message| Fault { at, message })
            }
            Some((at, _)) => {
                Err(Fault { at, message: "a name, `tag:`, `file:`, `verdict:` or `reason:` must stand here".into() })
            }
            None => Err(Fault {
                at: self.end,
                message: "something is missing here, such as a name or `tag:nightly`".into(),
            }),
        }
    }
}

fn leaf(word: &str) -> Result<Expr, String> {
    let Some((kind, value)) = word.split_once(':') else { return glob(word).map(Expr::Name) };
    match kind {
        "name" => glob(value).map(Expr::Name),
        "tag" => glob(value).map(Expr::Tag),
        "file" => glob(value).map(Expr::File),
        "verdict" => {
            let codes = VERDICTS.map(Verdict::code);
            let found = VERDICTS.into_iter().find(|verdict| verdict.code() == value);
            found.map(Expr::Verdict).ok_or_else(|| unknown("verdict", value, &codes))
        }
        "reason" => {
            let codes: Vec<&str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
            let found = Reason::ALL.iter().copied().find(|reason| reason.code() == value);
            found.map(Expr::Reason).ok_or_else(|| unknown("reason", value, &codes))
        }
        _ => Err(unknown("question", kind, &KINDS)),
    }
}

fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match nearest_word(known, word) {
        Some(near) => format!("`{word}` is no {what}; you may have meant `{near}`"),
        None if known.len() <= 6 => format!("`{word}` is no {what}; there are {}", known.join(", ")),
        None => format!("`{word}` is no {what}; `runner explain` lists them"),
    }
}

fn glob(text: &str) -> Result<GlobMatcher, String> {
    if text.is_empty() {
        return Err("this is empty".into());
    }
    let built = GlobBuilder::new(text).literal_separator(false).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| format!("this is not a glob: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fault(text: &str) -> String {
        Filter::parse(text).unwrap_err().shown(text)
    }

    #[test]
    fn faults_are_shown_where_they_are() {
        insta::assert_snapshot!(fault("fix-* and"), @r"
          fix-* and
                   ^ something is missing here, such as a name or `tag:nightly`
        ");
        insta::assert_snapshot!(fault("verdict:faled"), @r"
          verdict:faled
          ^ `faled` is no verdict; you may have meant `failed`
        ");
        insta::assert_snapshot!(fault("a (b"), @r"
          a (b
            ^ `and` or `or` is missing before this
        ");
        insta::assert_snapshot!(fault("(a or b"), @r"
          (a or b
                 ^ `)` is missing here
        ");
        insta::assert_snapshot!(fault("tagg:x"), @r"
          tagg:x
          ^ `tagg` is no question; you may have meant `tag`
        ");
        assert!(Filter::parse(&"!".repeat(1_000)).is_err() && Filter::parse("").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z:()&|! *\\[\\]é]{0,40}") {
            if let Err(fault) = Filter::parse(&text) {
                prop_assert!(fault.at <= text.len());
                prop_assert!(fault.shown(&text).contains('^'));
            }
        }
    }
}
