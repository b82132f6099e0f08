//! HTTP: the connection pool of a run, and one request under its time limits.

use super::Headers;
use super::anthropic::errors;
use super::progress::Progress;
use super::reading::{Brought, CallError, Reading, whole_answer};
use crate::outcome::ModelErrorKind;
use crate::query::ModelCall;
use crate::query::Reply;
use crate::query::{Failure, Remedy};
use crate::units::show_duration;
use reqwest::{Client, RequestBuilder, Response, Url, header::HeaderMap};
use std::error::Error;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The connections of a run. Made once; clients share its pools.
#[derive(Debug)]
pub struct Http {
    connect: Duration,
    user_agent: String,
    /// For servers on this machine: no proxy, no certificates.
    local: OnceLock<Result<Client, String>>,
    /// For all others. Made when first asked for, since it reads the system's certificates.
    outside: OnceLock<Result<Client, String>>,
}

/// How long a call waits for what. Each limit ends the call with a failure that names it and that may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request to the first byte of the answer; 5 minutes, since a long prompt is read before anything is said.
    pub first_byte: Duration,
    /// Between any two bytes, pings and comments among them; 5 minutes.
    pub idle: Duration,
    /// Between two parts of the message; 10 minutes: a server that only sends pings is stuck.
    pub content_idle: Duration,
    /// The whole call; 30 minutes.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            content_idle: Duration::from_secs(600),
            total: Duration::from_secs(1800),
        }
    }
}

/// The most that is read of an error's body, in bytes.
const ERROR_BODY_CAP: usize = 64 << 10;
/// The most that is read of an answer that is no stream, in bytes.
const WHOLE_BODY_CAP: usize = 32 << 20;
/// How long the end of a stream may come after its last event and still leave the connection fit for the next call.
const DRAIN: Duration = Duration::from_millis(20);

impl Http {
    /// The usual limit for making a connection.
    pub const CONNECT: Duration = Duration::from_secs(10);

    /// A pool whose connections are made within `connect`.
    pub fn new(connect: Duration, user_agent: impl Into<String>) -> Self {
        // An error means that the process has chosen a provider already, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        Self { connect, user_agent: user_agent.into(), local: OnceLock::new(), outside: OnceLock::new() }
    }

    /// The pool for a server.
    pub(super) fn client(&self, url: &Url) -> Result<Client, String> {
        if is_local(url) {
            return self.local.get_or_init(|| self.build(Client::builder().no_proxy().tls_certs_only([]))).clone();
        }
        let client = self.outside.get_or_init(|| self.build(Client::builder())).clone();
        if client.is_err() && url.scheme() == "http" {
            return self.build(Client::builder().tls_certs_only([])); // Without certificates, which it does not need.
        }
        client
    }

    fn build(&self, builder: reqwest::ClientBuilder) -> Result<Client, String> {
        builder
            .user_agent(&self.user_agent)
            .connect_timeout(self.connect)
            .tcp_keepalive(Duration::from_secs(60))
            // A redirected POST would lose its body or hand the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            // One call is one attempt: the query decides about the next.
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| {
                format!("cannot set up HTTPS: {} (SSL_CERT_FILE may name a file of certificates)", chain(&error))
            })
    }
}

