//! A git server over HTTP with a password, and beside it a forge's API that refuses what GitHub refuses.
#![expect(clippy::disallowed_methods, reason = "the doors are the runner's; a test stands outside")]

use base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

/// A server with one repository, `acme/demo`.
pub(crate) struct Forge {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    root: PathBuf,
    user: &'static str,
    secret: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

/// What the server has seen, and what it is told.
#[derive(Default)]
pub(crate) struct State {
    /// Method and path of each request, in order.
    pub(crate) requests: Vec<String>,
    /// Pull requests as they were made and changed.
    pub(crate) pulls: Vec<Value>,
    /// Answers to give before all others to requests of the API that write: status and headers.
    pub(crate) failures: Vec<(u16, &'static str)>,
    /// Pushes wait until this is false.
    pub(crate) hold: bool,
    /// Pushes that have come, held or not.
    pub(crate) pushes: usize,
}

impl Forge {
    /// Starts it with a repository made from a folder's branch `main`.
    pub(crate) fn start(root: &Path, user: &'static str, secret: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared =
            Arc::new(Shared { root: root.to_owned(), user, secret, state: Mutex::default(), changed: Condvar::new() });
        let inner = Arc::clone(&shared);
        // The thread ends with the process; it waits for connections that never come.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&inner);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { shared, port }
    }

    /// The address of the repository, without a password.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/git/acme/demo.git", self.port)
    }

    /// The address of the API.
    pub(crate) fn api(&self) -> String {
        format!("http://127.0.0.1:{}/api", self.port)
    }

    /// Its repository on the disk.
    pub(crate) fn repository(&self) -> PathBuf {
        self.shared.repository()
    }

    /// Looks at or changes its state.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let result = look(&mut self.shared.state.lock().unwrap());
        self.shared.changed.notify_all();
        result
    }
}

