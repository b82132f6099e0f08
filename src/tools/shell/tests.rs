//! Real shells.

use super::*;
use crate::tools::workspace::tests::arguments;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

struct Case {
    dir: tempfile::TempDir,
    around: Surroundings,
    shell: Shell,
}

fn case() -> Case {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("wt/sub dir")).unwrap();
    let root = Root::open(&dir.path().join("wt")).unwrap();
    let path = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let env = Environment::build(&path, &[], &BTreeMap::new(), &[]);
    let outputs = dir.path().join("run/it's tools");
    let shell = Shell::new(&root);
    Case { dir, around: Surroundings { root, env, outputs }, shell }
}

impl Case {
    async fn run(&mut self, input: Value) -> Answer {
        self.shell.run(&self.around, "call", &arguments(&BASH, input), &CancellationToken::new()).await
    }

    async fn command(&mut self, command: &str) -> Answer {
        self.run(json!({ "command": command })).await
    }

    fn root(&self) -> String {
        self.around.root.path().display().to_string()
    }
}

#[tokio::test]
async fn output_comes_in_order_and_the_code_decides() {
    let mut case = case();
    assert_eq!(case.command("echo a; echo b >&2; echo c").await, Ok("a\nb\nc".into()));
    assert_eq!(case.command("echo a; exit 3").await, Err("a\n[exit code 3]".into()));
    assert_eq!(case.command("false").await, Err("[exit code 1]".into()));
    assert_eq!(case.command("true").await, Ok(String::new()));
    assert_eq!(case.command("kill -9 $$").await, Err("[killed by signal 9]".into()));
    assert_eq!(fs::read_dir(&case.around.outputs).unwrap().count(), 0, "files are left");
}

#[tokio::test]
async fn the_wrapper_is_not_to_be_seen() {
    let mut case = case();
    assert_eq!(case.command("set -x; echo a").await, Ok("++ echo a\na".into()), "and nothing of ours");
    assert_eq!(case.command("echo $# \"$*\" $0").await, Ok("0  bash".into()));
    assert_eq!(case.command("set -eu; false; echo never").await, Err("[exit code 1]".into()));
    assert_eq!(case.command("trap 'echo bye' EXIT; exit 4").await, Err("bye\n[exit code 4]".into()));
    assert_eq!(case.command("trap 'echo bye $?' EXIT; (exit 5)").await, Err("bye 5\n[exit code 5]".into()));
    assert_eq!(case.command("cat <<'X'\n$a 'q' \\n\nX").await, Ok("$a 'q' \\n".into()));
    assert_eq!(case.command("env | grep __; echo done # end").await, Ok("done".into()));
    assert_eq!(case.command("a() { return 6; }; a").await, Err("[exit code 6]".into()));
    let error = case.command("echo a\nnosuchprogram").await.unwrap_err();
    assert!(error.starts_with("a\nbash: line 2: nosuchprogram: command not found"), "{error}");
    let error = case.command("if then").await.unwrap_err();
    assert!(error.contains("syntax error") && error.ends_with("[exit code 2]") && !error.contains("__"), "{error}");
}

#[tokio::test]
async fn the_working_directory_persists_and_variables_do_not() {
    let mut case = case();
    case.command("cd 'sub dir'; export A=1; set -C").await.unwrap();
    let sub = format!("{}/sub dir", case.root());
    assert_eq!(case.command("pwd; echo [$A]").await, Ok(format!("{sub}\n[]")));
    assert_eq!(case.command("cd ..; exit 1").await, Err("[exit code 1]".into()));
    assert_eq!(case.command("pwd").await, Ok(case.root()));
    assert_eq!(case.command("set -e; cd 'sub dir'; false").await, Err("[exit code 1]".into()));
    assert_eq!(case.command("pwd; (cd ..)").await, Ok(sub.clone()));
    assert_eq!(case.command("trap true EXIT; cd ..; cd 'sub dir'; mkdir ../x; cd ../x").await, Ok(String::new()));
    assert_eq!(case.command("pwd").await, Ok(format!("{}/x", case.root())));
}

#[tokio::test]
async fn b114_a_working_directory_outside_or_gone_is_not_kept() {
    let mut case = case();
    let text = case.command("cd /; pwd").await.unwrap();
    assert_eq!(text, format!("/\n[the working directory is {} again: it persists in the worktree only]", case.root()));
    assert_eq!(case.command("pwd").await, Ok(case.root()));
    std::os::unix::fs::symlink(case.dir.path(), case.dir.path().join("wt/out")).unwrap();
    assert!(case.command("cd out").await.unwrap().contains("it persists in the worktree only"));
    case.command("cd 'sub dir'").await.unwrap();
    fs::remove_dir(case.dir.path().join("wt/sub dir")).unwrap();
    let text = case.command("pwd").await.unwrap();
    assert_eq!(text, format!("{0}\n[the working directory sub dir is gone: this ran in {0}]", case.root()));
    assert_eq!(case.command("mkdir x; cd x; rmdir ../x").await, Ok(String::new()));
    assert_eq!(case.command("pwd").await, Ok(case.root()));
}

#[tokio::test]
async fn b026_what_cannot_be_run_is_an_error_result() {
    let mut case = case();
    assert_eq!(case.command("echo a\0b").await.unwrap_err(), "Nothing was run: the command contains a NUL character.");
    assert_eq!(case.command(" \n").await.unwrap_err(), "Nothing was run: the command is empty.");
    assert!(case.command(&"x".repeat(200_000)).await.unwrap_err().contains("200.0 KB long"));
    let fine = json!({ "command": "echo a", "run_in_background": false, "dangerouslyDisableSandbox": true });
    assert_eq!(case.run(fine).await, Ok("a".into()));
    assert_eq!(case.command(&format!("echo {} | wc -c", "x".repeat(100_000))).await, Ok("100001".into()));
}

