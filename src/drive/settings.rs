//! Settings of the runner itself that come from `RUNNER_*` variables: limits of model calls, and where worktrees are made.

use crate::error::{Error, Result};
use crate::model::{Http, Timeouts};
use crate::query::Patience;
use crate::spec::parse_duration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// How long a connection to a model server may take: `RUNNER_MODEL_CONNECT_TIMEOUT`.
    pub(super) connect: Duration,
    /// Limits of a model call: `RUNNER_MODEL_FIRST_BYTE_TIMEOUT`, `RUNNER_MODEL_IDLE_TIMEOUT`,
    /// `RUNNER_MODEL_CONTENT_IDLE_TIMEOUT`, `RUNNER_MODEL_TOTAL_TIMEOUT`, each a duration such as `90s`.
    pub(super) timeouts: Timeouts,
    /// `RUNNER_MODEL_RETRIES`, a number from 0 to 100; default 10.
    pub(super) patience: Patience,
    /// Where worktrees may be made, best first: `RUNNER_WORKTREES`, the user's cache folder, the folder for temporary files.
    pub(super) worktrees: Vec<PathBuf>,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// Names a variable whose value makes no sense.
    pub(super) fn from_env(env: &BTreeMap<String, String>) -> Result<Self> {
        let mut timeouts = Timeouts::default();
        let mut connect = Http::CONNECT;
        for (name, place) in [
            ("RUNNER_MODEL_CONNECT_TIMEOUT", &mut connect),
            ("RUNNER_MODEL_FIRST_BYTE_TIMEOUT", &mut timeouts.first_byte),
            ("RUNNER_MODEL_IDLE_TIMEOUT", &mut timeouts.idle),
            ("RUNNER_MODEL_CONTENT_IDLE_TIMEOUT", &mut timeouts.content_idle),
            ("RUNNER_MODEL_TOTAL_TIMEOUT", &mut timeouts.total),
        ] {
            if let Some(span) = duration(env, name)? {
                *place = span;
            }
        }
        let mut patience = Patience::default();
        if let Some(text) = set(env, "RUNNER_MODEL_RETRIES") {
            let number = text.parse().ok().filter(|number| *number <= 100);
            patience.retries = number
                .ok_or_else(|| Error::usage(format!("RUNNER_MODEL_RETRIES is a number from 0 to 100, not {text:?}")))?;
        }
        Ok(Self { connect, timeouts, patience, worktrees: worktrees(env) })
    }
}

fn duration(env: &BTreeMap<String, String>, name: &str) -> Result<Option<Duration>> {
    let Some(text) = set(env, name) else { return Ok(None) };
    match parse_duration(text) {
        Ok(span) if !span.is_zero() => Ok(Some(span)),
        Ok(_) | Err(_) => Err(Error::usage(format!("{name} is a duration such as \"90s\" or \"5m\", not {text:?}"))),
    }
}

fn worktrees(env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let absolute = |name: &str, below: &str| {
        set(env, name).map(|folder| PathBuf::from(folder).join(below)).filter(|path| path.is_absolute())
    };
    if let Some(chosen) = set(env, "RUNNER_WORKTREES") {
        return vec![PathBuf::from(chosen)];
    }
    let temporary = std::env::temp_dir().join("runner-worktrees");
    [absolute("XDG_CACHE_HOME", "runner/worktrees"), absolute("HOME", ".cache/runner/worktrees"), Some(temporary)]
        .into_iter()
        .flatten()
        .collect()
}

fn set<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    env.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variables_change_limits_and_nonsense_is_named() {
        let settings =
            Settings::from_env(&env(&[("RUNNER_MODEL_IDLE_TIMEOUT", "5s"), ("RUNNER_MODEL_RETRIES", "0")])).unwrap();
        assert_eq!(settings.timeouts.idle, Duration::from_secs(5));
        assert_eq!(settings.patience.retries, 0);
        for bad in [
            ("RUNNER_MODEL_IDLE_TIMEOUT", "banana"),
            ("RUNNER_MODEL_IDLE_TIMEOUT", "0s"),
            ("RUNNER_MODEL_RETRIES", "-1"),
        ] {
            let error = Settings::from_env(&env(&[bad])).unwrap_err().to_string();
            assert!(error.contains(bad.0) && error.contains(bad.1), "{error}");
        }
    }

    #[test]
    fn worktrees_are_made_where_the_person_wants_them() {
        let chosen = Settings::from_env(&env(&[("RUNNER_WORKTREES", "/w"), ("HOME", "/h")])).unwrap();
        assert_eq!(chosen.worktrees, [PathBuf::from("/w")]);
        let home = Settings::from_env(&env(&[("HOME", "/h")])).unwrap();
        assert_eq!(home.worktrees[0], PathBuf::from("/h/.cache/runner/worktrees"));
        assert_eq!(home.worktrees.len(), 2);
    }
}
