//! The keys that exist, table by table, each with an example; and the one that was probably meant.

/// The tables of a job file, and of `runner.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Settings,
    Job,
    Model,
    Thinking,
    Worktree,
    StopHook,
    ToolHook,
    TokenBudget,
    Group,
    Publish,
}

/// A key and an example of its use.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) example: &'static str,
}

const fn key(name: &'static str, example: &'static str) -> Key {
    Key { name, example }
}

const SETTINGS: &[Key] = &[key("defaults", "[defaults]")];

const JOB: &[Key] = &[
    key("name", "name = \"fix-parse-empty\""),
    key("description", "description = \"one line for reports\""),
    key("prompt", "prompt = \"The test `parse_empty` panics. Find out why and fix it.\""),
    key("prompt_file", "prompt_file = \"prompts/fix.md\""),
    key("follow_ups", "follow_ups = [\"Now add a regression test.\"]"),
    key("max_turns", "max_turns = 40"),
    key("token_budget", "token_budget = 400_000, or token_budget = { total = 400_000, keep_working = true }"),
    key("task_budget", "task_budget = 200_000"),
    key("loop_limit", "loop_limit = 12"),
    key("max_cost_usd", "max_cost_usd = 3.0"),
    key("timeout", "timeout = \"45m\""),
    key("retries", "retries = 1"),
    key("retry_on", "retry_on = [\"rate_limited\", \"stream\"]"),
    key("attempts", "attempts = 3"),
    key("needs", "needs = [\"other-job\"]"),
    key("priority", "priority = 10"),
    key("group", "group = { name = \"db\", max = 1 }"),
    key("tags", "tags = [\"nightly\"]"),
    key("protect", "protect = [\"tests/**\"]"),
    key("require_changes", "require_changes = true"),
    key("matrix", "matrix = { file = [\"a.rs\", \"b.rs\"], level = [1, 2] }"),
    key("context_files", "context_files = [\"AGENTS.md\"]"),
    key("repo", "repo = \".\""),
    key("model", "model = \"claude-sonnet-5-5\", or a table [model]"),
    key("worktree", "[worktree]"),
    key("publish", "[publish]"),
    key("stop_hooks", "[[stop_hooks]]"),
    key("tool_hooks", "[[tool_hooks]]"),
];

const MODEL: &[Key] = &[
    key("provider", "provider = \"anthropic\""),
    key("name", "name = \"claude-sonnet-5-5\""),
    key("fallback", "fallback = \"claude-haiku-5-5\""),
    key("small", "small = \"claude-haiku-5-5\""),
    key("base_url", "base_url = \"https://api.anthropic.com\""),
    key("api_key_env", "api_key_env = \"ANTHROPIC_API_KEY\""),
    key("max_output_tokens", "max_output_tokens = 8192"),
    key("thinking", "thinking = \"adaptive\", or thinking = { budget_tokens = 4096 }"),
    key("context_window", "context_window = 200_000"),
    key("headers", "headers = { x-team = \"tools\" }"),
    key("cassette", "cassette = \"fix.cassette.jsonl\""),
];

const THINKING: &[Key] = &[key("budget_tokens", "budget_tokens = 4096")];

const WORKTREE: &[Key] = &[
    key("base", "base = \"HEAD\""),
    key("branch", "branch = \"runner/{{ run }}/{{ job }}\""),
    key("setup", "setup = [\"npm ci\"]"),
    key("env", "env = { RUST_BACKTRACE = \"1\" }"),
    key("pass_env", "pass_env = [\"CI\"]"),
    key("keep", "keep = \"on_failure\""),
    key("fixture", "fixture = \"fixtures/off-by-one\""),
];

const STOP_HOOK: &[Key] = &[
    key("name", "name = \"tests\""),
    key("run", "run = \"cargo test\", or run = [\"cargo\", \"test\"]"),
    key("kind", "kind = \"gate\", or kind = \"hook\""),
    key("timeout", "timeout = \"10m\""),
    key("max_blocks", "max_blocks = 5"),
    key("on_fail", "on_fail = \"block\""),
    key("before", "before = \"fail\""),
    key("retries", "retries = 1"),
];

