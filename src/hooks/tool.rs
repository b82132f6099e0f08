//! Hooks around tool calls: before, they may deny or change a call; after, comment on its result or replace it.
//!
//! A hook before a call is its guard. In a run that nobody watches a guard must not drop out unseen: one that cannot be
//! run, hangs or is killed denies the call.

use super::answer::Answer;
use super::call::{NOT_EXECUTABLE, NOT_FOUND, ask, failure, read};
use super::wire::{ToolHookInput, ToolHookMoment};
use crate::plan::CommandLine;
use crate::process::{End, Environment};
use serde_json::{Map, Value};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The first and last exit code by which a shell says that a signal ended its command: 128 and the signal.
const SHELL_SAW_SIGNAL: std::ops::RangeInclusive<i32> = 129..=159;

/// How a tool hook ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolHookRun {
    /// What it decided.
    pub decision: ToolDecision,
    /// How long it took.
    pub duration: Duration,
    /// What a person should know: its own message, or what was wrong with it.
    pub warning: Option<String>,
}

/// What a tool hook decided.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolDecision {
    /// Nothing to object.
    Proceed {
        /// Before a call: the whole input that takes the place of the model's.
        input: Option<Map<String, Value>>,
        /// After a call: the result that takes the place of the tool's.
        output: Option<String>,
        /// What the model should know beside the result.
        context: Option<String>,
    },
    /// The call is not made, for this reason, which is for the model; never empty.
    Deny(String),
    /// The query ends, for this reason, which is not for the model; never empty.
    Stop(String),
    /// It decided nothing: it was cancelled.
    Broken(String),
}

/// Runs a hook before or after a tool call, as Claude Code does, but that a hook before a call which cannot be run, hangs
/// or is killed denies the call.
///
/// Its whole output goes to `log`, up to 64 MiB. Never fails: what goes wrong is a decision or a warning.
pub async fn run_tool_hook(
    run: &CommandLine,
    cwd: &Path,
    env: &Environment,
    limit: Duration,
    log: &Path,
    cancel: &CancellationToken,
    input: &ToolHookInput,
) -> ToolHookRun {
    let finished = ask(run, cwd, env, limit, log, cancel, input.encode(cwd)).await;
    let mut answer = read(&finished);
    answer.notes.extend(finished.output.file_error.clone());
    let (decision, warning) = match &input.moment {
        ToolHookMoment::Before => before(&finished.end, &answer, limit),
        ToolHookMoment::After { .. } => after(&finished.end, &answer, limit),
        ToolHookMoment::Failed { .. } => {
            if answer.output.take().is_some() {
                answer.notes.push("it gives a new result to a call that failed, which is not taken".to_owned());
            }
            after(&finished.end, &answer, limit)
        }
    };
    ToolHookRun { decision, duration: finished.duration, warning }
}