/// Whether the server is on this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Sends a request and reads its answer.
pub(super) async fn send(
    request: RequestBuilder,
    timeouts: Timeouts,
    call: &ModelCall,
    mut show: impl FnMut(Progress),
) -> Result<Reply, CallError> {
    let mut patience = Patience::new(timeouts);
    let (deadline, limit) = patience.next();
    let mut response = match timeout_at(deadline, request.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err((not_sent(error), None)),
        Err(_) => return Err((patience.ran_out(limit), None)),
    };
    patience.answered();
    let status = response.status().as_u16();
    let headers = plain(response.headers());
    if !response.status().is_success() {
        let body = read_body(&mut response, ERROR_BODY_CAP, &mut patience).await;
        return Err((errors::of_response(status, &headers, &body.bytes), None));
    }
    let stream =
        headers.get("content-type").is_none_or(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
    if !stream {
        let body = read_body(&mut response, WHOLE_BODY_CAP, &mut patience).await;
        return match (whole_answer(status, &headers, &body.bytes, call), body.fault) {
            (Err((failure, _)), Some(fault)) if failure.remedy == Remedy::GiveUp => Err((fault, None)),
            (result, _) => result,
        };
    }
    let mut reading = Reading::new(headers.get("request-id").cloned());
    loop {
        match next_chunk(&mut response, &mut patience).await {
            Ok(Some(bytes)) => match reading.push(&bytes, &mut show)? {
                Brought::End => break,
                Brought::Content => patience.content(),
                Brought::Nothing => {}
            },
            Ok(None) => break,
            Err(failure) => return Err(reading.failed(failure)),
        }
    }
    // The rest is the end of the stream alone. Read to it, the connection can be used again.
    drop(timeout(DRAIN, async { while let Ok(Some(_)) = response.chunk().await {} }).await);
    reading.finish(call)
}

/// A body as far as it came.
struct Body {
    bytes: Vec<u8>,
    fault: Option<Failure>,
}

async fn read_body(response: &mut Response, cap: usize, patience: &mut Patience) -> Body {
    let mut bytes = Vec::new();
    loop {
        match next_chunk(response, patience).await {
            Ok(Some(chunk)) => {
                let room = cap.saturating_sub(bytes.len());
                bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                if bytes.len() >= cap {
                    return Body { bytes, fault: None };
                }
            }
            Ok(None) => return Body { bytes, fault: None },
            Err(fault) => return Body { bytes, fault: Some(fault) },
        }
    }
}

async fn next_chunk(response: &mut Response, patience: &mut Patience) -> Result<Option<bytes::Bytes>, Failure> {
    let (deadline, limit) = patience.next();
    match timeout_at(deadline, response.chunk()).await {
        Ok(Ok(chunk)) => {
            patience.bytes();
            Ok(chunk)
        }
        Ok(Err(error)) => {
            Err(errors::stream(format!("the connection broke in the middle of the answer: {}", chain(&error))))
        }
        Err(_) => Err(patience.ran_out(limit)),
    }
}

/// Which limit comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    FirstByte,
    Idle,
    ContentIdle,
    Total,
}

/// The limits of a call, as they move with what arrives.
struct Patience {
    limits: Timeouts,
    start: Instant,
    answered: bool,
    last_bytes: Instant,
    last_content: Instant,
}

impl Patience {
    fn new(limits: Timeouts) -> Self {
        let now = Instant::now();
        Self { limits, start: now, answered: false, last_bytes: now, last_content: now }
    }

    fn answered(&mut self) {
        self.answered = true;
        self.content();
        self.bytes();
    }

    fn bytes(&mut self) {
        self.last_bytes = Instant::now();
    }

    fn content(&mut self) {
        self.last_content = Instant::now();
    }

    fn next(&self) -> (Instant, Limit) {
        let total = (self.start + self.limits.total, Limit::Total);
        if !self.answered {
            return total.min((self.start + self.limits.first_byte, Limit::FirstByte));
        }
        let idle = (self.last_bytes + self.limits.idle, Limit::Idle);
        total.min(idle).min((self.last_content + self.limits.content_idle, Limit::ContentIdle))
    }

    fn ran_out(&self, limit: Limit) -> Failure {
        let limits = &self.limits;
        errors::stream(match limit {
            Limit::FirstByte => format!("no answer within {}", show_duration(limits.first_byte)),
            Limit::Idle => format!("the stream was silent for {}", show_duration(limits.idle)),
            Limit::ContentIdle => {
                format!("the stream brought nothing of the message for {}", show_duration(limits.content_idle))
            }
            Limit::Total => format!("the call was not over within {}", show_duration(limits.total)),
        })
    }
}

/// A request that got no answer.
fn not_sent(error: reqwest::Error) -> Failure {
    let to = error.url().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    let error = error.without_url();
    if let Some(certificate) = certificate_error(&error) {
        let message = format!(
            "{to} showed a certificate that is not trusted: {certificate}; \
             if a proxy inspects the traffic, let SSL_CERT_FILE name a file with its certificate"
        );
        // Another try would meet the same certificate.
        return Failure { remedy: Remedy::GiveUp, ..errors::stream(message) };
    }
    if error.is_builder() {
        let message = format!("the request to {to} cannot be made: {}", chain(&error));
        return Failure { remedy: Remedy::GiveUp, kind: ModelErrorKind::InvalidRequest, ..errors::stream(message) };
    }
    let what = if error.is_connect() { "cannot connect to" } else { "got no answer from" };
    errors::stream(format!("{what} {to}: {}", chain(&error)))
}

/// The certificate's fault, where there is one among the causes.
fn certificate_error(error: &reqwest::Error) -> Option<&rustls::CertificateError> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(fault)) = error.downcast_ref() {
            return Some(fault);
        }
        // The source of an I/O error is the source of what it wraps, so what it wraps is asked first.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        next = wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source());
    }
    None
}

/// An error with its causes, each said once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

fn plain(headers: &HeaderMap) -> Headers {
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}