#[tokio::test]
async fn b131_a_timeout_ends_all_and_keeps_what_was_printed() {
    let mut case = case();
    let command = "echo first; trap '' TERM; (trap '' TERM; sleep 600) & echo $! > pid; sleep 600";
    let error = case.run(json!({ "command": command, "timeout": 300 })).await.unwrap_err();
    assert!(error.starts_with("first\n[timed out after 300 ms: all its processes were killed"), "{error}");
    let pid = fs::read_to_string(case.dir.path().join("wt/pid")).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
}

#[test]
fn b133_every_time_limit_is_within_bounds() {
    let taken = |given| {
        let (limit, notes) = time_limit(given);
        (limit.as_millis(), notes.len())
    };
    assert_eq!(taken(None), (120_000, 0));
    assert_eq!(taken(Some(5)), (5, 0));
    for given in [0, -1, i64::MIN] {
        assert_eq!(taken(Some(given)), (120_000, 1));
    }
    for given in [600_001, 999_999_999, i64::MAX] {
        assert_eq!(taken(Some(given)), (600_000, 1));
    }
}

#[tokio::test]
async fn b130_background_processes_end_with_the_call() {
    let mut case = case();
    let text = case.command("yes > /dev/null & sleep 600 & echo done").await.unwrap();
    assert_eq!(
        text,
        "done\n[2 processes still ran when the command ended: killed; what is to run on needs `run_in_background`]"
    );
}

#[tokio::test]
async fn b136_a_long_output_is_cut_and_kept_in_a_file() {
    let mut case = case();
    let text = case.command("seq 1 100000").await.unwrap();
    assert!(text.len() < INLINE + 500, "{}", text.len());
    let log = case.around.outputs.join("bash-call.log");
    let cut = format!(
        "\n[... cut here: 588.9 KB of output in all, kept in {}, which Read and Grep open. ...]\n",
        log.display()
    );
    let (start, end) = text.split_once(&cut).unwrap();
    assert!(start.starts_with("1\n2\n3\n") && end.ends_with("99999\n100000"), "{text}");
    // Both sides are whole lines.
    assert!(start.lines().chain(end.lines()).all(|line| line.parse::<u32>().is_ok()));
    assert_eq!(fs::metadata(log).unwrap().len(), 588_895);
}

#[tokio::test]
async fn b040_a_cut_never_falls_into_a_character() {
    let mut case = case();
    for shift in 0..4 {
        let command = format!("head -c {shift} /dev/zero | tr '\\0' x; yes 😀 | head -n 40000 | tr -d '\\n'");
        let text = case.command(&command).await.unwrap();
        assert!(!text.contains('\u{fffd}'), "{shift}");
        assert!(text.contains("😀\n[... cut here: 160.0 KB"));
    }
}

#[tokio::test]
async fn escape_sequences_and_bytes_that_are_no_text_are_cleaned() {
    let mut case = case();
    assert_eq!(
        case.command(r"printf '\033[31mred\033[0m \377 \000x\r\n10%%\r99%%\n'").await,
        Ok("red \u{fffd} x\n99%".into())
    );
    let colours = r"i=0; while [ $i -lt 4000 ]; do printf '\033[38;5;12ma\033[0m'; i=$((i+1)); done";
    assert_eq!(case.command(colours).await, Ok("a".repeat(4_000)));
}

#[tokio::test]
async fn b139_b140_nothing_waits_for_a_person() {
    let mut case = case();
    let text = case.command("read line; echo [$line] $?; tty; echo $EDITOR $PAGER $TERM; cat").await.unwrap();
    assert_eq!(text, "[] 1\nnot a tty\ntrue cat dumb");
    let git = "git init -q . && git config user.name a && git config user.email a@b && echo x > f && git add f && \
               git -c core.editor=vi commit; git commit -qm one && git commit --amend && git log";
    let text = case.command(git).await.unwrap();
    assert!(text.contains("empty commit message") && text.contains("Author: a <a@b>"), "{text}");
}

#[tokio::test]
async fn cancelling_ends_the_command() {
    let case = case();
    let cancel = CancellationToken::new();
    let started = case.dir.path().join("wt/started");
    let input = arguments(&BASH, json!({ "command": "echo before; touch started; sleep 600" }));
    let Case { around, mut shell, .. } = case;
    let stop = async {
        while !started.exists() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(shell.run(&around, "call", &input, &cancel), stop);
    assert_eq!(answer, Err(format!("before\n[{CANCELLED}]")));
}

#[tokio::test]
async fn without_bash_sh_is_used() {
    let mut case = case();
    let bin = case.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("sh")).unwrap();
    case.around.env.set("PATH", bin.display().to_string());
    assert_eq!(case.command("echo $0; cd 'sub dir'; exit 7").await, Err("sh\n[exit code 7]".into()));
    assert_eq!(case.command("pwd").await, Ok(format!("{}/sub dir", case.root())));
}

#[test]
fn names_of_files_are_tame() {
    assert_eq!(log_name("toolu_01-aB"), "bash-toolu_01-aB.log");
    assert_eq!(log_name("../../x y\0"), "bash-xy.log");
    assert!(log_name(&"x".repeat(1_000)).len() < 100);
}
