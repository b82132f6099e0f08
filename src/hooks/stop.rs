//! Stop hooks that judge nothing: they may object when the model believes that it is done.

use super::answer::Answer;
use super::call::{KILLED, NOT_EXECUTABLE, NOT_FOUND, SHELL_SAW_KILLED, ask, failure, last_of, read};
use super::wire::StopInput;
use crate::plan::CommandLine;
use crate::process::{End, Environment};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How a stop hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopHookRun {
    /// What it decided.
    pub decision: StopDecision,
    /// The end of its output, cleaned.
    pub tail: String,
    /// How long it took.
    pub duration: Duration,
    /// Its exit code, where it had one.
    pub exit_code: Option<i32>,
    /// What a person should know: its own message, or what was wrong with it.
    pub warning: Option<String>,
}

/// What a stop hook decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopDecision {
    /// Nothing to object.
    Pass,
    /// The model goes on with this text; never empty.
    Block(String),
    /// The query ends, for this reason, which is not for the model; never empty.
    Prevent(String),
    /// It could not be run, which is no objection.
    Broken(String),
}

/// Runs a stop hook as Claude Code does.
///
/// Its whole output goes to `log`, up to 64 MiB. Never fails: what goes wrong is a decision.
pub async fn run_stop_hook(
    run: &CommandLine,
    cwd: &Path,
    env: &Environment,
    limit: Duration,
    log: &Path,
    cancel: &CancellationToken,
    input: &StopInput,
) -> StopHookRun {
    let finished = ask(run, cwd, env, limit, log, cancel, input.encode(cwd)).await;
    let (decision, warning) = decide(&finished.end, &read(&finished), limit);
    StopHookRun {
        decision,
        tail: last_of(&finished),
        duration: finished.duration,
        exit_code: finished.end.exit_code(),
        warning,
    }
}

fn decide(end: &End, answer: &Answer, limit: Duration) -> (StopDecision, Option<String>) {
    let broken = |how: String| (StopDecision::Broken(how), answer.warning(None));
    let passed = |warning: String| (StopDecision::Pass, answer.warning(Some(warning)));
    let code = match end {
        End::Exited(code) => *code,
        End::Cancelled => return broken("cancelled".to_owned()),
        End::Signaled(KILLED) | End::NotStarted { .. } => return broken(failure(end, limit)),
        End::Signaled(_) | End::TimedOut => return passed(failure(end, limit)),
    };
    let decision = if let Some(reason) = &answer.stop {
        StopDecision::Prevent(reason.clone())
    } else if code == 2 || answer.block.is_some() {
        StopDecision::Block(answer.objection(&[&answer.block], "a stop hook objects, and gives no reason"))
    } else if let Some(context) = &answer.context {
        StopDecision::Block(context.clone())
    } else if matches!(code, NOT_FOUND | NOT_EXECUTABLE | SHELL_SAW_KILLED) {
        return broken(failure(end, limit));
    } else {
        StopDecision::Pass
    };
    (decision, answer.warning(answer.complaint(code)))
}

#[cfg(test)]
mod tests {
    use super::super::scene::{ENOUGH, Scene, session};
    use super::StopDecision::{Block, Broken, Pass, Prevent};
    use super::*;
    use std::fs;

    /// Shorter than what it ends, which never ends by itself.
    const SHORT: Duration = Duration::from_millis(300);

    /// What the answer comes to.
    fn decided(code: i32, stdout: &str, stderr: &str) -> (StopDecision, Option<String>) {
        decide(&End::Exited(code), &Answer::read(stdout, true, stderr), SHORT)
    }

