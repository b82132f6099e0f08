//! Settings that decide what git stores of a file: held as they were before the agent could change them.
//!
//! A worktree shares its repository's configuration. An agent that defines a filter there could have another tree committed
//! than the one that the gates have judged.

use super::Worktree;
use super::git::Git;
use std::collections::BTreeMap;
use std::path::Path;

/// Settings outside of `filter.*` that change what `git add` takes or stores, and what holds where they are not set.
const SINGLE: &[(&str, &str)] = &[
    ("core.autocrlf", "false"),
    ("core.eol", "native"),
    ("core.safecrlf", "false"),
    ("core.attributesfile", ""),
    ("core.excludesfile", ""),
    ("core.filemode", "true"),
    ("core.symlinks", "true"),
    ("core.ignorecase", "false"),
];

/// The values of those settings at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pinned(BTreeMap<String, String>);

impl Pinned {
    /// Reads them. A configuration that cannot be read counts as empty: git itself will say what is wrong with it.
    pub(super) fn read(common_dir: &Path) -> Self {
        let mut values = BTreeMap::new();
        let config = Worktree::open(common_dir).ok().and_then(|repo| repo.config().ok()?.snapshot().ok());
        if let Some(config) = config
            && let Ok(mut entries) = config.entries(None)
        {
            while let Some(Ok(entry)) = entries.next() {
                let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
                if name.starts_with("filter.") || SINGLE.iter().any(|(single, _)| *single == name) {
                    values.insert(name, String::from_utf8_lossy(entry.value_bytes()).into_owned());
                }
            }
        }
        Self(values)
    }

    /// As they were kept.
    pub(super) const fn kept(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }

    /// To be kept.
    pub(super) const fn values(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// What has to be told to git so that these values hold, whatever is configured `now`.
    fn against(&self, now: &Self) -> Vec<(String, String)> {
        let changed = self.0.iter().filter(|(name, value)| now.0.get(*name) != Some(value));
        let changed = changed.map(|(name, value)| (name.clone(), value.clone()));
        let added = now.0.keys().filter(|name| !self.0.contains_key(*name));
        let added = added.map(|name| {
            let single = SINGLE.iter().find(|(single, _)| single == name).map(|(_, value)| *value);
            let value = single.unwrap_or(if name.ends_with(".required") { "false" } else { "" });
            (name.clone(), value.to_owned())
        });
        changed.chain(added).collect()
    }

    /// The git program, held to these values.
    pub(super) fn hold(&self, git: &Git, common_dir: &Path) -> Git {
        git.told(&self.against(&Self::read(common_dir)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(pairs: &[(&str, &str)]) -> Pinned {
        Pinned(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn what_was_added_is_switched_off_and_what_was_changed_is_set_back() {
        let before = pinned(&[("filter.lfs.clean", "git-lfs clean"), ("core.filemode", "true"), ("core.eol", "lf")]);
        let after = pinned(&[
            ("core.filemode", "false"),
            ("core.eol", "lf"),
            ("core.excludesfile", "/tmp/x"),
            ("filter.evil.clean", "sed"),
            ("filter.evil.required", "true"),
        ]);
        let told: BTreeMap<_, _> = before.against(&after).into_iter().collect();
        let told: Vec<_> = told.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            told,
            [
                ("core.excludesfile", ""),
                ("core.filemode", "true"),
                ("filter.evil.clean", ""),
                ("filter.evil.required", "false"),
                ("filter.lfs.clean", "git-lfs clean"),
            ]
        );
        assert_eq!(before.against(&before), []);
    }
}
