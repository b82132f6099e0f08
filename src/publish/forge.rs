//! The HTTP API of a forge, in GitHub's shape: one open pull request for a branch, made or brought up to date.

use super::record::PullRequest;
use crate::model::{Http, retry_after};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// One request.
const REQUEST: Duration = Duration::from_secs(30);
/// All requests and waits for one pull request.
const WHOLE: Duration = Duration::from_mins(2);
/// How often it is tried in all.
const TRIES: u32 = 5;
/// The most that is read of an answer, in bytes: a list of pull requests with their texts takes some.
const ANSWER_MAX: usize = 8 << 20;

/// A repository on a forge.
#[derive(Debug)]
pub(super) struct Forge<'a> {
    pub(super) http: &'a Http,
    /// Without a final slash.
    pub(super) api: &'a str,
    pub(super) owner: &'a str,
    pub(super) name: &'a str,
    pub(super) token: Token<'a>,
}

/// A token that is shown nowhere.
#[derive(Clone, Copy)]
pub(super) struct Token<'a>(pub(super) &'a str);

impl std::fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// What a pull request shall be.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The branch with the work, in the same repository.
    pub(super) head: String,
    /// The branch that it is for; `None`: the repository's default.
    pub(super) base: Option<String>,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) draft: bool,
}

/// Why a request did not work.
struct Fault {
    message: String,
    again: Again,
}

/// Whether another try makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// It would end the same.
    Never,
    /// After a wait of our own choice.
    Soon,
    /// After the wait that the server asks for.
    After(Duration),
}

impl Forge<'_> {
    /// Makes the pull request, or brings an open one of the same branch up to date.
    ///
    /// # Errors
    /// Says in words what the forge objects to.
    pub(super) async fn ensure(&self, wanted: &Wanted) -> Result<PullRequest, String> {
        let deadline = Instant::now() + WHOLE;
        let mut wait = Duration::from_secs(1);
        let mut tries = 0;
        loop {
            tries += 1;
            // A request that got no answer may have been heard: each try looks first.
            let fault = match self.once(wanted).await {
                Ok(made) => return Ok(made),
                Err(fault) => fault,
            };
            let pause = match fault.again {
                Again::Never => return Err(fault.message),
                Again::Soon => wait,
                Again::After(asked) => asked,
            };
            if tries == TRIES || Instant::now() + pause > deadline {
                return Err(format!("{} (after {tries} tries)", fault.message));
            }
            sleep(pause).await;
            wait *= 2;
        }
    }

    async fn once(&self, wanted: &Wanted) -> Result<PullRequest, Fault> {
        if let Some(number) = self.open_one(&wanted.head).await? {
            let text = json!({ "title": wanted.title, "body": wanted.body });
            return read(&self.call(Method::PATCH, &format!("/pulls/{number}"), &[], Some(text)).await?);
        }
        let base = match &wanted.base {
            Some(base) => base.clone(),
            None => self.default_branch().await?,
        };
        let new = json!({
            "title": wanted.title, "head": wanted.head, "base": base, "body": wanted.body, "draft": wanted.draft,
        });
        read(&self.call(Method::POST, "/pulls", &[], Some(new)).await?)
    }

    /// The number of the open pull request of a branch.
    async fn open_one(&self, branch: &str) -> Result<Option<u64>, Fault> {
        let head = format!("{}:{branch}", self.owner);
        let query = [("state", "open"), ("head", &head), ("per_page", "100")];
        let list = self.call(Method::GET, "/pulls", &query, None).await?;
        let ours = |one: &&Value| {
            let repository = one["head"]["repo"]["full_name"].as_str();
            let full = format!("{}/{}", self.owner, self.name);
            one["head"]["ref"] == branch && repository.is_none_or(|name| name.eq_ignore_ascii_case(&full))
        };
        Ok(list.as_array().into_iter().flatten().find(ours).and_then(|one| one["number"].as_u64()))
    }

    async fn default_branch(&self) -> Result<String, Fault> {
        let repository = self.call(Method::GET, "", &[], None).await?;
        repository["default_branch"].as_str().map(str::to_owned).ok_or_else(|| strange("names no default branch"))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<Value, Fault> {
        let address = format!("{}/repos/{}/{}{path}", self.api, self.owner, self.name);
        let url = Url::parse_with_params(&address, query);
        let mut url = url.map_err(|error| Fault { message: format!("{address}: {error}"), again: Again::Never })?;
        if query.is_empty() {
            url.set_query(None);
        }
        let client = self.http.client(&url).map_err(|message| Fault { message, again: Again::Never })?;
        let mut request = client
            .request(method.clone(), url)
            .bearer_auth(self.token.0)
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let what = format!("{method} {address}");
        let answer = timeout(REQUEST, async {
            let mut response = request.send().await.map_err(|error| error.without_url().to_string())?;
            let status = response.status().as_u16();
            let headers: BTreeMap<String, String> = response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
                .collect();
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| error.without_url().to_string())? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > ANSWER_MAX {
                    return Err("the answer is too long".to_owned());
                }
            }
            Ok((status, headers, bytes))
        });
        let (status, headers, bytes) = match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(Fault { message: format!("{what}: {error}"), again: Again::Soon }),
            Err(_) => return Err(Fault { message: format!("{what}: no answer"), again: Again::Soon }),
        };
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if (200..300).contains(&status) {
            return Ok(value);
        }
        Err(refusal(&what, status, &headers, &value))
    }
}

