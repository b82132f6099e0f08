//! Where is pushed to, and who pushes: addresses taken apart, the token chosen. Pure.

use crate::worktree::Credentials;
use reqwest::Url;
use std::collections::BTreeMap;
use std::path::Path;

/// The variable with the token that publishing uses before all others.
pub const TOKEN: &str = "RUNNER_PUBLISH_TOKEN";
/// The variable that names another variable with the token.
pub const TOKEN_ENV: &str = "RUNNER_PUBLISH_TOKEN_ENV";
/// Tokens of GitHub, which go to no other server.
const GITHUB_TOKENS: [&str; 2] = ["GITHUB_TOKEN", "GH_TOKEN"];
/// The name that goes with a token where none is set: GitHub wants this one, the others take any.
const USER: &str = "x-access-token";

/// The names of all variables that may hold the token: no tool, gate, hook or setup command ever sees them.
#[must_use]
pub fn token_names(env: &BTreeMap<String, String>) -> Vec<String> {
    let named = env.get(TOKEN_ENV).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let usual = std::iter::once(TOKEN).chain(GITHUB_TOKENS).map(str::to_owned);
    usual.chain(named).collect()
}

/// How a remote is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// HTTPS, or HTTP to this machine: with a token.
    Http,
    /// HTTP to another machine: without one, since everybody on the way would read it.
    OpenHttp,
    /// SSH: with the person's own keys.
    Ssh,
    /// A folder.
    Folder,
}

/// A remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its address, without a password.
    pub url: String,
    /// How it is reached.
    pub way: Way,
    /// Its host, with the port if it has one of its own.
    host: Option<String>,
    /// Name and password that stood in the address.
    embedded: Option<Credentials>,
    /// Owner and name of the repository on a forge.
    pub repository: Option<(String, String)>,
}

impl Remote {
    /// Takes an address apart.
    ///
    /// # Errors
    /// Says in words what is wrong with it, without its password.
    pub fn parse(address: &str) -> Result<Self, String> {
        let address = address.trim();
        if address.starts_with('-') || address.contains("::") || address.chars().any(char::is_control) {
            return Err("the address of the remote is none that is pushed to".into());
        }
        let Some((scheme, _)) = address.split_once("://") else { return Ok(Self::short(address)) };
        match scheme {
            "http" | "https" => Self::http(address),
            "ssh" | "git+ssh" => {
                let url = Url::parse(address).map_err(|error| format!("the address of the remote: {error}"))?;
                let host = url.host_str().map(str::to_owned);
                Ok(Self::new(address, Way::Ssh, host, names(url.path())))
            }
            "file" => Ok(Self::new(address, Way::Folder, None, None)),
            _ => Err(format!("the remote is reached by `{scheme}`; a branch is pushed by https, ssh or to a folder")),
        }
    }

    fn new(url: &str, way: Way, host: Option<String>, repository: Option<(String, String)>) -> Self {
        Self { url: url.to_owned(), way, host, embedded: None, repository }
    }

    /// `host:path` or a folder.
    fn short(address: &str) -> Self {
        match address.split_once(':') {
            Some((host, path)) if !host.contains('/') => {
                let host = host.rsplit('@').next().map(str::to_owned);
                Self::new(address, Way::Ssh, host, names(path))
            }
            Some(_) | None => Self::new(address, Way::Folder, None, None),
        }
    }

    fn http(address: &str) -> Result<Self, String> {
        let mut url = Url::parse(address).map_err(|error| format!("the address of the remote: {error}"))?;
        let plain = |text: &str| percent_decoded(text);
        let password = url.password().map(plain).filter(|text| !text.is_empty());
        let embedded = password.map(|secret| Credentials { user: plain(url.username()), secret });
        // Neither fails for an address with a host, which an HTTP address has.
        let cleaned = url.set_password(None).and_then(|()| url.set_username(""));
        cleaned.map_err(|()| "the address of the remote has no host".to_owned())?;
        let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let local = name == "localhost" || name.parse().is_ok_and(|at: std::net::IpAddr| at.is_loopback());
        let way = if url.scheme() == "https" || local { Way::Http } else { Way::OpenHttp };
        let host = url.port().map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
        Ok(Self { embedded, ..Self::new(url.as_str(), way, Some(host), names(url.path())) })
    }

