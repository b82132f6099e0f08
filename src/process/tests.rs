//! Real processes, real signals. Waits are for conditions, with bounds far beyond what is needed.

use super::descendants::all;
use super::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// No condition of these tests takes so long unless it never comes true.
const FOREVER: Duration = Duration::from_mins(1);

/// Not a test: how this binary becomes a guard (see `run::ENTRY`).
#[test]
#[ignore = "the entry of guards"]
fn guard_entry() {
    let args = std::env::args_os().skip_while(|arg| arg != "--").skip(1);
    let _: std::process::ExitCode = guard_main(args);
}

/// Not a test: a runner to be killed. Runs the script of its arguments.
#[test]
#[ignore = "the entry of a runner that is killed"]
fn runner_entry() {
    let script = std::env::args().skip_while(|arg| arg != "--").nth(1).unwrap();
    adopt_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if script == "--two" {
        return runtime.block_on(two_calls());
    }
    runtime.block_on(run(shell(Path::new("."), &script)));
}

fn environment() -> Environment {
    let parent = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    Environment::build(&parent, &[], &BTreeMap::new(), &[])
}

fn shell(cwd: &Path, script: &str) -> Command {
    let argv = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
    Command {
        grace: Duration::from_millis(300),
        ..Command::new(argv, cwd, environment(), FOREVER, CancellationToken::new())
    }
}

/// Runs a script in a folder of its own; gives back how it ended and what the folder's files hold.
async fn check(script: &str) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    timeout(FOREVER * 2, run(shell(folder.path(), script))).await.unwrap()
}

/// The pids that a script has written into files of the folder, one each.
fn pids(folder: &Path) -> Vec<i32> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with("pid"));
    files.map(|file| std::fs::read_to_string(file.path()).unwrap().trim().parse().unwrap_or(0)).collect()
}

fn alive(pid: i32) -> bool {
    all().iter().any(|entry| entry.pid.as_raw_pid() == pid && !entry.dead)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(FOREVER, wait).await.is_ok(), "never: {what}");
}

/// Waits until the folder names `count` processes.
async fn started(folder: &Path, count: usize) -> Vec<i32> {
    until("all have started", || pids(folder).iter().filter(|pid| **pid > 0).count() == count).await;
    pids(folder)
}

async fn gone(pids: &[i32]) {
    until("all are gone", || !pids.iter().any(|pid| alive(*pid))).await;
}

/// Leaves four kinds of children behind: plain, deaf to SIGTERM, in a session of its own, and orphaned twice.
const BROOD: &str = "sleep 600 & echo $! > pid1
    (trap '' TERM HUP; echo $$ > /dev/null; exec sh -c 'echo $$ > pid2; while :; do sleep 600; done') &
    setsid sh -c 'trap \"\" TERM; echo $$ > pid3; while :; do sleep 600; done' &
    (setsid sh -c '(trap \"\" TERM; setsid sh -c \"echo \\$\\$ > pid4; exec sleep 600\" &) ; exit 0' &)
    while ! [ -s pid2 ] || ! [ -s pid3 ] || ! [ -s pid4 ]; do sleep 0.01; done\n";