/// A request.
struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Shared {
    fn repository(&self) -> PathBuf {
        self.root.join("acme/demo.git")
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let Some(request) = read(&mut reader) else { return };
        self.state.lock().unwrap().requests.push(format!("{} {}", request.method, request.path));
        let answer = if request.path.starts_with("/api/") { self.forge(&request) } else { self.git(&request) };
        drop(writer.write_all(&answer));
    }

    fn git(&self, request: &Request) -> Vec<u8> {
        let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", self.user, self.secret));
        if request.headers.get("authorization") != Some(&format!("Basic {wanted}")) {
            return answer(401, "WWW-Authenticate: Basic realm=\"git\"\r\n", b"who are you?\n");
        }
        if request.method == "POST" && request.path.ends_with("/git-receive-pack") {
            let mut state = self.state.lock().unwrap();
            state.pushes += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(state, |state| state.hold).unwrap());
        }
        let mut git = Command::new("git");
        git.arg("http-backend").env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        git.env("PATH", std::env::var("PATH").unwrap()).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", &self.root);
        git.env("GIT_PROJECT_ROOT", &self.root).env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", self.user);
        git.env("REQUEST_METHOD", &request.method).env("QUERY_STRING", &request.query);
        git.env("PATH_INFO", request.path.trim_start_matches("/git"));
        git.env("CONTENT_LENGTH", request.body.len().to_string());
        for (header, variable) in [
            ("content-type", "CONTENT_TYPE"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ] {
            if let Some(value) = request.headers.get(header) {
                git.env(variable, value);
            }
        }
        let mut child = git.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let body = request.body.clone();
        let feeding = std::thread::spawn(move || drop(input.write_all(&body)));
        let output = child.wait_with_output().unwrap().stdout;
        feeding.join().unwrap();
        let end = output.windows(4).position(|part| part == b"\r\n\r\n").expect("git answers with a head");
        let head = String::from_utf8_lossy(&output[..end]).into_owned();
        let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
        let status = status[..3].parse().unwrap();
        let headers: Vec<&str> = head.lines().filter(|line| !line.starts_with("Status: ")).collect();
        answer(status, &format!("{}\r\n", headers.join("\r\n")), &output[end + 4..])
    }

    fn forge(&self, request: &Request) -> Vec<u8> {
        let refuse = |status: u16, message: &str| json_answer(status, "", &json!({ "message": message }));
        let header = |name: &str| request.headers.get(name).map(String::as_str).unwrap_or_default();
        if header("user-agent").is_empty() {
            return refuse(
                403,
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
            );
        }
        if header("authorization") != format!("Bearer {}", self.secret) {
            return refuse(401, "Bad credentials");
        }
        if header("accept") != "application/vnd.github+json" {
            return refuse(415, "Unsupported 'Accept' header");
        }
        let Some(rest) = request.path.strip_prefix("/api/repos/acme/demo") else { return refuse(404, "Not Found") };
        let mut state = self.state.lock().unwrap();
        if request.method != "GET"
            && let Some((status, headers)) = (!state.failures.is_empty()).then(|| state.failures.remove(0))
        {
            return json_answer(status, headers, &json!({ "message": "try later" }));
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (request.method.as_str(), rest) {
            ("GET", "") => json_answer(200, "", &json!({ "default_branch": "main", "full_name": "acme/demo" })),
            ("GET", "/pulls") => {
                let open = |one: &&Value| {
                    let head = format!("head=acme%3A{}", one["head"]["ref"].as_str().unwrap().replace('/', "%2F"));
                    one["state"] == "open" && request.query.contains(&head) && request.query.contains("state=open")
                };
                json_answer(200, "", &state.pulls.iter().filter(open).cloned().collect())
            }
            ("POST", "/pulls") => {
                if let Some(errors) = self.refusal(&body, &state.pulls, true) {
                    json_answer(422, "", &json!({ "message": "Validation Failed", "errors": [errors] }))
                } else {
                    let number = state.pulls.len() + 1;
                    let made = json!({
                        "number": number, "state": "open", "draft": body["draft"], "title": body["title"], "body": body["body"],
                        "html_url": format!("https://forge.test/acme/demo/pull/{number}"),
                        "head": { "ref": body["head"], "repo": { "full_name": "acme/demo" } }, "base": { "ref": body["base"] },
                    });
                    state.pulls.push(made.clone());
                    json_answer(201, "", &made)
                }
            }
            ("PATCH", path) => {
                let number: usize = path.trim_start_matches("/pulls/").parse().unwrap_or(0);
                if number == 0 || number > state.pulls.len() {
                    return refuse(404, "Not Found");
                }
                if let Some(errors) = self.refusal(&body, &[], false) {
                    return json_answer(422, "", &json!({ "message": "Validation Failed", "errors": [errors] }));
                }
                for key in ["title", "body"] {
                    state.pulls[number - 1][key] = body[key].clone();
                }
                json_answer(200, "", &state.pulls[number - 1])
            }
            _ => refuse(404, "Not Found"),
        }
    }

    /// Why GitHub would not take it.
    fn refusal(&self, body: &Value, pulls: &[Value], new: bool) -> Option<Value> {
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        if text("title").is_empty() {
            return Some(json!({ "field": "title", "code": "missing_field" }));
        }
        if text("title").chars().count() > 256 {
            return Some(json!({ "message": "title is too long (maximum is 256 characters)" }));
        }
        if text("body").chars().count() > 65_536 {
            return Some(json!({ "message": "body is too long (maximum is 65536 characters)" }));
        }
        if !new {
            return None;
        }
        for field in ["head", "base"] {
            if self.commit(text(field)).is_none() {
                return Some(json!({ "field": field, "code": "invalid" }));
            }
        }
        if self.commit(text("head")) == self.commit(text("base")) {
            return Some(json!({ "message": format!("No commits between {} and {}", text("base"), text("head")) }));
        }
        let same = |one: &&Value| one["head"]["ref"] == body["head"] && one["base"]["ref"] == body["base"];
        let twice = format!("A pull request already exists for acme:{}.", text("head"));
        pulls.iter().find(same).map(|_| json!({ "message": twice }))
    }

    fn commit(&self, branch: &str) -> Option<String> {
        let mut git = Command::new("git");
        git.args(["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).current_dir(self.repository());
        let output = git.stdin(Stdio::null()).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request { method, path: path.to_owned(), query: query.to_owned(), headers, body })
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status} Because\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn json_answer(status: u16, headers: &str, value: &Value) -> Vec<u8> {
    answer(status, &format!("Content-Type: application/json\r\n{headers}"), value.to_string().as_bytes())
}
