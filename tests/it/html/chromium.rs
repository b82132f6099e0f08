//! A headless Chromium, spoken to over its pipe: no port, no further package.
#![expect(clippy::disallowed_methods, reason = "a test stands outside the runner's doors")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// A browser with one page. It ends with its test.
pub(crate) struct Chromium {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    calls: u64,
    /// What the page complained about: console errors, exceptions, refused loads.
    pub(crate) complaints: Vec<String>,
    /// Addresses that were asked for.
    pub(crate) requests: Vec<String>,
    _profile: TempDir,
}

impl Chromium {
    /// Starts it where one is installed.
    pub(crate) fn start(width: u32, height: u32, dark: bool) -> Option<Self> {
        let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .any(|folder| folder.join(name).is_file())
        })?;
        let profile = TempDir::with_prefix("runner-it-chromium-").unwrap();
        // The pipe is at the descriptors 3 and 4.
        let script = "exec 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null; exec \"$@\"";
        let mut child = Command::new("sh")
            .args([
                "-c",
                script,
                "sh",
                found,
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage",
            ])
            .args(["--hide-scrollbars", "--disable-breakpad", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},{height}"))
            .args(dark.then_some("--blink-settings=preferredColorScheme=0"))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self {
            child,
            to,
            from,
            session: String::new(),
            calls: 0,
            complaints: Vec::new(),
            requests: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme =
            json!({"features": [{"name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" }}]});
        browser.call("Emulation.setEmulatedMedia", &scheme);
        Some(browser)
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path, fragment: &str) {
        let address = format!("file://{}{fragment}", path.display());
        let told = self.call("Page.navigate", &json!({"url": address}));
        assert!(told.get("errorText").is_none(), "{told}");
        let loaded = "new Promise(done => document.readyState === 'complete' ? done(true) : addEventListener('load', () => done(true)))";
        self.eval(loaded);
    }

    /// The value of an expression in the page; a promise is waited for.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let told = self.call("Runtime.evaluate", &asked);
        assert!(told.get("exceptionDetails").is_none(), "{expression}: {told}");
        told["result"]["value"].clone()
    }

    /// Presses and lets go of a key.
    pub(crate) fn key(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            one => (u32::from(one.to_uppercase().as_bytes()[0]), one),
        };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        self.call(
            "Input.dispatchKeyEvent",
            &json!({"type": down, "key": key, "text": text, "windowsVirtualKeyCode": code}),
        );
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}));
    }

    /// From the next page on no script runs.
    pub(crate) fn without_scripts(&mut self) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    }

    /// Opens a file as [`Chromium::open`] does, where no script can tell when it is there, and counts what the selector finds.
    pub(crate) fn count_in(&mut self, path: &Path, selector: &str, wanted: usize) -> usize {
        self.call("Page.navigate", &json!({"url": format!("file://{}", path.display())}));
        let mut found = 0;
        crate::case::until(std::time::Duration::from_secs(20), || {
            let root = self.call("DOM.getDocument", &json!({"depth": 0}));
            let asked = json!({"nodeId": root["root"]["nodeId"], "selector": selector});
            // The document may have given way to the next one meanwhile.
            let told = self.ask("DOM.querySelectorAll", &asked).unwrap_or_default();
            found = told["nodeIds"].as_array().map_or(0, Vec::len);
            (found == wanted).then_some(())
        });
        found
    }

    /// A picture of what is seen, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let told = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        base64_decoded(told["data"].as_str().unwrap())
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params).unwrap_or_else(|problem| panic!("{method}: {problem}"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.calls += 1;
        let mut asked = json!({"id": self.calls, "method": method, "params": params});
        if !self.session.is_empty() {
            asked["sessionId"] = json!(self.session);
        }
        let mut bytes = asked.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut told = Vec::new();
            self.from.read_until(0, &mut told).unwrap();
            assert!(told.pop().is_some(), "the browser has gone");
            let told: Value = serde_json::from_slice(&told).unwrap();
            if told["id"] == self.calls {
                return if told["error"].is_null() { Ok(told["result"].clone()) } else { Err(told["error"].clone()) };
            }
            let params = &told["params"];
            match told["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Log.entryAdded" => self.complaints.push(params.to_string()),
                "Runtime.consoleAPICalled" if params["type"] == "error" => self.complaints.push(params.to_string()),
                "Network.requestWillBeSent" => {
                    self.requests.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
                }
                _ => {}
            }
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn base64_decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let word = four.iter().enumerate().fold(0, |word, (place, byte)| word | value(*byte) << (18 - 6 * place));
        bytes.extend(&word.to_be_bytes()[1..four.len()]);
    }
    bytes
}
