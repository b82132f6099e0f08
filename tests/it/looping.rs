//! Every terminal and every transition, through the binary, with a model server that refuses whatever breaks a rule.

use crate::case::{Case, Ran};
use crate::mock::{Answer, Mock, Script, message, status, text, tool};
use serde_json::{Value, json};

/// A repository with one job against this server. `more` is the job file below the prompt.
pub(crate) fn case(mock: &Mock, more: &str) -> Case {
    Case::new(&[("a.txt", "one\n"), ("check.sh", "grep -q two a.txt\n")]).job("job", &job(mock, "mend a.txt", more))
}

/// A job file. Tables in `more` come after the model's.
pub(crate) fn job(mock: &Mock, prompt: &str, more: &str) -> String {
    let (keys, tables) = more.split_at(more.find("\n[").map_or(more.len(), |at| at + 1));
    format!("prompt = {prompt:?}\n{keys}\n[model]\nname = \"mock-1\"\nbase_url = \"{}\"\n{tables}", mock.url())
}

/// A job file for a model with a small window.
pub(crate) fn windowed(mock: &Mock, window: u32, prompt: &str, more: &str) -> String {
    let name = "name = \"mock-1\"\n";
    job(mock, prompt, more).replace(name, &format!("{name}context_window = {window}\n"))
}

pub(crate) const GATE: &str = "\n[[stop_hooks]]\nname = \"check\"\nrun = \"sh check.sh\"\n";

