//! The environment of children: an allow-list, no secrets, nothing that waits for a person.

use std::collections::BTreeMap;

/// The whole environment of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

/// Handed on from the runner's own environment: who and where we are, and where tools keep what they have.
const ALLOWED: &[&str] = &[
    // The system.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // Certificates and proxies.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    // Toolchains.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "MAVEN_HOME",
    "M2_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "NVM_DIR",
    "FNM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "NPM_CONFIG_CACHE",
    "npm_config_cache",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "PIP_CACHE_DIR",
    "UV_CACHE_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_PATH",
    "DOTNET_ROOT",
    "NUGET_PACKAGES",
    "CC",
    "CXX",
    "PKG_CONFIG_PATH",
    "NIX_PATH",
];

/// Never handed on, even by name: what would point git or a build at somebody else's files. A shared target folder
/// makes worktrees build each other's code.
const REFUSED: &[&str] = &[
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// Set for each child, so that no program opens an editor, a pager or a prompt.
const QUIET: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS", "true"),
    ("SSH_ASKPASS_REQUIRE", "force"),
    ("SUDO_ASKPASS", "true"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("NPM_CONFIG_YES", "true"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
];

/// The shortest secret that is looked for in the values of other variables; a shorter one could be any word.
const SECRET_MIN: usize = 8;

impl Environment {
    /// Builds it from the runner's own environment.
    ///
    /// `pass` names further variables to hand on; `set` is what the job file says and outranks all else. Variables in
    /// `secret_names`, and any with the value of one of them, are never handed on.
    #[must_use]
    pub fn build(
        parent: &BTreeMap<String, String>,
        pass: &[String],
        set: &BTreeMap<String, String>,
        secret_names: &[String],
    ) -> Self {
        let secrets: Vec<&String> =
            secret_names.iter().filter_map(|name| parent.get(name)).filter(|value| value.len() >= SECRET_MIN).collect();
        let wanted = |name: &String| ALLOWED.contains(&name.as_str()) || name.starts_with("LC_") || pass.contains(name);
        let fit = |name: &String, value: &String| {
            !REFUSED.contains(&name.as_str()) && !secret_names.contains(name) && !secrets.contains(&value)
        };
        let mut env = Self::default();
        for (name, value) in parent.iter().filter(|(name, value)| wanted(name) && fit(name, value)) {
            env.set(name, value);
        }
        for (name, value) in QUIET {
            env.set(*name, *value);
        }
        for (name, value) in set {
            env.set(name, value);
        }
        env
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes a variable away.
    pub fn unset(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_listed_and_named_variables_are_handed_on() {
        let parent = map(&[("PATH", "/bin"), ("LC_ALL", "C"), ("CI", "1"), ("NPM_TOKEN", "t"), ("PWD", "/x")]);
        let env = Environment::build(&parent, &names(&["CI", "ABSENT"]), &BTreeMap::new(), &[]);
        let handed_on: Vec<_> =
            env.iter().map(|(name, _)| name.as_str()).filter(|name| parent.contains_key(*name)).collect();
        assert_eq!(handed_on, ["CI", "LC_ALL", "PATH"]);
        assert_eq!(env.get("ABSENT"), None);
    }

    #[test]
    fn secrets_never_pass_under_any_name() {
        let parent = map(&[("API_KEY", "sk-0123456789"), ("COPY", "sk-0123456789"), ("SHORT", "x"), ("OTHER", "x")]);
        let pass = names(&["API_KEY", "COPY", "SHORT", "OTHER"]);
        let env = Environment::build(&parent, &pass, &BTreeMap::new(), &names(&["API_KEY", "SHORT"]));
        assert_eq!(["API_KEY", "COPY", "SHORT", "OTHER"].map(|name| env.get(name)), [None, None, None, Some("x")]);
    }

    #[test]
    fn b126_shared_folders_and_git_locations_never_pass() {
        let parent =
            map(&[("CARGO_TARGET_DIR", "/t"), ("GIT_DIR", "/g"), ("GIT_INDEX_FILE", "/i"), ("GIT_TRACE", "1")]);
        let pass = names(&["CARGO_TARGET_DIR", "GIT_DIR", "GIT_INDEX_FILE"]);
        let env = Environment::build(&parent, &pass, &BTreeMap::new(), &[]);
        for name in parent.keys() {
            assert_eq!(env.get(name), None, "{name}");
        }
    }

    #[test]
    fn b139_editors_pagers_and_prompts_are_off_unless_the_job_says_otherwise() {
        let parent = map(&[("EDITOR", "vim"), ("PAGER", "less"), ("TERM", "xterm")]);
        let env = Environment::build(&parent, &names(&["EDITOR"]), &map(&[("PAGER", "more")]), &[]);
        assert_eq!(["EDITOR", "PAGER", "TERM"].map(|name| env.get(name)), [Some("true"), Some("more"), Some("dumb")]);
    }
}