    #[test]
    fn b091_b092_exit_codes_and_json_mean_what_they_mean_to_claude_code() {
        let text = |text: &str| text.to_owned();
        let context = "{\"hookSpecificOutput\":{\"additionalContext\":\"note\"}}";
        let block = "{\"decision\":\"block\",\"reason\":\"red\"}";
        let stop = "{\"continue\":false,\"stopReason\":\"enough\",\"decision\":\"block\",\"reason\":\"red\"}";
        let silent = "a stop hook objects, and gives no reason";
        let odd = "it ended with exit code 1: first";
        for (code, stdout, stderr, decision, warning) in [
            // 0: passes, whatever it prints that is not JSON.
            (0, "", "", Pass, None),
            (0, "FAILED", "error", Pass, None),
            (0, "{\"decision\":\"approve\"}", "error", Pass, None),
            (0, "{\"hookSpecificOutput\":{\"permissionDecision\":\"deny\"}}", "", Pass, None),
            (0, block, "error", Block(text("red")), None),
            (0, "{\"decision\":\"block\"}", " error\n", Block(text("error")), None),
            (0, "{\"decision\":\"block\",\"reason\":\" \"}", "\n", Block(text(silent)), None),
            (0, context, "", Block(text("note")), None),
            (0, stop, "", Prevent(text("enough")), None),
            (0, "{\"continue\":false}", "", Prevent(text("it gave no reason")), None),
            (0, "{\"systemMessage\":\"look\"}", "", Pass, Some("look")),
            // 2: blocks; JSON gives the reason and cannot undo it, but may end the query.
            (2, "", "", Block(text(silent)), None),
            (2, "plain", "first\nsecond\n", Block(text("first\nsecond")), None),
            (2, block, "error", Block(text("red")), None),
            (2, "{\"decision\":\"approve\",\"reason\":\"fine\"}", "error", Block(text("error")), None),
            (2, context, "error", Block(text("error\nnote")), None),
            (2, stop, "error", Prevent(text("enough")), None),
            // Others: no objection, but JSON still counts.
            (1, "", "", Pass, Some("it ended with exit code 1")),
            (1, "plain", "\n first \nsecond", Pass, Some(odd)),
            (1, block, "first", Block(text("red")), Some(odd)),
            (1, stop, "first", Prevent(text("enough")), Some(odd)),
            (1, "{\"systemMessage\":\"look\"}", "first", Pass, Some("look\nit ended with exit code 1: first")),
            (139, "", "", Pass, Some("it ended with exit code 139")),
            // It could not do its work.
            (127, "", "sh: x", Broken(text("it ended with exit code 127: a program was not found")), None),
            (126, "", "", Broken(text("it ended with exit code 126: a program may not be executed")), None),
            (
                137,
                "",
                "",
                Broken(text("it ended with exit code 137: a program was killed, perhaps for want of memory")),
                None,
            ),
            (127, block, "first", Block(text("red")), Some("it ended with exit code 127: first")),
        ] {
            let expected = (decision, warning.map(str::to_owned));
            assert_eq!(decided(code, stdout, stderr), expected, "{code} {stdout} {stderr}");
        }
    }

    #[test]
    fn garbage_is_a_warning_and_leaves_the_exit_code_its_meaning() {
        for (code, decision) in [(0, Pass), (2, Block("error".into())), (1, Pass)] {
            let (decided, warning) = decided(code, "{ oh", "error");
            assert_eq!(decided, decision);
            assert!(warning.unwrap().starts_with("its JSON was not understood: "));
        }
    }

    impl Scene {
        async fn stop_of(&self, run: &CommandLine, limit: Duration, said: &str) -> StopHookRun {
            let input =
                StopInput { session: session(), stop_hook_active: true, last_assistant_message: said.to_owned() };
            run_stop_hook(run, self.folder.path(), &self.env, limit, &self.log(), &self.cancel, &input).await
        }

        async fn stop(&self, line: &str) -> StopHookRun {
            self.stop_of(&CommandLine::Shell(line.to_owned()), ENOUGH, "done").await
        }
    }