/// The edit that makes the gate green.
pub(crate) fn mend() -> Answer {
    tool("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}))
}

pub(crate) fn transitions(ran: &Ran) -> Vec<String> {
    let result = ran.result("job");
    result["transitions"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
pub(crate) fn clean(mock: &Mock) {
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn completed_after_next_turn() {
    let mock = Mock::start(Script::calls([mend().usage(1_000, 50), text("Done.").usage(1_100, 10)]));
    let case = case(&mock, GATE);
    let before = case.fingerprint();
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(transitions(&ran), ["next_turn"]);
    let result = ran.result("job");
    assert_eq!((result["turns"].as_u64(), result["model_calls"].as_u64()), (Some(2), Some(2)));
    assert_eq!(result["usage"]["input_tokens"], 2_100);
    assert_eq!(result["usage"]["output_tokens"], 60);
    assert_eq!(result["gates"][0]["after"], "pass");
    assert_eq!(result["gates"][0]["before"], Value::Null);
    let (branch, commit) = (result["branch"].as_str().unwrap(), result["commit"].as_str().unwrap());
    assert_eq!(case.git(&["rev-parse", branch]), commit);
    assert_eq!(case.git(&["show", &format!("{commit}:a.txt")]), "two");
    assert_eq!(case.git(&["rev-parse", &format!("{commit}^")]), result["base"].as_str().unwrap());
    assert_eq!(case.fingerprint(), before, "the main checkout was touched");
    assert_eq!(case.read("a.txt"), "one\n");
    assert!(ran.file("jobs/job/diff.patch").contains("+two"));
    assert_eq!(case.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    clean(&mock);
}

#[test]
fn stop_hook_blocking_gives_the_gates_output_to_the_model() {
    let mock = Mock::start(Script::calls([text("I think it is fine."), mend(), text("Now it is.")]));
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(transitions(&ran), ["stop_hook_blocking", "next_turn"]);
    let asked = mock.requests()[1].last_text();
    assert!(asked.contains("`check` (`sh check.sh`) failed with exit code 1"), "{asked}");
    clean(&mock);
}

#[test]
fn stop_hook_prevented_after_max_blocks() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let ran = case(&mock, &format!("{GATE}max_blocks = 2\n")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed stop_hook_prevented stop_hook_prevented");
    assert_eq!(mock.requests().len(), 3);
    clean(&mock);
}

#[test]
fn b014_max_turns_says_its_numbers() {
    let mock = Mock::start(Script::calls([tool("Glob", json!({"pattern": "*"}))]));
    let ran = case(&mock, &format!("max_turns = 2{GATE}")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed max_turns max_turns");
    for text in [&ran.stderr, &ran.file("summary.md"), &ran.file("junit.xml")] {
        assert!(text.contains("2 of 2 turns"), "{text}");
    }
    assert_eq!(mock.requests().len(), 2);
    clean(&mock);
}

#[test]
fn completed_at_limit_only_where_a_red_gate_is_green_now() {
    for (before, reason, code) in [("fail", "passed completed_at_limit", 0), ("any", "failed max_turns", 1)] {
        let mock = Mock::start(Script::calls([mend(), tool("Glob", json!({"pattern": "*"}))]));
        let ran = case(&mock, &format!("max_turns = 2{GATE}before = \"{before}\"\n")).run().expect(code);
        assert_eq!(ran.ending("job"), format!("{reason} max_turns"));
    }
}

#[test]
fn model_error_is_never_a_pass_and_never_waits() {
    for (answer, reason, code) in [
        (status(401, "authentication_error", "invalid x-api-key"), "error auth model_error", 3),
        (status(402, "billing_error", "no credit"), "error billing model_error", 3),
        (status(404, "not_found_error", "model: mock-1"), "error model_not_found model_error", 3),
        (status(400, "invalid_request_error", "tools: bad"), "error invalid_request model_error", 3),
        (
            status(400, "invalid_request_error", "prompt is too long: 211180 tokens > 200000 maximum"),
            "failed context_exhausted prompt_too_long",
            1,
        ),
        (message([]).refusal("cyber", "not this"), "failed refused model_error", 1),
    ] {
        let mock = Mock::start(Script::calls([answer]));
        let ran = case(&mock, GATE).run().expect(code);
        assert_eq!(ran.ending("job"), reason);
        assert_eq!(mock.requests().len(), 1);
        let gate = &ran.result("job")["gates"][0];
        assert_eq!((&gate["after"], &gate["runs"]), (&Value::Null, &json!(0)), "a gate ran after an error: {gate}");
    }
}

#[test]
fn b013_an_error_after_good_turns_keeps_the_work_and_says_error_everywhere() {
    let mock = Mock::start(Script::calls([mend(), status(403, "permission_error", "org disabled")]));
    let ran = case(&mock, &format!("{GATE}before = \"fail\"\n")).run().expect(3);
    assert_eq!(ran.ending("job"), "error auth model_error");
    assert!(ran.file("junit.xml").contains("<error type=\"auth\""));
    assert!(ran.file("jobs/job/diff.patch").contains("+two"));
    assert_eq!(ran.result("job")["gates"][0]["after"], "pass");
}

#[test]
fn retries_are_calls_but_no_turns() {
    let overloaded = || status(529, "overloaded_error", "Overloaded").header("retry-after-ms", "1");
    let limited = || status(429, "rate_limit_error", "slow down").header("retry-after-ms", "1");
    let mock = Mock::start(Script::calls([overloaded(), limited(), mend(), text("Done.")]));
    let ran = case(&mock, GATE).run().expect(0);
    let result = ran.result("job");
    assert_eq!((result["turns"].as_u64(), result["model_calls"].as_u64()), (Some(2), Some(4)));
    assert_eq!(result["retries"], 2);
    clean(&mock);
}

#[test]
fn a_long_outage_ends_with_its_own_reason() {
    for (answer, reason) in [
        (status(529, "overloaded_error", "Overloaded").header("retry-after-ms", "1"), "error overloaded model_error"),
        (status(429, "rate_limit_error", "slow").header("retry-after-ms", "1"), "error rate_limited model_error"),
        (status(500, "api_error", "oops").header("retry-after-ms", "1"), "error api model_error"),
    ] {
        let mock = Mock::start(Script::calls([answer]));
        let ran = case(&mock, "").env("RUNNER_MODEL_RETRIES", "3").run().expect(3);
        assert_eq!(ran.ending("job"), reason);
        assert_eq!(mock.requests().len(), 4);
    }
}

#[test]
fn b065_a_wish_that_outlasts_the_job_ends_it_at_once() {
    let mock = Mock::start(Script::calls([status(429, "rate_limit_error", "slow").header("retry-after", "3600")]));
    let ran = case(&mock, "timeout = \"10m\"\n").run().expect(3);
    assert_eq!(ran.ending("job"), "error rate_limited model_error");
    assert_eq!(mock.requests().len(), 1);
}

#[test]
fn b047_nothing_runs_from_an_answer_that_never_ended() {
    let cut = tool("Bash", json!({"command": "touch x; echo two > a.txt"})).end_before("message_stop");
    let mock = Mock::start(Script::calls([cut, text("Gave up.")]));
    let ran = case(&mock, "require_changes = false\n").run().expect(0);
    assert_eq!(ran.file("jobs/job/diff.patch"), "");
    assert_eq!(ran.result("job")["retries"], 1);
    clean(&mock);
}

#[test]
fn b054_a_silent_stream_is_dead() {
    let mock = Mock::start(Script::calls([text("Hm.").stall_before("message_delta"), mend(), text("Done.")]));
    let ran = case(&mock, GATE).env("RUNNER_MODEL_IDLE_TIMEOUT", "300ms").run().expect(0);
    assert_eq!(ran.result("job")["retries"], 1);
    clean(&mock);
}

#[test]
fn aborted_streaming_when_the_jobs_time_is_up() {
    let mock = Mock::start(Script::calls([Answer::hang()]));
    let ran = case(&mock, "timeout = \"1s\"\n").run().expect(1);
    assert_eq!(ran.ending("job"), "failed timeout aborted_streaming");
    assert_eq!(ran.result("job")["abort_reason"], "timeout");
}

#[test]
fn aborted_tools_when_the_jobs_time_is_up() {
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": "sleep 1000"}))]));
    let ran = case(&mock, "timeout = \"2s\"\n").run().expect(1);
    assert_eq!(ran.ending("job"), "failed timeout aborted_tools");
    let transcript = ran.transcript("job");
    let last = transcript.iter().rev().find(|line| line["kind"] == "message").unwrap();
    assert!(last.to_string().contains("interrupted"), "{last}");
}

#[test]
fn max_output_tokens_escalate_then_recovery_then_the_error() {
    let cut = || text("and then").stop("max_tokens");
    let mock = Mock::start(Script::calls([cut(), cut(), mend(), text("Done.")]));
    let job = job(&mock, "mend a.txt", GATE).replace("mock-1", "claude-sonnet-5-5");
    let case = case(&mock, "").job("job", &job).env("ANTHROPIC_API_KEY", "k-0123456789");
    let ran = case.run().expect(0);
    assert_eq!(transitions(&ran), ["max_output_tokens_escalate", "max_output_tokens_recovery", "next_turn"]);
    let caps: Vec<_> = mock.requests().iter().map(|request| request.body["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!(caps, [8_192, 64_000, 8_192, 8_192]);
    assert_eq!((ran.result("job")["turns"].as_u64(), ran.result("job")["model_calls"].as_u64()), (Some(3), Some(4)));
    clean(&mock);

    let mock = Mock::start(Script::calls([cut()]));
    let ran = self::case(&mock, GATE).run().expect(1);
    assert_eq!(ran.ending("job"), "failed output_truncated model_error");
    assert_eq!(mock.requests().len(), 4);
    clean(&mock);
}

#[test]
fn b082_a_model_that_goes_round_in_circles_is_stopped() {
    let mock = Mock::start(Script::calls([tool("Grep", json!({"pattern": "nothing-like-this"}))]));
    let ran = case(&mock, &format!("max_turns = 200\n{GATE}")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed loop_detected aborted_tools");
    assert_eq!(ran.result("job")["abort_reason"], "loop_detected");
    assert_eq!(mock.requests().len(), 12);
    assert!(mock.requests()[3].last_text().contains("3 times in a row"), "{}", mock.requests()[3].last_text());
    clean(&mock);
}

#[test]
fn b085_a_token_budget_is_never_passed() {
    let mock = Mock::start(Script::calls([tool("Glob", json!({"pattern": "*"})).usage(4_000, 50)]));
    let ran = case(&mock, "token_budget = 20_000\nmax_turns = 100\n").run().expect(1);
    assert_eq!(ran.ending("job"), "failed token_budget completed");
    let usage = ran.result("job")["usage"].clone();
    assert!(usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap() <= 20_000, "{usage}");
    assert!(mock.requests().len() >= 3, "it stopped too early");
}

#[test]
fn a_spending_cap_is_never_passed() {
    let mock = Mock::start(Script::calls([tool("Glob", json!({"pattern": "*"})).usage(6_000, 500)]));
    let more = "max_cost_usd = 0.10\nmax_turns = 100\n";
    let job = job(&mock, "look around", more).replace("mock-1", "claude-sonnet-5-5");
    let ran = Case::new(&[("a", "")]).job("job", &job).env("ANTHROPIC_API_KEY", "k-0123456789").run().expect(1);
    assert_eq!(ran.ending("job"), "failed cost_limit aborted_streaming");
    let (cost, usage) = (ran.result("job")["cost_usd"].as_f64().unwrap(), ran.result("job")["usage"].clone());
    let priced = usage["input_tokens"].as_f64().unwrap() * 2e-6 + usage["output_tokens"].as_f64().unwrap() * 10e-6;
    assert!((cost - priced).abs() < 1e-6, "{cost} {priced}");
    assert!(cost <= 0.10 && cost > 0.05, "{cost}");
}

#[test]
fn b026_every_call_has_its_result_whatever_happens() {
    let calls = message([])
        .tool("WebSearch", json!({"query": "x"}))
        .tool("Bash", json!({"command": "true"}))
        .tool("Bash", json!({"command": "echo a\u{0}b"}))
        .tool("Read", json!({"file_path": "../../etc/passwd"}))
        .tool("Read", json!({"path": "a.txt"}))
        .tool("Bash", json!({"command": "true"}));
    let mock =
        Mock::start(Script::calls([calls, message([]).cut_call("Write", "{\"file_path\":\"x"), mend(), text("Done.")]));
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let results = mock.requests()[1].results();
    assert_eq!(
        results.iter().map(|(_, _, error)| *error).collect::<Vec<_>>(),
        [true, false, true, true, true, true],
        "{results:?}"
    );
    assert!(results[5].1.contains("a command before it in the same answer failed"), "{results:?}");
    let cut = mock.requests()[2].results();
    assert!(cut[0].2 && cut[0].1.contains("not run"), "{cut:?}");
    clean(&mock);
}

#[test]
fn b046_calls_are_run_whatever_the_stop_reason_says() {
    let mock = Mock::start(Script::calls([mend().stop("end_turn"), text("Done.")]));
    case(&mock, GATE).run().expect(0);
    clean(&mock);
}

#[test]
fn an_empty_answer_is_no_message() {
    let mock = Mock::start(Script::calls([message([]), mend(), text("Done.")]));
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(transitions(&ran), ["stop_hook_blocking", "next_turn"]);
    clean(&mock);
}

#[test]
fn b032_thinking_goes_back_as_it_came() {
    let turn = mend().thinking("first a.txt", "c2lnbmF0dXJl").tool("Glob", json!({"pattern": "*"}));
    let mock = Mock::start(Script::calls([turn, text("Done.").thinking("", "c2ln")]));
    let more = format!("{GATE}\n");
    case(&mock, &more).run().expect(0);
    clean(&mock);
}

#[test]
fn follow_ups_are_taken_in_order() {
    let mock = Mock::start(Script::calls([text("First done."), mend(), text("Second done.")]));
    let ran = case(&mock, &format!("follow_ups = [\"now mend it\"]{GATE}")).run().expect(0);
    assert_eq!(transitions(&ran), ["next_turn", "next_turn"]);
    assert_eq!(mock.requests()[1].last_text(), "now mend it");
    let events = ran.file("events.jsonl");
    assert!(events.contains("\"input_started\"") && events.contains("\"input_completed\""));
    clean(&mock);
}

#[test]
fn context_files_and_protected_paths_stand_in_the_first_message() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let case = Case::new(&[("a.txt", "one\n"), ("AGENTS.md", "Use tabs.\n")])
        .job("job", &job(&mock, "mend it", "protect = [\"tests/**\"]\n"));
    case.run().expect(0);
    let first = mock.requests()[0].first_text();
    assert!(first.contains("Use tabs."), "{first}");
    let whole = mock.requests()[0].messages()[0].to_string();
    assert!(whole.contains("mend it") && whole.contains("tests/**"), "{whole}");
}

#[test]
fn the_prompt_cache_marks_move_and_the_prefix_stays() {
    let mock = Mock::start(Script::calls([
        tool("Glob", json!({"pattern": "*"})),
        tool("Glob", json!({"pattern": "**/*"})),
        mend(),
        text("Done."),
    ]));
    case(&mock, GATE).run().expect(0);
    let bodies: Vec<Value> = mock.requests().iter().map(|request| request.body.clone()).collect();
    for body in &bodies {
        assert_eq!(body["system"], bodies[0]["system"]);
        assert_eq!(body["tools"], bodies[0]["tools"]);
        let marks = body.to_string().matches("cache_control").count();
        assert!((2..=4).contains(&marks), "{marks}");
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert!(last.to_string().contains("cache_control"), "{last}");
    }
    clean(&mock);
}

#[test]
fn b074_a_window_that_the_tools_alone_fill_is_an_error_before_any_call() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let job = job(&mock, "look around", "")
        .replace("name = \"mock-1\"", "name = \"mock-1\"\ncontext_window = 4_000\nmax_output_tokens = 1_024");
    let ran = Case::new(&[("a", "")]).job("job", &job).run().expect(2);
    assert!(ran.stderr.contains("raise context_window"), "{}", ran.stderr);
    assert!(mock.requests().is_empty());
}
