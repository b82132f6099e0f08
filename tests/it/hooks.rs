//! Stop hooks and tool hooks, through the binary.

use crate::looping::{GATE, case, mend};
use crate::mock::{Mock, Script, text, tool};
use serde_json::json;

/// A stop hook that is no gate.
fn hook(run: &str) -> String {
    format!("\n[[stop_hooks]]\nname = \"lint\"\nkind = \"hook\"\nrun = {run:?}\n")
}

/// A tool hook.
fn around(event: &str, tools: &str, run: &str) -> String {
    format!("\n[[tool_hooks]]\nevent = {event:?}\nmatch = {tools:?}\nrun = {run:?}\n")
}

#[test]
fn a_stop_hook_objects_once_and_is_told_what_it_needs() {
    let mock = Mock::start(Script::calls([mend(), text("Done, I think."), text("Now it is.")]));
    let run = "cat > $CLAUDE_PROJECT_DIR/../hook.json; echo 'say why' >&2; exit 2";
    let case = case(&mock, &format!("{GATE}{}", hook(run)));
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(ran.result("job")["transitions"], json!(["next_turn", "stop_hook_blocking"]));
    let asked = mock.requests()[2].last_text();
    assert!(asked.contains("Hook `lint` says:\nsay why"), "{asked}");
    assert_eq!(mock.requests().len(), 3, "it is one-shot: not asked again in the retry");
    let found = std::fs::read_dir(case.outside().join("worktrees")).unwrap().next().is_some();
    assert!(found, "the worktrees lie in a folder of the case");
    let events = ran.file("events.jsonl");
    assert!(events.contains("\"event\":\"hook_finished\",\"hook\":\"lint\",\"decision\":\"block\""), "{events}");
    assert_eq!(ran.result("job")["gates"].as_array().unwrap().len(), 1, "a hook is no gate");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn a_stop_hook_reads_json_and_answers_in_json() {
    let mock = Mock::start(Script::calls([mend(), text("All done."), text("Now it is.")]));
    let run = r#"grep -q '"hook_event_name":"Stop"' && echo '{"decision":"block","reason":"write a test"}'"#;
    let ran = case(&mock, &format!("{GATE}{}", hook(run))).run().expect(0);
    assert!(mock.requests()[2].last_text().contains("write a test"), "{}", mock.requests()[2].last_text());
    assert_eq!(ran.ending("job"), "passed completed completed");
    let mock = Mock::start(Script::calls([mend(), text("All done.")]));
    let run =
        r#"grep -q '"stop_hook_active":false' && grep -q . || echo '{"continue":false,"stopReason":"that will do"}'"#;
    let ran = case(&mock, &format!("{GATE}{}", hook(run))).run().expect(1);
    assert_eq!(ran.ending("job"), "failed stop_hook_prevented stop_hook_prevented");
    assert!(ran.result("job")["message"].as_str().unwrap().contains("that will do"), "{}", ran.result("job"));
}

#[test]
fn b091_b092_a_hook_that_passes_or_fails_by_itself_blocks_nothing_and_one_that_is_missing_is_an_error() {
    for quiet in ["true", "exit 1", "kill -SEGV $$", "echo garbage; echo '{not json'"] {
        let mock = Mock::start(Script::calls([mend(), text("Done.")]));
        let ran = case(&mock, &format!("{GATE}{}", hook(quiet))).run().expect(0);
        assert_eq!((ran.ending("job").as_str(), mock.requests().len()), ("passed completed completed", 2), "{quiet}");
    }
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let ran = case(&mock, &format!("{GATE}{}", hook("exec no-such-program-anywhere"))).run().expect(3);
    assert_eq!(ran.ending("job"), "error hook_error stop_hook_prevented");
}

#[test]
fn b094_a_hook_that_hangs_or_never_reads_is_stopped_at_its_limit_and_has_no_say() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let slow = format!("{}timeout = \"1s\"\n", hook("sleep 600"));
    let ran = case(&mock, &format!("{GATE}{slow}")).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert!(ran.stderr.contains("lint"), "{}", ran.stderr);
}

#[test]
fn a_hook_before_a_call_denies_it_and_the_model_reads_why() {
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": "touch x"})), mend(), text("Done.")]));
    let deny = around("pre", "Bash", "echo 'no shell here' >&2; exit 2");
    let ran = case(&mock, &format!("{GATE}{deny}")).run().expect(0);
    let results = mock.requests()[1].results();
    assert!(results[0].2 && results[0].1.contains("no shell here"), "{results:?}");
    assert!(!ran.file("jobs/job/diff.patch").contains("x\n--- /dev/null"), "the command ran");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn a_hook_before_a_call_changes_its_input_and_one_after_it_comments() {
    let mock = Mock::start(Script::calls([tool("Read", json!({"file_path": "check.sh"})), mend(), text("Done.")]));
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"file_path":"a.txt"}}}"#;
    let change = around("pre", "Read", &format!("echo '{answer}'"));
    let comment = around("post", "Read|Edit", "echo 'well read' >&2; exit 2");
    case(&mock, &format!("{GATE}{change}{comment}")).run().expect(0);
    let read = mock.requests()[1].results();
    assert!(read[0].1.contains("one") && !read[0].1.contains("grep"), "{read:?}");
    assert!(read[0].1.contains("well read"), "{read:?}");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn hook_stopped_ends_the_job_with_the_hooks_words() {
    let mock = Mock::start(Script::calls([mend(), tool("Bash", json!({"command": "true"})), text("Done.")]));
    let stop = around("pre", "Bash", r#"echo '{"continue":false,"stopReason":"not on my watch"}'"#);
    let ran = case(&mock, &format!("{GATE}{stop}")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed hook_stopped hook_stopped");
    assert!(ran.result("job")["message"].as_str().unwrap().contains("not on my watch"), "{}", ran.result("job"));
    assert_eq!(mock.requests().len(), 2);
}

#[test]
fn a_guard_that_cannot_decide_denies() {
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": "touch x"})), mend(), text("Done.")]));
    let slow = format!("{}timeout = \"1s\"\n", around("pre", "", "sleep 600 # Bash only: $0"));
    let ran = case(&mock, &format!("{GATE}{}", slow.replace("match = \"\"", "match = \"Bash\""))).run().expect(0);
    let results = mock.requests()[1].results();
    assert!(results[0].2 && results[0].1.contains("could not decide"), "{results:?}");
    assert_eq!(ran.ending("job"), "passed completed completed");
}

#[test]
fn hooks_are_asked_before_a_sub_agent_starts() {
    let agent = tool("Agent", json!({"description": "look", "prompt": "look around"}));
    let mock = Mock::start(Script::calls([agent, mend(), text("Done.")]));
    let deny = around("pre", "Agent", "echo 'work alone' >&2; exit 2");
    let ran = case(&mock, &format!("{GATE}{deny}")).run().expect(0);
    let results = mock.requests()[1].results();
    assert!(results[0].2 && results[0].1.contains("work alone"), "{results:?}");
    assert_eq!(ran.result("job")["loop_counts"]["subagents"], 0);
}
