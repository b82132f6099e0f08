//! The server: a thread, a runtime, a task for each connection.

use super::answer::{Answer, Kind, status};
use super::conversation::{Conversations, Sent, echo};
use super::http::{Request, chunk, head};
use super::log::Log;
use super::rules;
use super::script::Script;
use super::stream::{Act, Cut, How, PING, Place};
use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Mock {
    port: u16,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    key: Option<String>,
    script: Mutex<Script>,
    conversations: Mutex<Conversations>,
    log: Log,
}

impl Mock {
    /// Starts a server on a port of its own.
    pub(crate) fn start(script: Script) -> Self {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            start: Instant::now(),
            key: script.key.clone(),
            conversations: Mutex::new(Conversations::new(script.rewrites)),
            script: Mutex::new(script),
            log: Log::default(),
        });
        let stop = CancellationToken::new();
        let (inner, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(listener, inner, stopped));
        });
        Self { port, shared, stop, thread: Some(thread) }
    }

    /// What `base_url` is set to.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.log.state().requests.clone()
    }

    /// Which model each request asked.
    pub(crate) fn models(&self) -> Vec<String> {
        self.shared.log.state().requests.iter().map(|request| request.model().to_owned()).collect()
    }

    /// Every rule that a request broke, in words. A good test ends with this being empty.
    pub(crate) fn breaches(&self) -> Vec<String> {
        self.shared.log.state().breaches.clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.shared.log.state().connections
    }

    /// The most calls that were being answered at once.
    pub(crate) fn peak(&self) -> usize {
        self.shared.log.state().peak
    }

    /// Blocks until so many requests have come.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        self.shared.log.wait(|state| state.requests.len() >= count);
    }

    /// Waits until so many requests have come.
    pub(crate) async fn arrived(&self, count: usize) {
        self.shared.log.wait_async(|state| state.requests.len() >= count).await;
    }

    /// Waits until so many calls were left by their clients before their end.
    pub(crate) async fn abandoned(&self, count: usize) {
        self.shared.log.wait_async(|state| state.abandoned >= count).await;
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn accept(listener: StdListener, shared: Arc<Shared>, stop: CancellationToken) {
    let listener = TcpListener::from_std(listener).unwrap();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(ended) = connections.join_next() => if let Err(error) = ended {
                shared.log.change(|state| state.breaches.push(format!("the mock server failed: {error}")));
            },
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let number = shared.log.change(|state| { state.connections += 1; state.connections });
                connections.spawn(Connection::serve(stream, number, Arc::clone(&shared)));
            },
        }
    }
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Keep,
    Close,
    /// The client went away.
    Abandoned,
}

struct Connection {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    shared: Arc<Shared>,
}