/// What an answer that is no success means.
fn refusal(what: &str, status: u16, headers: &BTreeMap<String, String>, value: &Value) -> Fault {
    let said = value["message"].as_str().unwrap_or_default();
    let details: Vec<String> = value["errors"].as_array().into_iter().flatten().map(detail).collect();
    let said = if details.is_empty() { said.to_owned() } else { format!("{said}: {}", details.join(", ")) };
    let asked = retry_after(headers);
    let limited = headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0") || said.contains("rate limit");
    let race = status == 422 && said.contains("already exists");
    let again = match status {
        429 | 500..=599 => asked.map_or(Again::Soon, Again::After),
        403 if asked.is_some() || limited => Again::After(asked.unwrap_or(Duration::from_mins(1))),
        // Somebody was quicker: the next look finds it.
        422 if race => Again::Soon,
        _ => Again::Never,
    };
    let hint = match status {
        401 => ": the forge does not know the token",
        403 if again == Again::Never => ": the token must be allowed to write contents and pull requests",
        404 => ": there is no such repository, or the token may not see it",
        _ => "",
    };
    let said = crate::report::cut::one_line(&said, 500);
    Fault { message: format!("{what}: {status} {said}{hint}"), again }
}

fn detail(error: &Value) -> String {
    let word = |name: &str| error[name].as_str().unwrap_or_default();
    if let Some(text) = error.as_str() {
        return text.to_owned();
    }
    if !word("message").is_empty() {
        return word("message").to_owned();
    }
    format!("{} {}", word("field"), word("code")).trim().to_owned()
}

fn read(value: &Value) -> Result<PullRequest, Fault> {
    let number = value["number"].as_u64().ok_or_else(|| strange("tells no number"))?;
    let url = value["html_url"].as_str().unwrap_or_default().to_owned();
    Ok(PullRequest { number, url, draft: value["draft"] == true })
}

fn strange(what: &str) -> Fault {
    Fault { message: format!("the forge's answer {what}"), again: Again::Never }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_tried_again_and_what_does_not_is_told() {
        let fault = |status, headers: &[(&str, &str)], value: Value| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let fault = refusal("POST x", status, &headers, &value);
            (fault.again, fault.message)
        };
        assert_eq!(fault(502, &[], Value::Null).0, Again::Soon);
        assert_eq!(fault(429, &[("retry-after", "7")], Value::Null).0, Again::After(Duration::from_secs(7)));
        assert_eq!(fault(403, &[("retry-after", "9")], Value::Null).0, Again::After(Duration::from_secs(9)));
        assert_eq!(fault(403, &[("x-ratelimit-remaining", "0")], Value::Null).0, Again::After(Duration::from_mins(1)));
        let (again, message) = fault(403, &[], json!({"message": "Resource not accessible by integration"}));
        assert!(
            again == Again::Never && message.contains("not accessible") && message.contains("allowed to write"),
            "{message}"
        );
        let taken =
            json!({"message": "Validation Failed", "errors": [{"message": "A pull request already exists for o:b."}]});
        assert_eq!(fault(422, &[], taken).0, Again::Soon);
        let bad = json!({"message": "Validation Failed", "errors": [{"field": "base", "code": "invalid"}]});
        assert_eq!(fault(422, &[], bad), (Again::Never, "POST x: 422 Validation Failed: base invalid".into()));
    }
}
