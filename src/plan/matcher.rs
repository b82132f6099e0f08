//! Which tools a tool hook is for.

use regex::Regex;

/// The names of tools that a hook is for, as Claude Code's settings write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolMatcher {
    /// Every tool.
    All,
    /// Exactly these.
    Names(Vec<String>),
    /// Those in whose name it is found.
    Pattern(ToolPattern),
}

/// A regular expression. Two of one text are equal.
#[derive(Clone, Debug)]
pub struct ToolPattern(Regex);

impl PartialEq for ToolPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for ToolPattern {}

impl ToolMatcher {
    /// Reads what a job file says: nothing or `*` is every tool, plain words are names between `,` or `|`, and anything else
    /// is a regular expression that is not anchored.
    ///
    /// # Errors
    /// What is wrong with it, in a few words: no such expression, or no name at all.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | ',' | '|');
        if matches!(text.trim(), "" | "*") {
            return Ok(Self::All);
        }
        if !text.chars().all(plain) {
            return Regex::new(text).map(|regex| Self::Pattern(ToolPattern(regex))).map_err(|error| fault(&error));
        }
        let names = text.split([',', '|']).map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        // A hook that is for no tool would look like one that is on guard.
        if names.is_empty() { Err("names no tool".into()) } else { Ok(Self::Names(names)) }
    }

    /// Whether a tool is among them.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == tool),
            Self::Pattern(pattern) => pattern.0.is_match(tool),
        }
    }

    /// As a job file would say it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::All => "*".into(),
            Self::Names(names) => names.join("|"),
            Self::Pattern(pattern) => pattern.0.as_str().to_owned(),
        }
    }
}

/// The last line of the report: those before it draw the expression, which the caller does itself.
fn fault(error: &regex::Error) -> String {
    let report = error.to_string();
    let line = report.lines().last().unwrap_or(&report);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> ToolMatcher {
        ToolMatcher::Names(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn plain_words_are_exact_names() {
        assert_eq!(ToolMatcher::parse("Bash"), Ok(names(&["Bash"])));
        assert_eq!(ToolMatcher::parse("Edit|Write, mcp__a-b__c ,"), Ok(names(&["Edit", "Write", "mcp__a-b__c"])));
        let bash = ToolMatcher::parse("Bash").unwrap();
        assert!(bash.matches("Bash") && !bash.matches("BashOutput") && !bash.matches("bash"));
    }

    #[test]
    fn nothing_and_a_star_are_every_tool() {
        for all in ["", "*", " "] {
            assert_eq!(ToolMatcher::parse(all), Ok(ToolMatcher::All));
        }
        assert_eq!(ToolMatcher::parse("|,"), Err("names no tool".into()));
    }

    #[test]
    fn anything_else_is_an_expression() {
        let pattern = ToolMatcher::parse("^mcp__.*|Task").unwrap();
        assert!(pattern.matches("mcp__docs__get") && pattern.matches("TaskStop") && !pattern.matches("Bash"));
        assert_eq!(ToolMatcher::parse("^mcp__.*|Task").as_ref(), Ok(&pattern));
        assert_ne!(ToolMatcher::parse("^mcp__.*").as_ref(), Ok(&pattern));
        assert_eq!(pattern.shown(), "^mcp__.*|Task");
        assert_eq!(ToolMatcher::parse("Bash("), Err("unclosed group".into()));
        assert!(ToolMatcher::parse("(a{1000}){1000}").unwrap_err().contains("size limit"));
    }
}
