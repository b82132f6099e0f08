//! A case: a real repository in a temporary folder, job files, and the real binary run on them.
#![expect(clippy::disallowed_methods, reason = "the doors are the runner's; a test stands outside")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A repository and what is run in it.
pub(crate) struct Case {
    folder: Rc<TempDir>,
    env: BTreeMap<String, String>,
    args: Vec<String>,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The run's folder; `None` when the run never began.
    pub(crate) folder: Option<PathBuf>,
    /// Keeps the case's folder while its results are read.
    _kept: Rc<TempDir>,
}

/// Longer than any run of a test; only a hang gets there.
const HANG: Duration = Duration::from_mins(2);

impl Case {
    /// An empty repository with one commit that holds these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let case = Self::without_repository();
        std::fs::create_dir_all(case.root()).unwrap();
        for (path, text) in files {
            case.write(path, text);
        }
        case.git(&["init", "-q", "-b", "main"]);
        case.git(&["add", "-A"]);
        case.git(&["commit", "-q", "--allow-empty", "-m", "base"]);
        case
    }

    /// A folder without a repository.
    pub(crate) fn without_repository() -> Self {
        let folder = TempDir::with_prefix("runner-it-").unwrap();
        std::fs::create_dir_all(folder.path().join("home")).unwrap();
        std::fs::create_dir_all(folder.path().join("repo")).unwrap();
        let mut env = BTreeMap::new();
        for name in ["PATH", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "TMPDIR"] {
            if let Ok(value) = std::env::var(name) {
                env.insert(name.to_owned(), value);
            }
        }
        // Rust's own tools live in the real home; everything else must do without it.
        if let Ok(home) = std::env::var("HOME") {
            env.entry("CARGO_HOME".into()).or_insert(format!("{home}/.cargo"));
            env.entry("RUSTUP_HOME".into()).or_insert(format!("{home}/.rustup"));
        }
        env.insert("HOME".into(), folder.path().join("home").display().to_string());
        env.insert("RUNNER_WORKTREES".into(), folder.path().join("worktrees").display().to_string());
        env.insert("LANG".into(), "C.UTF-8".into());
        Self { folder: Rc::new(folder), env, args: Vec::new() }
    }

    /// The repository's root.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// The folder around it: for what must lie outside.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file below the root, with its folders.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Reads a file below the root.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Writes a job file `jobs/NAME.toml`.
    pub(crate) fn job(self, name: &str, text: &str) -> Self {
        self.write(&format!("jobs/{name}.toml"), text);
        self
    }

    /// Sets a variable of the runner's environment.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds arguments behind `runner run`.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Runs git in the repository and gives back what it prints.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.root(), args)
    }

    /// Runs git in a folder.
    pub(crate) fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"];
        let mut git = Command::new("git");
        git.args(identity).args(args).current_dir(folder).env_clear().envs(&self.env).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The binary with arguments, ready to be started in the repository.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runner"));
        command.args(args).current_dir(self.root()).env_clear().envs(&self.env);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `runner check` and gives back what came of it.
    pub(crate) fn check(&self) -> Ran {
        self.finish(self.command(&["check"]).args(&self.args).spawn().unwrap())
    }

    /// Starts `runner run` without waiting for it.
    pub(crate) fn start(&self) -> Child {
        self.command(&["run"]).args(&self.args).spawn().unwrap()
    }

    /// Runs `runner run` to its end.
    pub(crate) fn run(&self) -> Ran {
        self.finish(self.start())
    }

    /// Waits for a started run. A run that hangs is ended, and the test fails.
    pub(crate) fn finish(&self, mut child: Child) -> Ran {
        let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let status = wait(&mut child);
        let Some(status) = status else {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the runner hangs:\n{}\n{}", stdout.join().unwrap(), stderr.join().unwrap());
        };
        Ran {
            code: status.code(),
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
            folder: self.newest_run(),
            _kept: Rc::clone(&self.folder),
        }
    }

    /// The folder of the newest run.
    pub(crate) fn newest_run(&self) -> Option<PathBuf> {
        let runs = std::fs::read_dir(self.root().join(".runner/runs")).ok()?;
        runs.filter_map(|entry| Some(entry.ok()?.path())).max()
    }

    /// What the repository looks like from outside a run: status, head, branches but ours, configuration, index.
    pub(crate) fn fingerprint(&self) -> String {
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let refs: Vec<&str> = refs.lines().filter(|line| !line.starts_with("refs/heads/runner/")).collect();
        let config = std::fs::read_to_string(self.root().join(".git/config")).unwrap();
        let index = std::fs::read(self.root().join(".git/index")).unwrap_or_default();
        let head = std::fs::read_to_string(self.root().join(".git/HEAD")).unwrap();
        format!("{}\n{head}\n{}\n{config}\n{index:?}", self.git(&["status", "--porcelain"]), refs.join("\n"))
    }
}

fn reader(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    let mut stream = stream.expect("piped");
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    until(HANG, || child.try_wait().unwrap())
}

/// A file of so many lines, no two alike.
pub(crate) fn long_file(lines: usize) -> String {
    let lines: Vec<String> = (0..lines).map(|n| format!("line {n} of a file that is long and says little\n")).collect();
    lines.concat()
}

/// Waits for a condition, and gives up where only a hang gets.
pub(crate) fn until<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = condition() {
            return Some(found);
        }
        if began.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Waits for a condition that must come true.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    assert!(until(Duration::from_mins(1), || condition().then_some(())).is_some(), "it never came true: {what}");
}

impl Ran {
    /// Fails unless the run ended so.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// A file of the run's folder.
    #[track_caller]
    pub(crate) fn file(&self, path: &str) -> String {
        let path = self.folder.as_ref().expect("the run has a folder").join(path);
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        String::from_utf8(bytes).expect("reports are UTF-8")
    }

    /// The result of a job.
    #[track_caller]
    pub(crate) fn result(&self, job: &str) -> Value {
        serde_json::from_str(&self.file(&format!("jobs/{job}/result.json"))).unwrap()
    }

    /// The transcript of a job, a value a line.
    pub(crate) fn transcript(&self, job: &str) -> Vec<Value> {
        self.file(&format!("jobs/{job}/transcript.jsonl"))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Verdict, reason and terminal of a job, as `passed completed completed`.
    #[track_caller]
    pub(crate) fn ending(&self, job: &str) -> String {
        let result = self.result(job);
        let word = |key: &str| result[key].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", word("verdict"), word("reason"), word("terminal"))
    }
}
