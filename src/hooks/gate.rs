//! Gates: their exit codes judge the work.

use super::call::{KILLED, NOT_EXECUTABLE, NOT_FOUND, SHELL_SAW_KILLED, hint, last_of, meaning, start};
use crate::plan::GatePlan;
use crate::process::{End, Environment};
use crate::query::{HookResult, HookStatus};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How a gate ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRun {
    /// Status and output of its last run; the duration of all.
    pub result: HookResult,
    /// How often it was run: 1, or more with `retries`.
    pub runs: u32,
    /// It was red, and green when it was run again.
    pub flaky: bool,
    /// The exit code of its last run, where it had one.
    pub exit_code: Option<i32>,
}

/// Runs a gate; a red one again, as often as it allows.
///
/// The whole output of the last run goes to `log` (up to 64 MiB), that of red runs before it to files beside it. Never
/// fails: what goes wrong is a status.
pub async fn run_gate(
    gate: &GatePlan,
    cwd: &Path,
    env: &Environment,
    log: &Path,
    cancel: &CancellationToken,
) -> GateRun {
    let mut runs = 0;
    let mut spent = Duration::ZERO;
    loop {
        let finished = start(&gate.run, cwd, env, gate.timeout, log, cancel).await;
        runs += 1;
        spent += finished.duration;
        let status = status(&finished.end);
        if matches!(status, HookStatus::Fail { .. }) && runs <= gate.retries {
            // Should it fail, the next run's output replaces this one's.
            drop(tokio::fs::rename(log, log.with_extension(format!("red{runs}.log"))).await);
            continue;
        }
        let flaky = runs > 1 && status == HookStatus::Pass;
        let exit_code = finished.end.exit_code();
        return GateRun {
            result: HookResult { status, tail: last_of(&finished), duration: spent },
            runs,
            flaky,
            exit_code,
        };
    }
}

