//! The Messages API over HTTP.

use super::anthropic::{Assembler, Extras, Refused, Requests};
use super::client::Session;
use super::http::{Http, is_local, send};
use super::ids::KnownIds;
use super::key::Key;
use super::progress::Progress;
use super::reading::CallError;
use super::waiting::Timeouts;
use crate::outcome::ModelErrorKind;
use crate::plan::ModelPlan;
use crate::query::{Failure, ModelCall, Remedy, Reply};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;
use tokio::sync::mpsc::Sender;

/// A client of a server that speaks the Messages API.
#[derive(Debug)]
pub struct Live {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    requests: Requests,
    /// What its server does not take.
    refused: Refused,
    ids: KnownIds,
    timeouts: Timeouts,
    /// What no message of ours may repeat.
    secrets: Vec<Secret>,
}

/// Text that is never shown.
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The version of the API that all its servers and gateways know.
const VERSION: &str = "2023-06-01";
/// The header that asks for what is not part of it.
const BETA: &str = "anthropic-beta";
/// The shortest header value that is taken for a secret, in bytes; shorter ones are words like `true`.
const SECRET_LENGTH: usize = 8;

/// Where and how a plan reaches its server.
pub(super) struct Address<'a> {
    pub(super) base_url: &'a str,
    pub(super) key_name: &'a str,
    pub(super) headers: &'a BTreeMap<String, String>,
}

impl Live {
    pub(super) fn new(plan: &ModelPlan, address: &Address<'_>, session: &Session, http: &Http) -> Result<Self, String> {
        let base = address.base_url.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/v1/messages")).map_err(|error| format!("base_url {base:?}: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(format!("base_url {base:?} does not begin with http:// or https://"));
        }
        let headers = headers(address, session.key.as_ref(), &url)?;
        let key = session.key.iter().map(|key| key.reveal().to_owned());
        let values = address.headers.values().filter(|value| value.len() >= SECRET_LENGTH).cloned();
        Ok(Self {
            http: http.client(&url)?,
            url,
            headers,
            requests: Requests::new(plan, &session.system, &session.tools)
                .map_err(|error| format!("the tools: {error}"))?,
            refused: Refused::default(),
            ids: KnownIds::default(),
            timeouts: session.timeouts,
            secrets: key.chain(values).map(Secret).collect(),
        })
    }

    pub(super) async fn call(&self, call: &ModelCall, progress: &Sender<Progress>) -> Result<Reply, CallError> {
        let extras = self.refused.allowed(call);
        let body = self.requests.body(call, extras).map_err(|error| (unsendable(&error), None))?;
        let request = self.http.post(self.url.clone()).headers(self.headers(extras)).body(body);
        let assembler = Assembler::new(call.id, self.ids.of(&call.history));
        send(request, self.timeouts, assembler, progress)
            .await
            .map_err(|(failure, usage)| (self.without_secrets(self.refused.judge(failure, extras)), usage))
    }

    /// The headers of a request with these extras: their betas join those that a person wrote, in one header.
    fn headers(&self, extras: Extras) -> HeaderMap {
        let mut headers = self.headers.clone();
        let written = headers.get(BETA).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut betas: Vec<&str> = written.split(',').map(str::trim).filter(|beta| !beta.is_empty()).collect();
        let before = betas.len();
        for beta in extras.betas() {
            if !betas.contains(&beta) {
                betas.push(beta);
            }
        }
        if betas.len() > before
            && let Ok(value) = HeaderValue::from_str(&betas.join(","))
        {
            headers.insert(BETA, value);
        }
        headers
    }

    fn without_secrets(&self, mut failure: Failure) -> Failure {
        for Secret(secret) in &self.secrets {
            failure.message = failure.message.replace(secret, "[redacted]");
        }
        failure
    }
}

fn headers(address: &Address<'_>, key: Option<&Key>, url: &Url) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    for (name, value) in address.headers {
        let value = HeaderValue::from_str(value.trim())
            .map_err(|_| format!("the header {name:?} has a value that cannot be sent"))?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is no name of a header"))?;
        headers.insert(name, value);
    }
    // Both at once are refused: headers that a person wrote outrank the variable.
    if headers.contains_key("authorization") || headers.contains_key("x-api-key") {
        return Ok(headers);
    }
    let name = address.key_name;
    match key {
        Some(key) => {
            let value = HeaderValue::from_str(key.reveal());
            let mut value = value.map_err(|_| format!("{name} holds characters that no key has"))?;
            value.set_sensitive(true);
            headers.insert("x-api-key", value);
        }
        None if is_local(url) => {}
        None => return Err(format!("{name} is not set: {url} needs a key")),
    }
    Ok(headers)
}

fn unsendable(error: &serde_json::Error) -> Failure {
    Failure {
        remedy: Remedy::GiveUp,
        kind: ModelErrorKind::InvalidRequest,
        message: format!("the request cannot be written: {error}"),
        request_id: None,
        status: None,
    }
}
