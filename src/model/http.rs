//! HTTP: the connection pool of a run, and one request under its time limits.

use super::Headers;
use super::anthropic::{Assembler, errors};
use super::progress::{Progress, report};
use super::reading::{Brought, CallError, Reading, whole_answer};
use super::waiting::{Timeouts, Waiting};
use crate::outcome::ModelErrorKind;
use crate::query::{Failure, Remedy, Reply};
use reqwest::{Client, RequestBuilder, Response, Url, header::HeaderMap};
use std::error::Error;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout, timeout_at};

/// The connections of a run. Made once; clients share its pools.
#[derive(Debug)]
pub struct Http {
    connect: Duration,
    user_agent: String,
    /// For servers on this machine without TLS: no proxy, no certificates.
    local: OnceLock<Result<Client, String>>,
    /// For all others. Made when first asked for, since it reads the system's certificates.
    outside: OnceLock<Result<Client, String>>,
}

/// The most that is read of an error's body, in bytes.
const ERROR_BODY_CAP: usize = 64 << 10;
/// The most that is read of an answer that is no stream, in bytes.
const WHOLE_BODY_CAP: usize = 32 << 20;
/// How long the end of a stream may come after its last event and still leave the connection fit for the next call.
const DRAIN: Duration = Duration::from_millis(50);

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
    pub(crate) fn client(&self, url: &Url) -> Result<Client, String> {
        let plain = url.scheme() == "http";
        match (is_local(url), plain) {
            (true, true) => {
                let local = || self.build(Client::builder().no_proxy().tls_certs_only([]));
                return self.local.get_or_init(local).clone();
            }
            (true, false) => return self.build(Client::builder().no_proxy()),
            (false, _) => {}
        }
        let client = self.outside.get_or_init(|| self.build(Client::builder())).clone();
        if client.is_err() && plain {
            return self.build(Client::builder().tls_certs_only([])); // Without certificates, which it does not need.
        }
        client
    }

    fn build(&self, builder: reqwest::ClientBuilder) -> Result<Client, String> {
        builder
            .user_agent(&self.user_agent)
            .connect_timeout(self.connect)
            .tcp_keepalive(Duration::from_mins(1))
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
    assembler: Assembler,
    progress: &Sender<Progress>,
) -> Result<Reply, CallError> {
    let mut waiting = Waiting::new(timeouts);
    let (deadline, limit) = waiting.next();
    let mut response = match timeout_at(deadline, request.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err((not_sent(error), None)),
        Err(_) => return Err((waiting.ran_out(limit), None)),
    };
    waiting.answered();
    let status = response.status().as_u16();
    let headers = plain(response.headers());
    if !response.status().is_success() {
        let body = read_body(&mut response, ERROR_BODY_CAP, &mut waiting).await;
        return Err((errors::of_response(status, &headers, &body.bytes), None));
    }
    let stream =
        headers.get("content-type").is_none_or(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
    let mut shown = Vec::new();
    if !stream {
        let body = read_body(&mut response, WHOLE_BODY_CAP, &mut waiting).await;
        let result = whole_answer(status, &headers, &body.bytes, assembler, &mut shown);
        tell(progress, shown.drain(..)).await;
        return match (result, body.fault) {
            (Err((failure, _)), Some(fault)) if failure.remedy == Remedy::GiveUp => Err((fault, None)),
            (result, _) => result,
        };
    }
    let mut reading = Reading::new(assembler, headers.get("request-id").cloned());
    loop {
        match next_chunk(&mut response, &mut waiting).await {
            Ok(Some(bytes)) => {
                let brought = reading.push(&bytes, &mut shown);
                if brought.as_ref().is_ok_and(|brought| *brought == Brought::Content) {
                    waiting.content();
                }
                // A consumer without room slows the stream, and the server is not to blame.
                waiting.held(tell(progress, shown.drain(..)).await);
                if brought? == Brought::End {
                    break;
                }
            }
            Ok(None) => break,
            Err(failure) => return Err(reading.failed(failure)),
        }
    }
    // The rest is the end of the stream alone. Read to it, the connection can be used again.
    drop(timeout(DRAIN, async { while let Ok(Some(_)) = response.chunk().await {} }).await);
    let result = reading.finish(&mut shown);
    tell(progress, shown.drain(..)).await;
    result
}

/// Hands progress on, in its order, and says how long that took.
async fn tell(progress: &Sender<Progress>, shown: impl Iterator<Item = Progress>) -> Duration {
    let start = Instant::now();
    for shown in shown {
        report(progress, shown).await;
    }
    start.elapsed()
}

/// A body as far as it came.
struct Body {
    bytes: Vec<u8>,
    fault: Option<Failure>,
}

async fn read_body(response: &mut Response, cap: usize, waiting: &mut Waiting) -> Body {
    let mut bytes = Vec::new();
    loop {
        match next_chunk(response, waiting).await {
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

async fn next_chunk(response: &mut Response, waiting: &mut Waiting) -> Result<Option<bytes::Bytes>, Failure> {
    let (deadline, limit) = waiting.next();
    match timeout_at(deadline, response.chunk()).await {
        Ok(Ok(chunk)) => {
            waiting.bytes();
            Ok(chunk)
        }
        Ok(Err(error)) => {
            Err(errors::stream(format!("the connection broke in the middle of the answer: {}", chain(&error))))
        }
        Err(_) => Err(waiting.ran_out(limit)),
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
fn certificate_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::CertificateError> {
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

/// An error with its causes, each said once, without the layers that only say that there was an error.
fn chain(error: &dyn Error) -> String {
    const EMPTY_WORDS: [&str; 3] = ["error sending request", "client error (", "request or response body error"];
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        let said = error.to_string();
        let empty = next.is_some() && EMPTY_WORDS.iter().any(|words| said.starts_with(words));
        if empty || text.contains(&said) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&said);
    }
    text
}

fn plain(headers: &HeaderMap) -> Headers {
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn b070_the_fault_of_a_certificate_is_found_among_the_causes() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(certificate_error(&error).unwrap().to_string(), "UnknownIssuer");
        assert!(certificate_error(&io::Error::other(rustls::Error::DecryptError)).is_none());
    }

    #[test]
    fn local_servers_are_known_by_their_names() {
        let local = |url: &str| is_local(&Url::parse(url).unwrap());
        for url in
            ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9:8", "http://[::1]:8/x", "https://a.localhost"]
        {
            assert!(local(url), "{url}");
        }
        for url in ["http://10.0.0.1", "https://localhost.test", "http://[2001:db8::1]", "https://notlocalhost"] {
            assert!(!local(url), "{url}");
        }
    }

    #[test]
    fn causes_are_said_once() {
        let inner = io::Error::new(io::ErrorKind::NotFound, "no such file");
        assert_eq!(chain(&crate::error::Error::usage("x")), "x");
        assert_eq!(chain(&io::Error::other(inner)), "no such file");
    }
}