fn status(end: &End) -> HookStatus {
    match end {
        End::Exited(0) => HookStatus::Pass,
        End::Exited(code @ (NOT_FOUND | NOT_EXECUTABLE | SHELL_SAW_KILLED)) => {
            HookStatus::Broken(format!("it ended with exit code {code}{}", meaning(*code)))
        }
        End::Exited(code) => HookStatus::Fail { exit_code: Some(*code) },
        End::Signaled(KILLED) => HookStatus::Broken(format!("it was killed by signal {KILLED}{}", hint(KILLED))),
        End::Signaled(_) => HookStatus::Fail { exit_code: None },
        End::TimedOut => HookStatus::TimedOut,
        End::Cancelled => HookStatus::Broken("cancelled".to_owned()),
        End::NotStarted { message, .. } => HookStatus::Broken(message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::TAIL;
    use super::super::scene::{ENOUGH, Scene};
    use super::*;
    use crate::plan::{Before, CommandLine, OnFail};
    use std::fs;

    impl Scene {
        async fn gate(&self, line: &str, retries: u32, timeout: Duration) -> GateRun {
            self.gate_of(CommandLine::Shell(line.to_owned()), retries, timeout).await
        }

        async fn gate_of(&self, run: CommandLine, retries: u32, timeout: Duration) -> GateRun {
            let gate = GatePlan {
                name: "g".into(),
                run,
                timeout,
                max_blocks: 1,
                on_fail: OnFail::Block,
                before: Before::Any,
                retries,
                place: 0,
            };
            run_gate(&gate, self.folder.path(), &self.env, &self.log(), &self.cancel).await
        }
    }

    #[tokio::test]
    async fn b091_exit_code_0_passes_whatever_was_printed() {
        let scene = Scene::new();
        for (line, tail) in [("true", ""), ("echo FAILED; echo error >&2", "FAILED\nerror\n")] {
            let run = scene.gate(line, 3, ENOUGH).await;
            assert_eq!(run.result.status, HookStatus::Pass);
            assert_eq!((run.result.tail.as_str(), run.runs, run.flaky, run.exit_code), (tail, 1, false, Some(0)));
        }
    }

    #[tokio::test]
    async fn red_is_told_with_its_output_cleaned_and_kept_whole_in_the_log() {
        let scene = Scene::new();
        let run = scene.gate("printf '\\033[31mred\\033[0m\\n'; exit 3", 0, ENOUGH).await;
        assert_eq!(run.result.status, HookStatus::Fail { exit_code: Some(3) });
        assert_eq!((run.result.tail.as_str(), run.exit_code), ("red\n", Some(3)));
        assert_eq!(fs::read_to_string(scene.log()).unwrap(), "\u{1b}[31mred\u{1b}[0m\n");
        let run = scene.gate("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; false", 0, ENOUGH).await;
        assert!(run.result.tail.len() <= TAIL && run.result.tail.ends_with("line 4999\n"), "{}", run.result.tail);
        assert!(run.result.tail.starts_with("line "));
        assert!(fs::read_to_string(scene.log()).unwrap().starts_with("line 0\nline 1\n"));
    }

    #[tokio::test]
    async fn a_red_gate_is_run_again_and_is_flaky_when_green_then() {
        let scene = Scene::new();
        let line = "echo run >> count; cat count; [ $(wc -l < count) -ge 3 ]";
        let run = scene.gate(line, 5, ENOUGH).await;
        assert_eq!((&run.result.status, run.runs, run.flaky, run.exit_code), (&HookStatus::Pass, 3, true, Some(0)));
        let logs = scene.folder.path().join("logs");
        for (name, text) in
            [("gate-1.red1.log", "run\n"), ("gate-1.red2.log", "run\nrun\n"), ("gate-1.log", "run\nrun\nrun\n")]
        {
            assert_eq!(fs::read_to_string(logs.join(name)).unwrap(), text);
        }
        let run = scene.gate("exit 1", 2, ENOUGH).await;
        assert_eq!((run.result.status, run.runs, run.flaky), (HookStatus::Fail { exit_code: Some(1) }, 3, false));
    }

    #[tokio::test]
    async fn b092_what_could_not_be_judged_is_no_red_and_is_not_run_again() {
        let scene = Scene::new();
        fs::write(scene.folder.path().join("plain"), "").unwrap();
        for (line, words) in [
            ("absent-program", "it ended with exit code 127: a program was not found"),
            ("./plain", "it ended with exit code 126: a program may not be executed"),
            ("kill -9 $$", "it was killed by signal 9, perhaps for want of memory"),
            (
                "sh -c 'kill -9 $$'; exit $?",
                "it ended with exit code 137: a program was killed, perhaps for want of memory",
            ),
        ] {
            let run = scene.gate(line, 3, ENOUGH).await;
            assert_eq!((run.result.status, run.runs), (HookStatus::Broken(words.to_owned()), 1), "{line}");
        }
        let run = scene.gate_of(CommandLine::Argv(vec!["absent-program".into()]), 3, ENOUGH).await;
        assert!(matches!(&run.result.status, HookStatus::Broken(words) if words.contains("absent-program")), "{run:?}");
        assert_eq!((run.runs, run.exit_code), (1, None));
    }

    #[tokio::test]
    async fn a_crash_is_red_without_an_exit_code() {
        let run = Scene::new().gate("kill -SEGV $$", 0, ENOUGH).await;
        assert_eq!((run.result.status, run.exit_code), (HookStatus::Fail { exit_code: None }, None));
    }

    #[tokio::test]
    async fn b127_a_gate_past_its_time_tells_what_it_said_last() {
        let scene = Scene::new();
        let run = scene.gate("echo waiting for a lock; sleep 1000", 3, Duration::from_millis(300)).await;
        assert_eq!((&run.result.status, run.runs), (&HookStatus::TimedOut, 1));
        assert_eq!(run.result.tail, "waiting for a lock\n");
    }

    #[tokio::test]
    async fn b094_b096_standard_input_is_empty() {
        let scene = Scene::new();
        for line in ["cat", "exec <&-"] {
            assert_eq!(scene.gate(line, 0, ENOUGH).await.result.status, HookStatus::Pass);
        }
    }

    #[tokio::test]
    async fn a_cancelled_gate_is_broken() {
        let scene = Scene::new();
        scene.cancel.cancel();
        let run = scene.gate("exit 1", 3, ENOUGH).await;
        assert_eq!((run.result.status, run.runs), (HookStatus::Broken("cancelled".into()), 1));
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_is_told_and_changes_nothing_else() {
        let scene = Scene::new();
        fs::create_dir_all(scene.log()).unwrap();
        let run = scene.gate("echo said", 0, ENOUGH).await;
        assert_eq!(run.result.status, HookStatus::Pass);
        assert!(run.result.tail.starts_with("said\n\n[the whole output was not kept: "), "{}", run.result.tail);
    }
}