const TOKEN_BUDGET: &[Key] = &[key("total", "total = 400_000"), key("keep_working", "keep_working = true")];

const PUBLISH: &[Key] = &[
    key("on_pass", "on_pass = \"branch\""),
    key("commit_message", "commit_message = \"fix: {{ job }}\""),
    key("author", "author = \"Build Bot <bot@example.org>\""),
];

const GROUP: &[Key] = &[key("name", "name = \"db\""), key("max", "max = 1")];

const TOOL_HOOK: &[Key] = &[
    key("event", "event = \"pre\""),
    key("match", "match = \"Bash\""),
    key("run", "run = \"./deny-network.sh\", or run = [\"sh\", \"deny-network.sh\"]"),
    key("timeout", "timeout = \"10m\""),
];

impl Table {
    /// The tables that keys of a job file may stand in.
    const OF_A_JOB: [Self; 9] = [
        Self::Job,
        Self::Model,
        Self::Worktree,
        Self::StopHook,
        Self::ToolHook,
        Self::Thinking,
        Self::TokenBudget,
        Self::Group,
        Self::Publish,
    ];

    pub(super) const fn keys(self) -> &'static [Key] {
        match self {
            Self::Settings => SETTINGS,
            Self::Job => JOB,
            Self::Model => MODEL,
            Self::Thinking => THINKING,
            Self::Worktree => WORKTREE,
            Self::StopHook => STOP_HOOK,
            Self::ToolHook => TOOL_HOOK,
            Self::TokenBudget => TOKEN_BUDGET,
            Self::Group => GROUP,
            Self::Publish => PUBLISH,
        }
    }

    /// The table as it is written, with its article where one is needed.
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Settings => "the top level of runner.toml",
            Self::Job => "the top level of a job",
            Self::Model => "[model]",
            Self::Thinking => "`thinking`",
            Self::Worktree => "[worktree]",
            Self::StopHook => "[[stop_hooks]]",
            Self::ToolHook => "[[tool_hooks]]",
            Self::TokenBudget => "`token_budget`",
            Self::Group => "`group`",
            Self::Publish => "[publish]",
        }
    }

    /// What its keys are prefixed with in a full name: `model.`.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Settings | Self::Job => "",
            Self::Model => "model.",
            Self::Thinking => "model.thinking.",
            Self::Worktree => "worktree.",
            Self::StopHook => "stop_hooks.",
            Self::ToolHook => "tool_hooks.",
            Self::TokenBudget => "token_budget.",
            Self::Group => "group.",
            Self::Publish => "publish.",
        }
    }

    pub(super) fn example(self, name: &str) -> &'static str {
        self.keys().iter().find(|key| key.name == name).map_or("", |key| key.example)
    }
}

/// What may have been meant by a key that does not exist where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// This key, at another place.
    Elsewhere(Table),
    /// A key of the same table, with a similar name.
    Similar(&'static str),
    /// A key with a similar name, at another place.
    SimilarElsewhere(&'static str, Table),
    /// A key of a job, in `runner.toml`.
    UnderDefaults,
    /// Nothing that exists.
    Unknown,
}

/// Finds out what may have been meant by `name` in `table`.
pub(super) fn meant(table: Table, name: &str) -> Meant {
    if table == Table::Settings && JOB.iter().any(|key| key.name == name) {
        return Meant::UnderDefaults;
    }
    if table == Table::Settings {
        return nearest(table.keys(), name).map_or(Meant::Unknown, |(near, _)| Meant::Similar(near));
    }
    let others = || Table::OF_A_JOB.into_iter().filter(move |other| *other != table);
    let exact = others().find(|other| other.keys().iter().any(|key| key.name == name));
    let near = nearest(table.keys(), name);
    match (exact, near) {
        (_, Some((near, distance))) if distance <= 1 => Meant::Similar(near),
        (Some(other), _) => Meant::Elsewhere(other),
        (None, Some((near, _))) => Meant::Similar(near),
        (None, None) => {
            let elsewhere = others()
                .filter_map(|other| nearest(other.keys(), name).map(|(near, distance)| (distance, near, other)))
                .min_by_key(|(distance, ..)| *distance)
                .map(|(_, near, other)| Meant::SimilarElsewhere(near, other));
            let related = || table.keys().iter().find(|key| share_a_word(key.name, name));
            elsewhere.or_else(|| related().map(|key| Meant::Similar(key.name))).unwrap_or(Meant::Unknown)
        }
    }
}

/// The word nearest to `text`, if any is near.
pub fn nearest_word<'a>(words: &[&'a str], text: &str) -> Option<&'a str> {
    let near = |word: &&'a str| Some((distance(word, text), *word)).filter(|(d, _)| *d <= allowance(text));
    words.iter().filter_map(near).min_by_key(|(d, _)| *d).map(|(_, word)| word)
}