/// What all hooks of one call come to, in the order of the job file.
///
/// The gravest wins: stop, deny, broken, proceed. Reasons and contexts are put together, the last input and the last
/// output count.
#[must_use]
pub fn combine(decisions: Vec<ToolDecision>) -> ToolDecision {
    let (mut stops, mut denials, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let (mut input, mut output, mut contexts) = (None, None, Vec::new());
    for decision in decisions {
        match decision {
            ToolDecision::Stop(reason) => stops.push(reason),
            ToolDecision::Deny(reason) => denials.push(reason),
            ToolDecision::Broken(reason) => failures.push(reason),
            ToolDecision::Proceed { input: new_input, output: new_output, context } => {
                input = new_input.or(input);
                output = new_output.or(output);
                contexts.extend(context);
            }
        }
    }
    if !stops.is_empty() {
        ToolDecision::Stop(stops.join("\n"))
    } else if !denials.is_empty() {
        ToolDecision::Deny(denials.join("\n"))
    } else if let Some(reason) = failures.into_iter().next() {
        ToolDecision::Broken(reason)
    } else {
        ToolDecision::Proceed { input, output, context: (!contexts.is_empty()).then(|| contexts.join("\n")) }
    }
}

fn before(end: &End, answer: &Answer, limit: Duration) -> (ToolDecision, Option<String>) {
    let undecided = || {
        let how = failure(end, limit);
        let denial = ToolDecision::Deny(format!("a hook could not decide about this call, so it is denied: {how}"));
        (denial, answer.warning(None))
    };
    let code = match end {
        End::Exited(code) => *code,
        End::Cancelled => return (ToolDecision::Broken("cancelled".to_owned()), answer.warning(None)),
        End::Signaled(_) | End::TimedOut | End::NotStarted { .. } => return undecided(),
    };
    let decision = if let Some(reason) = &answer.stop {
        ToolDecision::Stop(reason.clone())
    } else if code == 2 || answer.deny.is_some() || answer.block.is_some() {
        let words = [&answer.deny, &answer.block];
        ToolDecision::Deny(answer.objection(&words, "a hook denies this call, and gives no reason"))
    } else if matches!(code, NOT_FOUND | NOT_EXECUTABLE) || SHELL_SAW_SIGNAL.contains(&code) {
        // Whatever else it said: permission is not given by half a guard.
        return undecided();
    } else {
        ToolDecision::Proceed { input: answer.input.clone(), output: None, context: answer.context.clone() }
    };
    (decision, answer.warning(answer.complaint(code)))
}

fn after(end: &End, answer: &Answer, limit: Duration) -> (ToolDecision, Option<String>) {
    let code = match end {
        End::Exited(code) => *code,
        End::Cancelled => return (ToolDecision::Broken("cancelled".to_owned()), answer.warning(None)),
        End::Signaled(_) | End::TimedOut | End::NotStarted { .. } => {
            let nothing = ToolDecision::Proceed { input: None, output: None, context: None };
            return (nothing, answer.warning(Some(failure(end, limit))));
        }
    };
    let objects = code == 2 || answer.block.is_some();
    let decision = if let Some(reason) = &answer.stop {
        ToolDecision::Stop(reason.clone())
    } else {
        let silent = "a hook objects to the result of this call, and gives no reason";
        let objection = objects.then(|| answer.objection(&[&answer.block], silent));
        let context = objection.or_else(|| answer.context.clone());
        ToolDecision::Proceed { input: None, output: answer.output.clone(), context }
    };
    (decision, answer.warning(answer.complaint(code)))
}

#[cfg(test)]
mod tests {
    use super::super::scene::{ENOUGH, Scene, session};
    use super::ToolDecision::{Broken, Deny, Proceed, Stop};
    use super::*;
    use serde_json::json;
    use std::fs;

    /// Shorter than what it ends, which never ends by itself.
    const SHORT: Duration = Duration::from_millis(300);

    const UNDECIDED: &str = "a hook could not decide about this call, so it is denied: ";

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("{value}") };
        map
    }

    const fn nothing() -> ToolDecision {
        Proceed { input: None, output: None, context: None }
    }

    fn context(text: &str) -> ToolDecision {
        Proceed { input: None, output: None, context: Some(text.to_owned()) }
    }

    fn output(text: &str) -> ToolDecision {
        Proceed { input: None, output: Some(text.to_owned()), context: None }
    }

    fn input(value: Value) -> ToolDecision {
        Proceed { input: Some(object(value)), output: None, context: None }
    }

    fn specific(value: &Value) -> String {
        json!({ "hookSpecificOutput": value }).to_string()
    }

    #[test]
    fn before_a_call_exit_codes_and_json_mean_what_they_mean_to_claude_code() {
        let deny = specific(&json!({"permissionDecision": "deny", "permissionDecisionReason": "no rm"}));
        let allow = specific(&json!({"permissionDecision": "allow", "permissionDecisionReason": "fine"}));
        let ask = specific(&json!({"permissionDecision": "ask"}));
        let defer = specific(&json!({"permissionDecision": "defer"}));
        let changed = specific(&json!({"permissionDecision": "allow", "updatedInput": {"command": "ls"}}));
        let noted = specific(&json!({"additionalContext": "note"}));
        let block = json!({"decision": "block", "reason": "old"}).to_string();
        let approve = json!({"decision": "approve", "reason": "old"}).to_string();
        let stop = json!({"continue": false, "stopReason": "enough", "decision": "block"}).to_string();
        let both = json!({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}).to_string();
        let silent = "a hook denies this call, and gives no reason";
        let nobody = |what: &str| {
            Deny(format!("the hook {what}, and nobody is there in an unattended run, so the call is denied"))
        };
        let text = |text: &str| text.to_owned();
        let odd = Some("it ended with exit code 1: first");
        for (code, stdout, stderr, decision, warning) in [
            (0, "", "", nothing(), None),
            (0, "plain", "error", nothing(), None),
            (0, allow.as_str(), "error", nothing(), None),
            (0, approve.as_str(), "", nothing(), None),
            (0, deny.as_str(), "error", Deny(text("no rm")), None),
            (0, block.as_str(), "error", Deny(text("old")), None),
            (0, both.as_str(), "", Deny(text(silent)), None),
            (0, ask.as_str(), "", nobody("asks for a person's permission"), None),
            (0, defer.as_str(), "", nobody("defers the decision"), None),
            (0, changed.as_str(), "", input(json!({"command": "ls"})), None),
            (0, noted.as_str(), "", context("note"), None),
            (0, stop.as_str(), "", Stop(text("enough")), None),
            (0, "{\"systemMessage\":\"look\"}", "", nothing(), Some("look")),
            (2, "", "", Deny(text(silent)), None),
            (2, "plain", "first\nsecond", Deny(text("first\nsecond")), None),
            (2, deny.as_str(), "error", Deny(text("no rm")), None),
            (2, allow.as_str(), "error", Deny(text("error")), None),
            (2, noted.as_str(), "error", Deny(text("error\nnote")), None),
            (2, stop.as_str(), "error", Stop(text("enough")), None),
            (1, "", "first\nsecond", nothing(), odd),
            (1, deny.as_str(), "first", Deny(text("no rm")), odd),
            (1, changed.as_str(), "first", input(json!({"command": "ls"})), odd),
            (1, stop.as_str(), "first", Stop(text("enough")), odd),
            (255, "", "", nothing(), Some("it ended with exit code 255")),
            // Not to be run, or killed: denied, though not if it has said so itself.
            (127, "", "x", Deny(format!("{UNDECIDED}it ended with exit code 127: a program was not found")), None),
            (126, "", "", Deny(format!("{UNDECIDED}it ended with exit code 126: a program may not be executed")), None),
            (139, "", "", Deny(format!("{UNDECIDED}it ended with exit code 139")), None),
            (
                127,
                allow.as_str(),
                "",
                Deny(format!("{UNDECIDED}it ended with exit code 127: a program was not found")),
                None,
            ),
            (127, deny.as_str(), "", Deny(text("no rm")), Some("it ended with exit code 127")),
        ] {
            let decided = before(&End::Exited(code), &Answer::read(stdout, true, stderr), SHORT);
            assert_eq!(decided, (decision, warning.map(str::to_owned)), "{code} {stdout} {stderr}");
        }
    }

    #[test]
    fn after_a_call_exit_codes_and_json_mean_what_they_mean_to_claude_code() {
        let block = json!({"decision": "block", "reason": "red"}).to_string();
        let noted = specific(&json!({"additionalContext": "note"}));
        let changed = specific(&json!({"updatedToolOutput": "new", "permissionDecision": "deny", "updatedInput": {}}));
        let stop = json!({"continue": false}).to_string();
        let silent = "a hook objects to the result of this call, and gives no reason";
        let odd = Some("it ended with exit code 1: first");
        for (code, stdout, stderr, decision, warning) in [
            (0, "", "", nothing(), None),
            (0, "plain", "error", nothing(), None),
            (0, block.as_str(), "error", context("red"), None),
            (0, noted.as_str(), "", context("note"), None),
            (0, changed.as_str(), "", output("new"), None),
            (0, stop.as_str(), "", Stop("it gave no reason".into()), None),
            (2, "", "", context(silent), None),
            (2, "", "error", context("error"), None),
            (2, block.as_str(), "error", context("red"), None),
            (2, noted.as_str(), "error", context("error\nnote"), None),
            (2, stop.as_str(), "error", Stop("it gave no reason".into()), None),
            (1, "", "first", nothing(), odd),
            (1, block.as_str(), "first", context("red"), odd),
            (1, changed.as_str(), "first", output("new"), odd),
            (127, "", "", nothing(), Some("it ended with exit code 127")),
            (139, "", "", nothing(), Some("it ended with exit code 139")),
        ] {
            let decided = after(&End::Exited(code), &Answer::read(stdout, true, stderr), SHORT);
            assert_eq!(decided, (decision, warning.map(str::to_owned)), "{code} {stdout} {stderr}");
        }
    }

    #[test]
    fn garbage_is_a_warning_and_leaves_the_exit_code_its_meaning() {
        for (code, decision) in [(0, nothing()), (1, nothing()), (2, Deny("error".into()))] {
            let (decided, warning) = before(&End::Exited(code), &Answer::read("{ oh", true, "error"), SHORT);
            assert_eq!(decided, decision);
            assert!(warning.unwrap().starts_with("its JSON was not understood: "));
        }
    }

    #[test]
    fn of_several_hooks_the_gravest_counts() {
        let (stop, deny, broken) = (Stop("s".into()), Deny("d".into()), Broken("cancelled".into()));
        assert_eq!(combine(vec![]), nothing());
        assert_eq!(combine(vec![context("a"), nothing(), context("b")]), context("a\nb"));
        let inputs = vec![input(json!({"a": 1})), input(json!({"a": 2})), nothing()];
        assert_eq!(combine(inputs), input(json!({"a": 2})));
        assert_eq!(combine(vec![output("1"), output("2"), nothing()]), output("2"));
        assert_eq!(combine(vec![context("a"), broken.clone()]), broken);
        assert_eq!(combine(vec![broken.clone(), deny.clone(), context("a")]), deny);
        assert_eq!(combine(vec![deny.clone(), Deny("e".into())]), Deny("d\ne".into()));
        assert_eq!(combine(vec![deny, stop.clone(), broken, nothing()]), stop);
    }

    const AFTER: ToolHookMoment = ToolHookMoment::After { response: Value::Null, duration: Duration::ZERO };

    impl Scene {
        async fn tool_of(&self, run: &CommandLine, limit: Duration, moment: ToolHookMoment) -> ToolHookRun {
            let input = ToolHookInput {
                session: session(),
                tool_name: "Bash".into(),
                tool_input: object(json!({"command": "x".repeat(100_000), "mark": "seen"})),
                tool_use_id: "t1".into(),
                moment,
            };
            run_tool_hook(run, self.folder.path(), &self.env, limit, &self.log(), &self.cancel, &input).await
        }

        async fn tool(&self, line: &str, moment: ToolHookMoment) -> ToolHookRun {
            self.tool_of(&CommandLine::Shell(line.to_owned()), ENOUGH, moment).await
        }
    }

    #[tokio::test]
    async fn the_json_arrives_and_an_answer_comes_back() {
        let scene = Scene::new();
        let line = r#"mark=$(sed 's/.*"mark":"\([a-z]*\)".*/\1/')
            printf '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"mark":"%s"}}}' "$mark""#;
        assert_eq!(scene.tool(line, ToolHookMoment::Before).await.decision, input(json!({"mark": "seen"})));
        let line = "grep -o '\"hook_event_name\":\"[A-Za-z]*\"' | tr -d '\"' >&2; exit 2";
        let failed = ToolHookMoment::Failed { error: "no".into(), is_interrupt: false };
        assert_eq!(scene.tool(line, ToolHookMoment::Before).await.decision, Deny("hook_event_name:PreToolUse".into()));
        assert_eq!(scene.tool(line, AFTER).await.decision, context("hook_event_name:PostToolUse"));
        assert_eq!(scene.tool(line, failed).await.decision, context("hook_event_name:PostToolUseFailure"));
        let line = r#"echo "{\"hookSpecificOutput\":{\"additionalContext\":\"$CLAUDE_PROJECT_DIR\"}}""#;
        let folder = scene.folder.path().to_str().unwrap();
        assert_eq!(scene.tool(line, AFTER).await.decision, context(folder));
        assert!(fs::read_to_string(scene.log()).unwrap().contains(folder));
    }

    #[tokio::test]
    async fn a_guard_that_fails_denies_and_any_other_hook_has_no_say() {
        let scene = Scene::new();
        fs::write(scene.folder.path().join("plain"), "").unwrap();
        for (line, how) in [
            ("absent-program", "it ended with exit code 127: a program was not found"),
            ("./plain", "it ended with exit code 126: a program may not be executed"),
            ("kill -9 $$", "it was killed by signal 9, perhaps for want of memory"),
            ("kill -SEGV $$", "it was killed by signal 11"),
            ("sh -c 'kill -SEGV $$'; exit $?", "it ended with exit code 139"),
            ("sleep 600", "it did not end within 0.3s and was stopped"),
        ] {
            let limit = if line == "sleep 600" { SHORT } else { ENOUGH };
            let run = CommandLine::Shell(line.to_owned());
            let guard = scene.tool_of(&run, limit, ToolHookMoment::Before).await;
            assert_eq!((guard.decision, guard.warning), (Deny(format!("{UNDECIDED}{how}")), None), "{line}");
            let other = scene.tool_of(&run, limit, AFTER).await;
            assert_eq!(other.decision, nothing());
            let start = how.split(':').next().unwrap();
            assert!(other.warning.as_deref().is_some_and(|words| words.starts_with(start)), "{:?}", other.warning);
        }
        let absent = CommandLine::Argv(vec!["absent-program".into()]);
        let guard = scene.tool_of(&absent, ENOUGH, ToolHookMoment::Before).await;
        assert!(matches!(&guard.decision, Deny(words) if words.contains("absent-program")), "{guard:?}");
        assert_eq!(scene.tool_of(&absent, ENOUGH, AFTER).await.decision, nothing());
    }

    #[tokio::test]
    async fn a_hook_that_crashes_or_prints_anything_proceeds_with_a_warning() {
        let scene = Scene::new();
        for (line, words) in [
            ("echo no key >&2; exit 1", Some("it ended with exit code 1: no key")),
            ("echo '{ oh'", Some("its JSON was not understood: ")),
            ("echo '{'; head -c 5000000 /dev/zero", Some("its JSON is too long")),
            ("head -c 1000000 /dev/zero | tr '\\0' x", None),
            ("exec <&-", None),
            ("exec sleep 0.05", None),
        ] {
            for moment in [ToolHookMoment::Before, AFTER] {
                let run = scene.tool(line, moment).await;
                assert_eq!(run.decision, nothing(), "{line}");
                match words {
                    Some(words) => assert!(run.warning.unwrap().starts_with(words), "{line}"),
                    None => assert_eq!(run.warning, None, "{line}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn a_call_that_failed_gets_no_new_result() {
        let failed = ToolHookMoment::Failed { error: "no".into(), is_interrupt: false };
        let line = "echo '{\"hookSpecificOutput\":{\"updatedToolOutput\":\"fine\"}}'";
        let run = Scene::new().tool(line, failed).await;
        assert_eq!(run.decision, nothing());
        assert_eq!(run.warning.unwrap(), "it gives a new result to a call that failed, which is not taken");
    }

    #[tokio::test]
    async fn a_cancelled_hook_decides_nothing() {
        let scene = Scene::new();
        scene.cancel.cancel();
        for moment in [ToolHookMoment::Before, AFTER] {
            assert_eq!(scene.tool("exit 0", moment).await.decision, Broken("cancelled".into()));
        }
    }
}