#[tokio::test]
async fn the_exit_code_and_the_output_come_back_in_order() {
    let finished = check("echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(finished.end, End::Exited(3));
    assert_eq!(finished.output.text(), "one\ntwo\nthree\n");
    assert_eq!(finished.leftovers, 0);
}

#[tokio::test]
async fn a_signal_is_told_apart_from_an_exit_code() {
    assert_eq!(check("kill -9 $$").await.end, End::Signaled(9));
    assert_eq!(check("kill -15 $$").await.end, End::Signaled(15));
    assert_eq!(check("kill -PIPE $$; exit 0").await.end, End::Signaled(13));
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let end = async |argv: &[&str], cwd: &Path| {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        run(Command::new(argv, cwd, environment(), FOREVER, CancellationToken::new())).await.end
    };
    let refused = |end: &End, missing_program: bool, words: &str| {
        let End::NotStarted { missing, message } = end else { panic!("{end:?}") };
        assert_eq!(*missing, missing_program, "{message}");
        assert!(message.contains(words), "{message}");
    };
    refused(&end(&["no-such-program-at-all"], folder.path()).await, true, "cannot run `no-such-program-at-all`");
    std::fs::write(folder.path().join("plain"), "").unwrap();
    refused(&end(&["./plain"], folder.path()).await, true, "cannot run `./plain`");
    refused(&end(&[], folder.path()).await, false, "empty");
    refused(&end(&[""], folder.path()).await, false, "empty");
    refused(&end(&["echo", &"x".repeat(3 << 20)], folder.path()).await, false, "cannot start `echo`");
}

#[tokio::test]
async fn b026_a_deleted_folder_and_a_nul_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let End::NotStarted { missing: false, message } = run(shell(&gone, "true")).await.end else { panic!() };
    assert!(message.contains("does not exist"), "{message}");
    let End::NotStarted { missing: false, message } = run(shell(folder.path(), "echo \0")).await.end else { panic!() };
    assert!(message.contains("NUL"), "{message}");
    // Deleted by the command itself: the command is fine, and the next one is refused.
    std::fs::create_dir(&gone).unwrap();
    assert_eq!(run(shell(&gone, "rm -rf \"$PWD\"")).await.end, End::Exited(0));
}

#[tokio::test]
async fn b139_b140_there_is_no_terminal_and_nothing_to_read() {
    let finished =
        check("tty; cat; (: < /dev/tty) 2>/dev/null && echo has a terminal; echo $EDITOR $PAGER $TERM").await;
    assert_eq!(finished.output.text(), "not a tty\ntrue cat dumb\n");
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = Environment::default();
    env.set("ONLY", "this");
    let argv = vec!["/usr/bin/env".to_owned()];
    let finished = run(Command::new(argv, folder.path(), env, FOREVER, CancellationToken::new())).await;
    assert_eq!(finished.output.text(), "ONLY=this\n");
}

#[tokio::test]
async fn b096_a_child_that_closes_its_streams_harms_nobody() {
    let finished = check("exec <&- >&- 2>&-; sleep 0.05; exit 4").await;
    assert_eq!((finished.end, finished.output.total), (End::Exited(4), 0));
}

/// More than any pipe holds.
const MEGABYTE: usize = 1 << 20;

/// A script that may read that many bytes, with its streams apart.
fn fed(cwd: &Path, script: &str, bytes: usize) -> Command {
    Command { input: Some("x".repeat(bytes).into()), apart: Some(1000), ..shell(cwd, script) }
}

#[tokio::test]
async fn what_it_is_given_to_read_arrives_whole_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [0, 1, 70_000, MEGABYTE] {
        // By name too, which a socket would refuse.
        for script in ["wc -c", "cat < /dev/stdin | wc -c"] {
            let finished = timeout(FOREVER, run(fed(folder.path(), script, bytes))).await.unwrap();
            assert_eq!((finished.end, finished.output.text().trim()), (End::Exited(0), bytes.to_string().as_str()));
        }
    }
}

#[tokio::test]
async fn an_echo_of_all_that_it_reads_does_not_block_either_side() {
    let folder = tempfile::tempdir().unwrap();
    let finished = timeout(FOREVER, run(fed(folder.path(), "tee /dev/stderr", MEGABYTE))).await.unwrap();
    assert_eq!((finished.end, finished.output.total), (End::Exited(0), 2 * MEGABYTE as u64));
}

