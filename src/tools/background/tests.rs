//! Real commands that wait for pipes, not for time.

use super::*;
use crate::process::sweep;
use crate::tools::path::Root;
use crate::tools::shell::{BASH, Shell, Surroundings};
use crate::tools::workspace::tests::arguments;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use tokio::time::timeout;

/// No condition of these tests takes so long unless it never comes true.
const FOREVER: Duration = Duration::from_mins(1);

/// A command that says that it runs and then waits for a line in the pipe `go`, which it repeats.
const WAITING: &str = "echo ready; read line < go; echo \"got $line\"";

struct Case {
    dir: tempfile::TempDir,
    around: Surroundings,
    shell: Shell,
    background: Background,
}

fn case() -> Case {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("wt/sub")).unwrap();
    let root = Root::open(&dir.path().join("wt")).unwrap();
    let path = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let env = Environment::build(&path, &[], &BTreeMap::new(), &[]);
    let outputs = dir.path().join("run/tools");
    let shell = Shell::new(&root);
    let case = Case { dir, around: Surroundings { root, env, outputs }, shell, background: Background::new() };
    case.pipe("go");
    case
}

impl Case {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("wt").join(name)
    }

    fn pipe(&self, name: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Writes a line into a pipe once somebody reads there.
    async fn send(&self, name: &str, line: &str) {
        let (path, line) = (self.path(name), format!("{line}\n"));
        timeout(FOREVER, tokio::task::spawn_blocking(move || fs::write(path, line))).await.unwrap().unwrap().unwrap();
    }

    async fn start(&mut self, command: &str) -> Answer {
        let input = arguments(&BASH, json!({ "command": command, "run_in_background": true }));
        self.shell.start(&self.around, &self.background, &input).await
    }

    async fn foreground(&mut self, command: &str) -> Answer {
        let input = arguments(&BASH, json!({ "command": command }));
        self.shell.run(&self.around, "call", &input, &CancellationToken::new()).await
    }

    async fn output(&self, input: Value) -> Answer {
        self.background.output(&arguments(&TASK_OUTPUT, input), &CancellationToken::new()).await
    }

    /// Looks without waiting until the output has this in it; gives back all that was new.
    async fn until(&self, id: &str, wanted: &str) -> String {
        let mut all = String::new();
        let look = async {
            while !all.contains(wanted) {
                all += &self.output(json!({ "task_id": id, "block": false })).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(FOREVER, look).await.is_ok(), "never {wanted}: {all}");
        all
    }

    /// Waits for the end.
    async fn end(&self, id: &str) -> String {
        self.output(json!({ "task_id": id, "timeout": 60_000 })).await.unwrap()
    }

    async fn stop(&self, id: &str) -> Answer {
        self.background.stop(&arguments(&TASK_STOP, json!({ "task_id": id })), &CancellationToken::new()).await
    }

    /// The pid in a file of the worktree, once it is there.
    async fn pid(&self, name: &str) -> String {
        let read = || fs::read_to_string(self.path(name)).ok().filter(|pid| pid.ends_with('\n'));
        let wait = async {
            loop {
                if let Some(pid) = read() {
                    return pid.trim().to_owned();
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(FOREVER, wait).await.unwrap()
    }
}

fn alive(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

async fn gone(pid: &str) {
    let wait = async {
        while alive(pid) {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(FOREVER, wait).await.is_ok(), "{pid} lives on");
}

#[tokio::test]
async fn it_starts_is_read_piece_by_piece_and_ends() {
    let mut case = case();
    let text = case.start(WAITING).await.unwrap();
    let log = case.around.outputs.join("bash_1.log");
    let log = log.display();
    assert_eq!(
        text,
        format!(
            "Runs in the background as `bash_1`; its output goes to {log}. TaskOutput shows what is new, TaskStop ends it."
        )
    );
    let text = case.until("bash_1", "ready").await;
    assert!(text.contains("ready\n[`bash_1`: still running after "), "{text}");
    let text = case.output(json!({ "task_id": "bash_1", "timeout": 1 })).await.unwrap();
    assert!(text.starts_with("(no new output)\n[`bash_1`: still running after "), "{text}");
    case.send("go", "42").await;
    let text = case.end("bash_1").await;
    assert!(text.starts_with("got 42\n[`bash_1`: ended with exit code 0 after "), "{text}");
    let text = case.end("bash_1").await;
    assert!(text.starts_with("(no new output)\n[`bash_1`: ended with exit code 0 after "), "{text}");
    assert_eq!(fs::read_to_string(case.around.outputs.join("bash_1.log")).unwrap(), "ready\ngot 42\n");
}

#[tokio::test]
async fn how_it_ended_is_told() {
    let mut case = case();
    for (command, how) in [
        ("exit 3", "ended with exit code 3"),
        ("kill -9 $$", "was killed by signal 9"),
        ("sleep 600 & exit 0", "; 1 process still ran when the command ended: killed]"),
        ("nosuchprogram", "ended with exit code 127"),
    ] {
        let id = case.start(command).await.unwrap();
        let id = id.split('`').nth(1).unwrap();
        let text = case.end(id).await;
        assert!(text.contains(how), "{command}: {text}");
    }
    case.around.env.set("PATH", "/nowhere");
    case.start("true").await.unwrap();
    let text = case.end("bash_5").await;
    assert!(text.contains("could not be started: cannot run `sh`"), "{text}");
}

#[tokio::test]
async fn it_runs_in_the_working_directory_and_does_not_change_it() {
    let mut case = case();
    case.foreground("cd sub").await.unwrap();
    case.start("pwd; cd ..").await.unwrap();
    assert!(case.end("bash_1").await.contains("/wt/sub\n"));
    assert!(case.foreground("pwd").await.unwrap().ends_with("/wt/sub"));
    case.foreground("rmdir ../sub").await.unwrap();
    assert!(case.start("pwd").await.unwrap().contains("\n[the working directory sub is gone: this ran in "));
    assert!(case.end("bash_2").await.contains("/wt\n"));
}

#[tokio::test]
async fn a_task_that_is_not_there_is_answered_with_those_that_are() {
    let mut case = case();
    let error = case.output(json!({ "task_id": "bash_1" })).await.unwrap_err();
    assert!(error.starts_with("There is no background command `bash_1`. None was started yet"), "{error}");
    case.start(WAITING).await.unwrap();
    case.start("true").await.unwrap();
    case.end("bash_2").await;
    let known = "There is no background command `7`. There are: bash_1 (running), bash_2 (ended).";
    assert_eq!(case.output(json!({ "task_id": "7" })).await.unwrap_err(), known);
    assert_eq!(case.stop("7").await.unwrap_err(), known);
    assert!(case.output(json!({ "bash_id": "bash_2", "block": false })).await.is_ok());
}

#[tokio::test]
async fn outputs_of_an_earlier_run_are_kept() {
    let mut case = case();
    fs::create_dir_all(&case.around.outputs).unwrap();
    fs::write(case.around.outputs.join("bash_1.log"), "before").unwrap();
    assert!(case.start("echo x").await.unwrap().contains("`bash_2`"));
    assert!(case.end("bash_2").await.starts_with("x\n"));
    assert_eq!(fs::read_to_string(case.around.outputs.join("bash_1.log")).unwrap(), "before");
}

#[tokio::test]
async fn so_many_at_once_and_no_more() {
    let mut case = case();
    for _ in 0..MOST {
        case.start(WAITING).await.unwrap();
    }
    let error = case.start("true").await.unwrap_err();
    let first = format!("8 background commands run already, which is the most: `bash_1` ({WAITING}), `bash_2` (");
    assert!(error.contains(&first) && error.contains("`bash_8`"), "{error}");
    case.stop("bash_3").await.unwrap();
    assert!(case.start("true").await.unwrap().contains("`bash_9`"));
    case.background.shutdown().await;
}

#[tokio::test]
async fn what_ended_long_ago_is_forgotten() {
    let mut case = case();
    for number in 1..=REMEMBERED + 3 {
        case.start("echo x").await.unwrap();
        case.end(&format!("bash_{number}")).await;
    }
    assert!(case.output(json!({ "task_id": "bash_2" })).await.unwrap_err().contains("There are: bash_4 (ended), "));
    assert_eq!(lock(&case.background.state).tasks.len(), REMEMBERED);
    assert!(case.around.outputs.join("bash_1.log").exists());
}

#[tokio::test]
async fn stopping_ends_all_of_its_processes() {
    let mut case = case();
    let daemon =
        "setsid nohup sh -c 'trap \"\" TERM HUP; echo $$ > pid; while :; do read x < never; done' & echo up; wait";
    case.pipe("never");
    case.start(daemon).await.unwrap();
    let pid = case.pid("pid").await;
    let text = case.stop("bash_1").await.unwrap();
    assert!(text.starts_with("`bash_1` (") && text.contains(") was stopped. TaskOutput shows"), "{text}");
    assert!(!alive(&pid));
    let text = case.end("bash_1").await;
    assert!(text.starts_with("up\n[`bash_1`: was stopped after "), "{text}");
    assert!(case.stop("bash_1").await.unwrap().contains("was stopped"));
    case.start("exit 4").await.unwrap();
    case.end("bash_2").await;
    assert!(case.stop("bash_2").await.unwrap().contains("ended with exit code 4"));
}

#[tokio::test]
async fn b003_b022_shutdown_ends_everything_and_nothing_starts_behind_it() {
    let mut case = case();
    case.pipe("never");
    let deaf = "trap '' TERM HUP INT; echo $$ > pid1; (setsid sh -c '(trap \"\" TERM; setsid sh -c \"echo \\$\\$ > pid2; \
                while :; do read x < never; done\" &) ; exit 0' &); while :; do read x < never; done";
    case.start(deaf).await.unwrap();
    case.start(WAITING).await.unwrap();
    let pids = [case.pid("pid1").await, case.pid("pid2").await];
    timeout(FOREVER, case.background.shutdown()).await.unwrap();
    assert!(!pids.iter().any(|pid| alive(pid)));
    assert_eq!(case.start("true").await.unwrap_err(), "Nothing was run: the job is ending.");
    assert_eq!(case.background.next_ended().await, None);
    timeout(FOREVER, case.background.shutdown()).await.unwrap();
}

#[tokio::test]
async fn dropping_ends_everything() {
    let mut case = case();
    case.pipe("never");
    case.start("trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > pid; read x < never' & read x < never")
        .await
        .unwrap();
    let pid = case.pid("pid").await;
    let Case { background, dir: _dir, .. } = case;
    drop(background);
    gone(&pid).await;
}

#[tokio::test]
async fn b130_what_the_foreground_leaves_ends_without_what_runs_in_the_background() {
    let mut case = case();
    let daemon = "setsid sh -c 'echo $$ > pid; read x < never' & read line < go; echo \"got $line\"; cat pid";
    case.pipe("never");
    case.start(daemon).await.unwrap();
    let pid = case.pid("pid").await;
    let brood =
        "read x < never & setsid sh -c 'echo $$ > left; read x < never' & while ! [ -s left ]; do :; done; echo done";
    let text = case.foreground(brood).await.unwrap();
    assert!(
        text.starts_with("done\n[2 processes still ran when the command ended: killed; what is to run on"),
        "{text}"
    );
    gone(&case.pid("left").await).await;
    // A guard that was killed leaves its brood to others.
    fs::remove_file(case.path("left")).unwrap();
    let text = case.foreground(&format!("{brood}; kill -9 $PPID; read x < never")).await.unwrap_err();
    assert!(text.contains("killed by signal 9"), "{text}");
    gone(&case.pid("left").await).await;
    sweep();
    assert!(alive(&pid));
    case.send("go", "on").await;
    assert!(case.end("bash_1").await.starts_with(&format!("got on\n{pid}\n[`bash_1`: ended with exit code 0")));
}

#[tokio::test]
async fn a_cancelled_call_ends_no_background_command() {
    let mut case = case();
    case.start(WAITING).await.unwrap();
    let cancel = CancellationToken::new();
    let input = arguments(&TASK_OUTPUT, json!({ "task_id": "bash_1", "timeout": 600_000 }));
    let (answer, ()) = tokio::join!(case.background.output(&input, &cancel), async { cancel.cancel() });
    assert_eq!(answer, Err(CANCELLED.into()));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let input = arguments(&BASH, json!({ "command": "read x < never" }));
    assert!(case.shell.run(&case.around, "call", &input, &cancelled).await.is_err());
    case.send("go", "on").await;
    assert!(case.end("bash_1").await.contains("got on\n"));
}

#[tokio::test]
async fn b136_a_flood_stays_in_bounds() {
    let mut case = case();
    case.start("head -c 400000000 /dev/zero | tr '\\0' x; printf '\\nEND'; read line < go; echo last").await.unwrap();
    let log = case.around.outputs.join("bash_1.log");
    case.send("go", "").await;
    let text = case.end("bash_1").await;
    assert!(text.len() < 31_000, "{}", text.len());
    assert!(text.contains("[... cut here: 400.0 MB of new output in all, kept in "), "{text}");
    assert!(text.contains("\nENDlast\n[`bash_1`: ended with exit code 0"), "{text}");
    let size = fs::metadata(log).unwrap().len();
    assert!((FILE..FILE + 100).contains(&size), "{size}");
}

#[tokio::test]
async fn what_ended_by_itself_is_announced_once() {
    let mut case = case();
    case.start("read line < go; exit 7").await.unwrap();
    let early = timeout(Duration::ZERO, case.background.next_ended()).await;
    assert!(early.is_err(), "{early:?}");
    let (ended, ()) = tokio::join!(case.background.next_ended(), case.send("go", ""));
    let expected = Ended {
        task_id: "bash_1".into(),
        command: "read line < go; exit 7".into(),
        how: "ended with exit code 7".into(),
    };
    assert_eq!(ended, Some(expected));
    assert!(timeout(Duration::ZERO, case.background.next_ended()).await.is_err());
}

#[tokio::test]
async fn what_the_model_knows_is_not_announced() {
    let mut case = case();
    case.start(WAITING).await.unwrap();
    // Seen by a call that waited for it.
    let seen = async { tokio::join!(case.end("bash_1"), case.send("go", "")).0 };
    tokio::select! {
        ended = case.background.next_ended() => panic!("{ended:?}"),
        text = seen => assert!(text.contains("ended with exit code 0")),
    }
    case.start(WAITING).await.unwrap();
    case.stop("bash_2").await.unwrap();
    assert!(timeout(Duration::ZERO, case.background.next_ended()).await.is_err());
    // A call that was given up has told nothing.
    case.start(WAITING).await.unwrap();
    {
        let mut waiting = std::pin::pin!(case.end("bash_3"));
        assert!(timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    }
    let (ended, ()) = tokio::join!(case.background.next_ended(), case.send("go", ""));
    assert_eq!(ended.unwrap().task_id, "bash_3");
}
