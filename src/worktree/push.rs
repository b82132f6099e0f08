//! Pushing one commit to one branch, with a secret that no argument, address or file ever holds.

use super::Quarantine;
use super::git::{ALL_FILES, Git};
use base64::Engine as _;
use std::fmt;
use tokio_util::sync::CancellationToken;

/// The variables of the git process that hold what its credential helper answers.
const USER: &str = "RUNNER_GIT_USER";
const SECRET: &str = "RUNNER_GIT_SECRET";

/// The helper: a function of the shell that git starts for it, whose `printf` is its own and starts no further process.
const HELPER: &str = "!answer() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$RUNNER_GIT_USER\" \"$RUNNER_GIT_SECRET\"; }; answer";

/// Who pushes.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name; most forges ignore it beside a token.
    pub user: String,
    /// The token or password.
    pub secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The text without the secret, and without the header that is made of it.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        let header = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", self.user, self.secret));
        text.replace(&self.secret, "[redacted]").replace(&header, "[redacted]")
    }
}

/// What a push did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The branch is at the commit now.
    Now,
    /// It was there already.
    Before,
}

/// Why a push did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushFault {
    /// The branch holds work that this commit does not stand on.
    Foreign(String),
    /// The server said no to it: a protected branch, a hook, a rule.
    Refused(String),
    /// The server does not know who pushes, or allows it too little.
    Denied(String),
    /// The server could not be reached, or failed.
    Unreachable(String),
}

impl Quarantine {
    /// Pushes a commit that was taken in to a branch of a server. Work of others there is never overwritten.
    ///
    /// `url` holds no secret. With credentials git reads no settings of the person's, and sends them to the host of `url`
    /// alone; without them git's own ways of the person are used (a credential helper, an SSH agent).
    ///
    /// # Errors
    /// A fault, in words and without the secret.
    pub async fn push(
        &self,
        url: &str,
        commit: &str,
        branch: &str,
        credentials: Option<&Credentials>,
    ) -> Result<Pushed, PushFault> {
        let git = with_credentials(&self.git, url, credentials);
        let refspec = format!("{commit}:refs/heads/{branch}");
        let args = ["push", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no", url, &refspec];
        let pushed = git.run(self.path(), &args, ALL_FILES, &CancellationToken::new()).await;
        let redacted = |text: &str| credentials.map_or_else(|| text.to_owned(), |known| known.redacted(text));
        match pushed {
            Ok(said) if said.lines().any(|line| line.starts_with("=\t")) => Ok(Pushed::Before),
            Ok(_) => Ok(Pushed::Now),
            Err(error) => Err(fault(&redacted(&error.said), &redacted(&error.message))),
        }
    }
}

fn with_credentials(git: &Git, url: &str, credentials: Option<&Credentials>) -> Git {
    let mut settings: Vec<(String, String)> = [
        ("http.followRedirects", "false"),
        ("http.lowSpeedLimit", "1"),
        ("http.lowSpeedTime", "60"),
        ("protocol.ext.allow", "never"),
        ("push.followTags", "false"),
        ("push.negotiate", "false"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let Some(credentials) = credentials else { return git.told(&settings) };
    settings.push(("credential.helper".into(), String::new()));
    settings.push((format!("credential.{}.helper", origin(url)), HELPER.into()));
    git.told(&settings)
        .given("GIT_CONFIG_GLOBAL", "/dev/null")
        .given(USER, &credentials.user)
        .given(SECRET, &credentials.secret)
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    &url[..end]
}

/// What git's words mean.
fn fault(said: &str, message: &str) -> PushFault {
    let has = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    let line = said.lines().find(|line| line.starts_with("!\t")).unwrap_or_default();
    let reason = line.rsplit('\t').next().filter(|text| !text.is_empty()).unwrap_or(message).to_owned();
    if line.contains("[rejected]") || has(&["(non-fast-forward)", "(fetch first)", "(stale info)"]) {
        return PushFault::Foreign(reason);
    }
    if line.contains("[remote rejected]") {
        // The server's own words stand above the line.
        let remote: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("remote: ")).map(str::trim).collect();
        return PushFault::Refused(format!("{reason} {}", remote.join(" ")).trim().to_owned());
    }
    if has(&["Authentication failed", "could not read Username", "could not read Password", "error: 403", "error: 401"])
        || has(&["Permission denied", "Permission to", "Host key verification failed"])
    {
        return PushFault::Denied(message.to_owned());
    }
    PushFault::Unreachable(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_apart() {
        let told = |said: &str| match fault(said, "whole") {
            PushFault::Foreign(text) => format!("foreign {text}"),
            PushFault::Refused(text) => format!("refused {text}"),
            PushFault::Denied(text) => format!("denied {text}"),
            PushFault::Unreachable(text) => format!("unreachable {text}"),
        };
        assert_eq!(
            told("To http://h/x\n!\ta:refs/heads/b\t[rejected] (fetch first)\nDone\n"),
            "foreign [rejected] (fetch first)"
        );
        assert_eq!(
            told("remote: error: no workflows\n!\ta:b\t[remote rejected] (pre-receive hook declined)\n"),
            "refused [remote rejected] (pre-receive hook declined) error: no workflows"
        );
        assert_eq!(told("fatal: Authentication failed for 'http://h/'"), "denied whole");
        assert_eq!(told("fatal: unable to access 'x': The requested URL returned error: 403"), "denied whole");
        assert_eq!(told("fatal: unable to access 'x': Could not resolve host: h"), "unreachable whole");
    }

    #[test]
    fn a_secret_is_nowhere_in_words() {
        let credentials = Credentials { user: "bot".into(), secret: "s3cret-token".into() };
        assert!(!format!("{credentials:?}").contains("s3cret"));
        let text = credentials.redacted("x s3cret-token, Basic Ym90OnMzY3JldC10b2tlbg== y");
        assert_eq!(text, "x [redacted], Basic [redacted] y");
        assert_eq!(origin("https://h:8/a/b"), "https://h:8");
        assert_eq!(origin("http://h"), "http://h");
    }
}