    /// The same, with a folder's path from `root`, as git takes it.
    #[must_use]
    pub fn seen_from(mut self, root: &Path) -> Self {
        if self.way == Way::Folder && !self.url.contains("://") {
            self.url = root.join(&self.url).display().to_string();
        }
        self
    }

    /// Who pushes: the variable that was named, [`TOKEN`], GitHub's own for GitHub's own host, or what stood in the address. `None`
    /// leaves it to git: a credential helper, or a key.
    ///
    /// # Errors
    /// Says that the named variable is empty, or that the token would be sent in clear.
    pub fn credentials(
        &self,
        env: &BTreeMap<String, String>,
        token_env: Option<&str>,
    ) -> Result<Option<Credentials>, String> {
        if matches!(self.way, Way::Ssh | Way::Folder) {
            return Ok(None);
        }
        let user = set(env, "RUNNER_PUBLISH_USER").unwrap_or(USER).to_owned();
        let named = token_env.or_else(|| set(env, TOKEN_ENV));
        let secret = match named {
            Some(name) => {
                let value = set(env, name);
                Some(value.ok_or_else(|| format!("the variable {name}, which should hold the token, is not set"))?)
            }
            None => self.usual_token(env),
        };
        let found =
            secret.map(|secret| Credentials { user, secret: secret.to_owned() }).or_else(|| self.embedded.clone());
        if found.is_some() && self.way == Way::OpenHttp {
            return Err(format!("{} is not encrypted: a token is sent by https alone", self.url));
        }
        Ok(found)
    }

    /// The token for the forge's API, whatever way is pushed by.
    #[must_use]
    pub fn api_token(&self, env: &BTreeMap<String, String>, token_env: Option<&str>) -> Option<String> {
        let named = token_env.or_else(|| set(env, TOKEN_ENV)).map(|name| set(env, name));
        let token = named.unwrap_or_else(|| self.usual_token(env)).map(str::to_owned);
        token.or_else(|| self.embedded.as_ref().map(|known| known.secret.clone()))
    }

    /// Where the forge's API is: as told, or as GitHub has it at this host.
    ///
    /// # Errors
    /// Says that it cannot be known, or must not be used.
    pub fn api(&self, told: Option<&str>, env: &BTreeMap<String, String>) -> Result<String, String> {
        let told = told.or_else(|| set(env, "RUNNER_PUBLISH_API_URL"));
        let told = told.or_else(|| set(env, "GITHUB_API_URL").filter(|_| self.is_github(env)));
        let url = match (told, self.host.as_deref()) {
            (Some(url), _) => url.trim_end_matches('/').to_owned(),
            (None, Some("github.com" | "ssh.github.com")) => "https://api.github.com".to_owned(),
            (None, Some(host)) => format!("https://{host}/api/v3"),
            (None, None) => {
                return Err(format!(
                    "{} is no forge: say where its API is by --api-url or RUNNER_PUBLISH_API_URL",
                    self.url
                ));
            }
        };
        match Self::http(&url).map(|api| (api.way, api.embedded.is_some())) {
            Ok((Way::Http, false)) => Ok(url),
            Ok((_, true)) => Err("the address of the API holds a password; a token comes in a variable".into()),
            Ok(_) => Err(format!("{url} is not encrypted: a token is sent by https alone")),
            Err(problem) => Err(problem.replace("remote", "API")),
        }
    }

    fn usual_token<'a>(&self, env: &'a BTreeMap<String, String>) -> Option<&'a str> {
        set(env, TOKEN).or_else(|| GITHUB_TOKENS.iter().filter(|_| self.is_github(env)).find_map(|name| set(env, name)))
    }

    fn is_github(&self, env: &BTreeMap<String, String>) -> bool {
        let server = set(env, "GITHUB_SERVER_URL").unwrap_or("https://github.com");
        let server = Self::http(server).ok().and_then(|server| server.host);
        self.host.is_some() && self.host == server
    }
}