#[tokio::test]
async fn b094_b096_a_command_need_not_read_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    for (script, code) in [
        ("exit 0", 0),
        ("exec <&-; echo closed; exit 3", 3),
        ("exec sleep 0.05", 0),
        ("head -c 1 > /dev/null; exit 4", 4),
        // Somebody in the background holds the pipe and does not read.
        ("sleep 600 <&0 & exit 5", 5),
    ] {
        for bytes in [70_000, MEGABYTE] {
            let finished = timeout(FOREVER, run(fed(folder.path(), script, bytes))).await.unwrap();
            assert_eq!(finished.end, End::Exited(code), "{script}");
        }
    }
}

#[tokio::test]
async fn b094_the_timer_covers_the_writing_too() {
    let folder = tempfile::tempdir().unwrap();
    for script in ["exec sleep 600", "head -c 100000 > /dev/null; exec sleep 600"] {
        let mut command = fed(folder.path(), script, MEGABYTE);
        command.timeout = Duration::from_millis(300);
        let finished = timeout(FOREVER, run(command)).await.unwrap();
        assert_eq!(finished.end, End::TimedOut);
    }
}

#[tokio::test]
async fn a_program_that_cannot_run_is_told_in_spite_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let argv = vec!["no-such-program-at-all".to_owned()];
    let finished = run(Command { argv, ..fed(folder.path(), "", MEGABYTE) }).await;
    assert!(matches!(finished.end, End::NotStarted { missing: true, .. }), "{:?}", finished.end);
}

#[tokio::test]
async fn streams_are_kept_apart_on_demand_each_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo out; echo error >&2; echo more; echo by name > /dev/stderr";
    let log = folder.path().join("log");
    let mut command = fed(folder.path(), script, 0);
    command.capture.file = Some(log.clone());
    let finished = run(command).await;
    let streams = finished.streams.unwrap();
    assert_eq!((streams.stdout.text().as_str(), streams.stderr.text().as_str()), ("out\nmore\n", "error\nby name\n"));
    assert_eq!(finished.output.total, 23);
    assert_eq!(std::fs::read_to_string(log).unwrap(), finished.output.text());
    assert_eq!(check(script).await.streams, None);
    let finished = run(fed(folder.path(), "yes | head -c 5000; yes | head -c 5000 >&2", 0)).await;
    let streams = finished.streams.unwrap();
    for output in [streams.stdout, streams.stderr] {
        assert_eq!((output.head.len(), output.tail.len(), output.total), (500, 500, 5000));
    }
}

#[tokio::test]
async fn b135_a_flood_on_both_streams_does_not_hold_the_timer() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = fed(folder.path(), "yes & yes error >&2", MEGABYTE);
    command.timeout = Duration::from_secs(1);
    let finished = timeout(FOREVER, run(command)).await.unwrap();
    assert_eq!(finished.end, End::TimedOut);
    let streams = finished.streams.unwrap();
    assert!(streams.stdout.total > 0 && streams.stderr.total > 0);
}

#[tokio::test]
async fn b003_background_children_end_with_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let finished = run(shell(folder.path(), &format!("{BROOD} echo done"))).await;
    assert_eq!((finished.end, finished.output.text().as_str()), (End::Exited(0), "done\n"));
    assert!(finished.leftovers >= 4, "{}", finished.leftovers);
    let pids = pids(folder.path());
    assert_eq!(pids.len(), 4);
    assert!(!pids.iter().any(|pid| alive(*pid)), "they are gone when the call comes back");
}

#[tokio::test]
async fn b130_a_background_writer_cannot_hold_the_call() {
    let finished = check("yes & echo $! > pid; sleep 0.1; echo done; exit 5").await;
    assert_eq!(finished.end, End::Exited(5));
    assert_eq!(finished.leftovers, 1);
}

#[tokio::test]
async fn b131_b132_b133_at_the_time_limit_the_whole_brood_dies() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("trap '' TERM; {BROOD} echo ready; while :; do sleep 600; done");
    let mut command = shell(folder.path(), &script);
    command.timeout = Duration::from_secs(3);
    let finished = timeout(FOREVER, run(command)).await.unwrap();
    assert_eq!(finished.end, End::TimedOut);
    assert!(!pids(folder.path()).iter().any(|pid| alive(*pid)));
}

