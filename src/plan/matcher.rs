//! Which tools a tool hook is for.

/// The names of tools that a hook is for, as Claude Code's settings write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolMatcher {
    /// Every tool.
    All,
    /// Exactly these.
    Names(Vec<String>),
}

impl ToolMatcher {
    /// Whether a tool is among them.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == tool),
        }
    }
}