impl Connection {
    async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        let mut connection = Self { read, write, shared };
        let mut buffer = Vec::new();
        while let Ok(Some(mut request)) = Request::read(&mut connection.read, &mut buffer).await {
            request.connection = number;
            request.at = connection.shared.start.elapsed();
            let answer = connection.shared.receive(&mut request);
            let after = connection.answer(&request, answer).await.unwrap_or(After::Abandoned);
            connection.shared.log.change(|state| {
                state.active -= 1;
                state.abandoned += usize::from(after == After::Abandoned);
            });
            if after != After::Keep {
                return;
            }
        }
    }

    async fn answer(&mut self, request: &Request, answer: Answer) -> io::Result<After> {
        let ready = async {
            tokio::time::sleep(answer.delay).await;
            if let Some(gate) = &answer.gate {
                gate.passed().await;
            }
        };
        tokio::select! {
            () = ready => {}
            () = gone(&mut self.read) => return Ok(After::Abandoned),
        }
        let mut headers = answer.headers;
        if !headers.iter().any(|(name, _)| name == "request-id") {
            headers.push(("request-id".into(), format!("req_{:04}", request.number)));
        }
        let events = match answer.kind {
            Kind::Hang => {
                gone(&mut self.read).await;
                return Ok(After::Abandoned);
            }
            Kind::Close => return Ok(After::Close),
            Kind::Whole { status, content_type, body } => {
                let head = head(status, content_type, &headers, Some(body.len()));
                self.write.write_all(&[head, body].concat()).await?;
                return Ok(After::Keep);
            }
            Kind::Events(events) => events,
            Kind::Message(message) => {
                message.events(request.body["model"].as_str().unwrap_or_default(), request.number)
            }
        };
        self.write.write_all(&head(200, "text/event-stream; charset=utf-8", &headers, None)).await?;
        for act in answer.wire.acts(&events) {
            match act {
                Act::Write(bytes) => self.write.write_all(&chunk(&bytes)).await?,
                Act::Wait(gate) => tokio::select! {
                    () = gate.passed() => {}
                    () = gone(&mut self.read) => return Ok(After::Abandoned),
                },
                Act::Cut(How::End) => {}
                Act::Cut(How::Break) => return Ok(After::Close),
                Act::Cut(How::Stall) => {
                    gone(&mut self.read).await;
                    return Ok(After::Abandoned);
                }
                Act::Cut(How::Pings) => loop {
                    self.write.write_all(&chunk(PING)).await?;
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_millis(5)) => {}
                        () = gone(&mut self.read) => return Ok(After::Abandoned),
                    }
                },
            }
        }
        self.write.write_all(b"0\r\n\r\n").await?;
        Ok(After::Keep)
    }
}

impl Shared {
    /// Logs a request, judges it and chooses its answer.
    fn receive(&self, request: &mut Request) -> Answer {
        self.log.change(|state| {
            request.number = state.requests.len() + 1;
            state.requests.push(request.clone());
            state.active += 1;
            state.peak = state.peak.max(state.active);
        });
        if self.key.as_deref().is_some_and(|key| request.header("x-api-key") != Some(key)) {
            return status(401, "authentication_error", "invalid x-api-key");
        }
        let mut conversations = self.conversations.lock().unwrap();
        if let Err(breach) = rules::check(request).and_then(|()| conversations.check(request)) {
            self.log.change(|state| state.breaches.push(format!("request {}: {breach}", request.number)));
            return status(400, "invalid_request_error", &breach);
        }
        let Some(mut answer) = self.script.lock().unwrap().answer(request) else {
            self.log
                .change(|state| state.breaches.push(format!("request {}: the script has no answer", request.number)));
            return status(500, "api_error", "the script has no answer");
        };
        let sent = match answer.kind {
            Kind::Message(message) => {
                let message = message.with_ids(request.number);
                let tampered = message.cut_arguments.is_some() || has_foreign_ids(&message.blocks);
                let sent = match answer.wire.cut {
                    Some(Cut { place: Place::Before(_) | Place::AfterBlock(_), .. }) => Sent::Nothing,
                    _ if tampered => Sent::Anything,
                    _ if message.stop_reason.as_deref() == Some("pause_turn") => Sent::Paused(echo(&message.blocks)),
                    _ => Sent::Blocks(echo(&message.blocks)),
                };
                answer.kind = Kind::Message(Box::new(message));
                sent
            }
            Kind::Events(_) | Kind::Whole { status: 200, .. } => Sent::Anything,
            Kind::Whole { .. } | Kind::Hang | Kind::Close => Sent::Nothing,
        };
        conversations.thinking_refused |= answer.refuses_thinking();
        conversations.note(request, sent);
        answer
    }
}

/// Whether an id was chosen by the test: it may be one that the client has to replace.
fn has_foreign_ids(blocks: &[serde_json::Value]) -> bool {
    blocks
        .iter()
        .any(|block| block["type"] == "tool_use" && block["id"].as_str().is_none_or(|id| !id.starts_with("toolu_0")))
}

/// Waits until the client has closed its end.
async fn gone(read: &mut OwnedReadHalf) {
    let mut byte = [0];
    while matches!(read.read(&mut byte).await, Ok(1..)) {}
}