#[tokio::test]
async fn a_polite_command_uses_its_grace() {
    let folder = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let mut command = shell(folder.path(), "trap 'echo bye; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done");
    command.cancel = cancel.clone();
    command.grace = FOREVER;
    let stopper = async {
        started(folder.path(), 1).await;
        cancel.cancel();
    };
    let (finished, ()) = tokio::join!(run(command), stopper);
    assert_eq!(finished.end, End::Cancelled);
    assert!(finished.output.text().ends_with("bye\n"), "{}", finished.output.text());
}

#[tokio::test]
async fn cancelling_ends_the_whole_brood_and_an_early_cancel_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = shell(folder.path(), &format!("{BROOD} sleep 600"));
    let cancel = command.cancel.clone();
    let stopper = async {
        started(folder.path(), 4).await;
        cancel.cancel();
    };
    let (finished, ()) = tokio::join!(run(command.clone()), stopper);
    assert_eq!(finished.end, End::Cancelled);
    assert!(!pids(folder.path()).iter().any(|pid| alive(*pid)));
    command.argv[2] = "touch ran".into();
    assert_eq!(run(command).await.end, End::Cancelled);
    assert!(!folder.path().join("ran").exists());
}

#[tokio::test]
async fn dropping_the_call_ends_the_whole_brood() {
    let folder = tempfile::tempdir().unwrap();
    let pids = {
        let call = run(shell(folder.path(), &format!("{BROOD} sleep 600")));
        tokio::select! {
            _ = call => panic!("it does not end by itself"),
            pids = started(folder.path(), 4) => pids,
        }
    };
    gone(&pids).await;
}

#[tokio::test]
async fn b135_b136_a_flood_is_bounded_and_does_not_hold_the_timer() {
    let folder = tempfile::tempdir().unwrap();
    for flood in ["yes", "cat /dev/zero", "trap '' TERM; yes & yes"] {
        let mut command = shell(folder.path(), flood);
        command.timeout = Duration::from_secs(1);
        command.capture =
            Capture { head: 1000, tail: 2000, file: Some(folder.path().join("log")), file_limit: 100_000 };
        let finished = timeout(FOREVER, run(command)).await.unwrap();
        assert_eq!(finished.end, End::TimedOut, "{flood}");
        assert_eq!((finished.output.head.len(), finished.output.tail.len()), (1000, 2000));
        assert!(finished.output.total > 200_000, "{}", finished.output.total);
        assert!(std::fs::metadata(folder.path().join("log")).unwrap().len() < 101_000);
    }
}

#[tokio::test]
async fn the_end_of_a_large_output_is_never_lost() {
    let finished = check("head -c 3000000 /dev/zero | tr '\\0' x; printf END").await;
    assert_eq!(finished.output.total, 3_000_003);
    assert!(finished.output.text().ends_with("xEND"));
}

#[tokio::test]
async fn b094_a_killed_guard_ends_the_call_and_what_it_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 600 & echo $! > pid1; echo $$ > pid2; kill -9 $PPID; sleep 600";
    let finished = timeout(FOREVER, run(shell(folder.path(), script))).await.unwrap();
    assert_eq!(finished.end, End::Signaled(9));
    gone(&pids(folder.path())).await;
}

#[tokio::test]
async fn killing_by_the_name_of_the_runner_hits_no_guard() {
    let finished = check("tr '\\0' '\\n' < /proc/$PPID/cmdline | head -n 1").await;
    assert_eq!(finished.output.text(), "rnr-guard\n");
}

