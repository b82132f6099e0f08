//! Which variables hold secrets: their values are kept out of every report, and keys out of every child.

use crate::plan::{PlannedJob, Provider};
use crate::report::redact::Secret;
use std::collections::BTreeMap;

/// Words in a variable's name that make its value a secret.
const WORDS: [&str; 8] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE"];

/// The names of the variables that hold model keys: those that the jobs name, and those that providers use by default.
pub(super) fn key_names(jobs: &[PlannedJob]) -> Vec<String> {
    let mut names: Vec<String> =
        ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"].map(str::to_owned).to_vec();
    names.extend(jobs.iter().filter_map(|job| match &job.model.provider {
        Provider::Anthropic { api_key_env, .. } => Some(api_key_env.clone()),
        Provider::Replay { .. } => None,
    }));
    names.sort();
    names.dedup();
    names
}

/// Names and values that no report may show.
pub(super) fn hidden(env: &BTreeMap<String, String>, keys: &[String]) -> Vec<Secret> {
    let secret = |name: &String| keys.contains(name) || is_secret(name);
    let hide = |(name, value): (&String, &String)| Secret { name: name.clone(), value: value.clone() };
    env.iter().filter(|(name, _)| secret(name)).map(hide).collect()
}

/// Whether a variable of this name holds a secret: a word of [`WORDS`] stands at the end of the name or between underscores.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.split('_').any(|part| WORDS.iter().any(|word| part == *word || part.strip_suffix('S') == Some(*word)))
        || WORDS.iter().any(|word| name.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in
            ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "my_password", "DB_PASSWORD_PROD", "AWS_SECRET_ACCESS_KEY", "APIKEY"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "KEYBOARD", "MONKEY_ISLAND", "TOKENIZERS_PARALLELISM", "XDG_CACHE_HOME"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