    #[tokio::test]
    async fn the_json_arrives_and_an_answer_comes_back() {
        let scene = Scene::new();
        let line = r#"said=$(sed 's/.*"last_assistant_message":"\([a-z]*\)".*/\1/')
            printf '{"decision":"block","reason":"%s in %s"}' "$said" "$(basename "$CLAUDE_PROJECT_DIR")"; echo seen >&2"#;
        let run = scene.stop(line).await;
        let name = scene.folder.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(run.decision, Block(format!("done in {name}")));
        assert_eq!((run.exit_code, run.warning), (Some(0), None));
        assert!(run.tail.contains("seen") && run.tail.contains("decision"), "{}", run.tail);
        assert_eq!(fs::read_to_string(scene.log()).unwrap(), run.tail);
        assert_eq!(scene.stop("grep -q '\"stop_hook_active\":true' || exit 2").await.decision, Pass);
    }

    #[tokio::test]
    async fn b094_b096_a_hook_need_not_read_what_it_is_told() {
        let scene = Scene::new();
        for bytes in [70_000, 1 << 20] {
            for line in ["exit 0", "exec <&-; exit 0", "exec sleep 0.05"] {
                let run = scene.stop_of(&CommandLine::Shell(line.to_owned()), ENOUGH, &"x".repeat(bytes)).await;
                assert_eq!((run.decision, run.exit_code, run.warning), (Pass, Some(0), None), "{line}");
            }
        }
    }

    #[tokio::test]
    async fn b092_what_cannot_be_run_is_no_objection() {
        let scene = Scene::new();
        fs::write(scene.folder.path().join("plain"), "").unwrap();
        for (line, words) in [
            ("absent-program", "it ended with exit code 127: a program was not found"),
            ("./plain", "it ended with exit code 126: a program may not be executed"),
            ("kill -9 $$", "it was killed by signal 9, perhaps for want of memory"),
        ] {
            assert_eq!(scene.stop(line).await.decision, Broken(words.to_owned()), "{line}");
        }
        let run = scene.stop_of(&CommandLine::Argv(vec!["absent-program".into()]), ENOUGH, "").await;
        assert!(matches!(&run.decision, Broken(words) if words.contains("absent-program")), "{run:?}");
        assert_eq!(run.exit_code, None);
    }

    #[tokio::test]
    async fn a_hook_that_crashes_or_hangs_has_no_say() {
        let scene = Scene::new();
        let run = scene.stop("echo no such key >&2; exit 1").await;
        assert_eq!((run.decision, run.warning.as_deref()), (Pass, Some("it ended with exit code 1: no such key")));
        let run = scene.stop("kill -SEGV $$").await;
        assert_eq!((run.decision, run.warning.as_deref()), (Pass, Some("it was killed by signal 11")));
        let hang = CommandLine::Shell("echo '{\"decision\":\"block\"}'; exec sleep 600".to_owned());
        let run = scene.stop_of(&hang, SHORT, &"x".repeat(1 << 20)).await;
        assert_eq!((run.decision, run.exit_code), (Pass, None));
        assert_eq!(run.warning.as_deref(), Some("it did not end within 0.3s and was stopped"));
        assert_eq!(run.tail, "{\"decision\":\"block\"}\n");
    }

    #[tokio::test]
    async fn b091_a_megabyte_of_output_decides_nothing_and_an_objection_is_cut() {
        let scene = Scene::new();
        let flood = "head -c 1000000 /dev/zero | tr '\\0' x";
        let run = scene.stop(flood).await;
        assert_eq!((run.decision, run.warning), (Pass, None));
        let Block(reason) = scene.stop(&format!("{{ echo first; {flood}; echo last; }} >&2; exit 2")).await.decision
        else {
            panic!()
        };
        assert!(reason.starts_with("first\n") && reason.ends_with("xlast"), "{reason}");
        assert!(reason.contains("characters left out]") && reason.len() <= 10_000, "{reason}");
    }

    #[tokio::test]
    async fn a_cancelled_hook_is_broken() {
        let scene = Scene::new();
        scene.cancel.cancel();
        assert_eq!(scene.stop("exit 2").await.decision, Broken("cancelled".into()));
    }
}