fn nearest(keys: &'static [Key], name: &str) -> Option<(&'static str, usize)> {
    let near = |key: &'static Key| Some((key.name, distance(key.name, name))).filter(|(_, d)| *d <= allowance(name));
    keys.iter().filter_map(near).min_by_key(|(_, d)| *d)
}

/// Whether two names have a word of at least four letters in common, singular and plural alike: `tokens` and
/// `token_budget`.
fn share_a_word(a: &str, b: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        let words = name.split(['_', '-']).map(|word| word.to_lowercase().trim_end_matches('s').to_owned());
        words.filter(|word| word.len() >= 4).collect()
    };
    let of_b = words(b);
    words(a).iter().any(|word| of_b.contains(word))
}

/// How many edits still make a misspelling: one of a short word, a third of a long one.
fn allowance(name: &str) -> usize {
    (name.chars().count() / 3).max(1)
}

/// The number of insertions, deletions, replacements and swaps of neighbours between two words, case and the
/// difference of `-` and `_` aside.
fn distance(a: &str, b: &str) -> usize {
    let letters = |word: &str| -> Vec<char> { word.to_lowercase().replace('-', "_").chars().take(64).collect() };
    let (a, b) = (letters(a), letters(b));
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b185_a_misspelt_key_finds_its_key() {
        assert_eq!(meant(Table::Job, "max_turn"), Meant::Similar("max_turns"));
        assert_eq!(meant(Table::Job, "max-turns"), Meant::Similar("max_turns"));
        assert_eq!(meant(Table::Job, "promtp"), Meant::Similar("prompt"));
        assert_eq!(meant(Table::StopHook, "max_block"), Meant::Similar("max_blocks"));
        assert_eq!(meant(Table::ToolHook, "matcher"), Meant::Similar("match"));
        assert_eq!(meant(Table::Job, "budgets"), Meant::Similar("token_budget"));
        assert_eq!(meant(Table::Job, "sandbox"), Meant::Unknown);
        assert_eq!(meant(Table::Settings, "default"), Meant::Similar("defaults"));
        assert_eq!(meant(Table::Settings, "max_turns"), Meant::UnderDefaults);
    }

    #[test]
    fn b185_a_key_at_the_wrong_level_finds_its_table() {
        assert_eq!(meant(Table::Job, "branch"), Meant::Elsewhere(Table::Worktree));
        assert_eq!(meant(Table::Worktree, "max_turns"), Meant::Elsewhere(Table::Job));
        assert_eq!(meant(Table::Model, "budget_tokens"), Meant::Elsewhere(Table::Thinking));
        assert_eq!(meant(Table::ToolHook, "max_blocks"), Meant::Elsewhere(Table::StopHook));
        assert_eq!(meant(Table::Job, "keep_working"), Meant::Elsewhere(Table::TokenBudget));
        assert_eq!(meant(Table::Job, "base_ulr"), Meant::SimilarElsewhere("base_url", Table::Model));
    }

    #[test]
    fn distances() {
        for (a, b, edits) in [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3), ("A-b", "a_b", 0)] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
        assert_eq!(nearest_word(&["never", "always"], "alway"), Some("always"));
        assert_eq!(nearest_word(&["never", "always"], "maybe"), None);
    }
}
