//! Recognises keys and tokens in what was written, so that none is accepted from a file and none is printed.

/// How well-known keys and tokens begin: Anthropic and OpenAI, GitHub, GitLab, Slack, AWS.
const PREFIXES: [&str; 10] = ["sk-", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA"];

/// The shortest of them, in bytes; shorter words with such a beginning are words (`sk-learn`).
const SHORTEST: usize = 16;

/// Whether a word has the look of a key or token.
pub fn looks_like_key(word: &str) -> bool {
    word.len() >= SHORTEST && PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && word.chars().all(in_word)
}

/// The text with everything that looks like a key starred out; no byte moves.
pub fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if looks_like_key(word) {
            shown.push_str(&stars(word, 3));
        } else {
            shown.push_str(word);
        }
        let next = after.find(in_word).unwrap_or(after.len());
        shown.push_str(&after[..next]);
        rest = &after[next..];
    }
    shown
}

/// The text starred out behind its first `keep` characters; no byte moves, line ends stay.
pub(super) fn stars(text: &str, keep: usize) -> String {
    let star = |(at, c): (usize, char)| match c {
        '\n' | '\r' | '"' | '\'' => c.to_string(),
        _ if at < keep => c.to_string(),
        _ => "*".repeat(c.len_utf8()),
    };
    text.chars().enumerate().map(star).collect()
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_words() {
        assert!(looks_like_key("sk-ant-api03-abcdefgh"));
        assert!(looks_like_key("ghp_0123456789abcdef"));
        for word in ["sk-learn", "ANTHROPIC_API_KEY", "skeleton-of-a-long-word", "", "sk-a b c d e f g h i j"] {
            assert!(!looks_like_key(word), "{word}");
        }
    }

    #[test]
    fn masking_moves_no_byte() {
        let text = "é = \"sk-ant-api03-abcdefgh\" # x\n";
        assert_eq!(masked(text), "é = \"sk-******************\" # x\n");
        assert_eq!(masked(text).len(), text.len());
        assert_eq!(stars("\"né\"", 0).len(), "\"né\"".len());
    }
}