fn set<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    env.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// Owner and name: the last two parts of a path.
fn names(path: &str) -> Option<(String, String)> {
    let path = path.trim_matches('/');
    let mut parts = path.strip_suffix(".git").unwrap_or(path).rsplit('/');
    let (name, owner) = (parts.next()?, parts.next()?);
    let fit = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    (fit(owner) && fit(name)).then(|| (owner.to_owned(), name.to_owned()))
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(code) = code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(code);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn remote(url: &str) -> Remote {
        Remote::parse(url).unwrap()
    }

    fn names_of(url: &str) -> String {
        remote(url).repository.map_or_else(|| "-".into(), |(owner, name)| format!("{owner}/{name}"))
    }

    #[test]
    fn addresses_are_taken_apart() {
        for (url, way, names) in [
            ("https://github.com/o/r.git", Way::Http, "o/r"),
            ("https://ghe.example.org:8443/scm/o/r/", Way::Http, "o/r"),
            ("http://127.0.0.1:4180/git/acme/demo.git", Way::Http, "acme/demo"),
            ("http://git.example.org/o/r", Way::OpenHttp, "o/r"),
            ("git@github.com:o/r.git", Way::Ssh, "o/r"),
            ("ssh://git@host:22/o/r", Way::Ssh, "o/r"),
            ("/srv/git/r.git", Way::Folder, "-"),
            ("../r.git", Way::Folder, "-"),
            ("file:///srv/r.git", Way::Folder, "-"),
        ] {
            assert_eq!((remote(url).way, names_of(url).as_str()), (way, names), "{url}");
        }
        for bad in ["ext::sh -c x", "--upload-pack=x", "ftp://h/x", "https://", "git://h/x", "https://h/\nx"] {
            assert!(Remote::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_taken_out_of_it() {
        let remote = remote("https://bot:p%40ss-word@git.example.org/o/r.git");
        assert_eq!(remote.url, "https://git.example.org/o/r.git");
        let known = remote.credentials(&env(&[]), None).unwrap().unwrap();
        assert_eq!((known.user.as_str(), known.secret.as_str()), ("bot", "p@ss-word"));
        assert!(!format!("{remote:?}").contains("p@ss"));
    }

    #[test]
    fn the_token_is_the_one_that_was_named_and_github_s_goes_to_github_alone() {
        let all = env(&[("RUNNER_PUBLISH_TOKEN", "ours"), ("GITHUB_TOKEN", "theirs"), ("MINE", "mine")]);
        let github = remote("https://github.com/o/r");
        let secret = |remote: &Remote, env: &BTreeMap<String, String>, named| {
            remote.credentials(env, named).map(|known| known.map(|known| known.secret))
        };
        assert_eq!(secret(&github, &all, Some("MINE")), Ok(Some("mine".into())));
        assert_eq!(secret(&github, &all, None), Ok(Some("ours".into())));
        assert!(secret(&github, &all, Some("NOT_SET")).unwrap_err().contains("NOT_SET"));
        let only = env(&[("GITHUB_TOKEN", "theirs")]);
        assert_eq!(secret(&github, &only, None), Ok(Some("theirs".into())));
        assert_eq!(secret(&remote("https://evil.example.org/o/r"), &only, None), Ok(None));
        let ghes = env(&[("GITHUB_TOKEN", "theirs"), ("GITHUB_SERVER_URL", "https://ghe.example.org")]);
        assert_eq!(secret(&remote("https://ghe.example.org/o/r"), &ghes, None), Ok(Some("theirs".into())));
        assert_eq!(secret(&github, &ghes, None), Ok(None));
        assert_eq!(secret(&remote("git@github.com:o/r"), &all, None), Ok(None));
        assert!(secret(&remote("http://git.example.org/o/r"), &all, None).unwrap_err().contains("not encrypted"));
        assert_eq!(token_names(&env(&[("RUNNER_PUBLISH_TOKEN_ENV", "MINE")])).last().map(String::as_str), Some("MINE"));
    }

    #[test]
    fn the_api_is_where_the_forge_has_it() {
        let api = |url: &str, told| remote(url).api(told, &env(&[]));
        assert_eq!(api("git@github.com:o/r", None), Ok("https://api.github.com".into()));
        assert_eq!(api("https://ghe.example.org/o/r", None), Ok("https://ghe.example.org/api/v3".into()));
        assert_eq!(api("/srv/r", Some("http://127.0.0.1:9/")), Ok("http://127.0.0.1:9".into()));
        assert!(api("/srv/r", None).unwrap_err().contains("--api-url"));
        assert!(api("https://h/o/r", Some("http://h/api")).unwrap_err().contains("not encrypted"));
        assert!(api("https://h/o/r", Some("https://a:secret@h/api")).unwrap_err().contains("password"));
    }
}