#[tokio::test]
async fn sixteen_at_once_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..16 {
        let script = format!("sleep 600 & sleep 0.0{number}; echo {number}; exit {number}");
        calls.spawn(run(shell(folder.path(), &script)));
    }
    let mut codes = Vec::new();
    while let Some(finished) = calls.join_next().await {
        let finished = finished.unwrap();
        let code = finished.end.exit_code().unwrap();
        assert_eq!((finished.output.text(), finished.leftovers), (format!("{code}\n"), 1));
        codes.push(code);
    }
    codes.sort_unstable();
    assert_eq!(codes, (0..16).collect::<Vec<_>>());
}

#[tokio::test]
async fn no_zombie_and_no_descriptor_is_left() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let me = rustix::process::getpid().as_raw_pid();
    // In a process of its own, as other tests open and close descriptors of this one at the same time.
    let script =
        format!("exec /proc/{me}/exe --exact process::tests::leak_entry --ignored --nocapture --test-threads=1");
    let finished = check(&script).await;
    assert_eq!(finished.end, End::Exited(0), "{}", finished.output.text());
    assert!(count() > 0);
}

/// Not a test by itself: see the one before.
#[tokio::test]
#[ignore = "needs a process of its own"]
async fn leak_entry() {
    let folder = tempfile::tempdir().unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let me = rustix::process::getpid().as_raw_pid();
    run(shell(folder.path(), "true")).await;
    let before = descriptors();
    for script in ["true", "sleep 600 &", "kill -9 $PPID", "exit 3", "exec <&-", "cat"] {
        run(shell(folder.path(), script)).await;
        run(fed(folder.path(), script, MEGABYTE)).await;
        run(Command { argv: vec!["absent-program".into()], ..fed(folder.path(), script, MEGABYTE) }).await;
    }
    assert_eq!(descriptors(), before);
    until("no child is left", || !all().iter().any(|entry| entry.parent == me)).await;
}

#[tokio::test]
async fn no_child_outlives_a_runner_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let runner = in_a_runner(folder.path(), &format!("{BROOD} echo $PPID > pid5; sleep 600"));
    let mut pids = started(folder.path(), 5).await;
    let mut runner = runner;
    pids.push(i32::try_from(runner.id()).unwrap());
    runner.kill().unwrap();
    runner.wait().unwrap();
    gone(&pids).await;
}

#[tokio::test]
async fn what_is_swept_behind_one_call_spares_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = in_a_runner(folder.path(), "--two");
    let pids = started(folder.path(), 4).await;
    gone(&pids).await;
    assert!(runner.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(folder.path().join("end")).unwrap(), "on\n");
}

/// What the entry of a runner does at `--two`: a call whose daemon waits while another call's guard is killed.
async fn two_calls() {
    let here = Path::new(".");
    check_in(here, "mkfifo go").await;
    let daemon = "setsid nohup sh -c 'echo up > up; read line < go; echo $line > end' & wait";
    let sweeping = async {
        until("the daemon is up", || here.join("up").exists()).await;
        assert_eq!(check_in(here, &format!("{BROOD} kill -9 $PPID; sleep 600")).await.end, End::Signaled(9));
        sweep();
        check_in(here, "echo on > go").await;
    };
    let (finished, ()) = tokio::join!(check_in(here, daemon), sweeping);
    assert_eq!((finished.end, finished.leftovers), (End::Exited(0), 0));
}

async fn check_in(folder: &Path, script: &str) -> Finished {
    timeout(FOREVER * 2, run(shell(folder, script))).await.unwrap()
}

#[tokio::test]
async fn what_a_killed_guard_leaves_in_other_sessions_is_swept_by_the_runner() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = in_a_runner(folder.path(), &format!("{BROOD} kill -9 $PPID; sleep 600"));
    let pids = started(folder.path(), 4).await;
    gone(&pids).await;
    assert!(runner.wait().unwrap().success());
}

#[expect(clippy::disallowed_methods, reason = "a runner to be killed")]
fn in_a_runner(folder: &Path, script: &str) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::tests::runner_entry", "--ignored", "--nocapture", "--test-threads=1", "--", script])
        .current_dir(folder)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}
