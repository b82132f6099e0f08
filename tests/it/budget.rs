//! Budgets as targets, other models, summaries, and the bound of repeated calls, through the binary.

use crate::looping::{GATE, case, mend};
use crate::mock::{Mock, Script, message, status, text, tool};
use serde_json::json;

#[test]
fn token_budget_continuation_goes_on_until_little_comes() {
    let mock = Mock::start(Script::calls([mend(), text("Done.").usage(900, 50)]));
    let ran =
        case(&mock, &format!("token_budget = {{ total = 400_000, keep_working = true }}\n{GATE}")).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let expected = ["next_turn", "token_budget_continuation", "token_budget_continuation", "token_budget_continuation"];
    assert_eq!(ran.result("job")["transitions"], json!(expected));
    let asked = mock.requests()[2].last_text();
    assert!(asked.contains("% of the token budget is used") && asked.contains("keep working"), "{asked}");
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn a_budget_that_is_used_up_by_further_work_fails_nothing() {
    let mock = Mock::start(Script::calls([mend(), text("Done.").usage(4_000, 900)]));
    let ran =
        case(&mock, &format!("token_budget = {{ total = 30_000, keep_working = true }}\nmax_turns = 50\n{GATE}")).run();
    let ran = ran.expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let usage = ran.result("job")["usage"].clone();
    let used = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    assert!(used <= 30_000 && used > 20_000, "{usage}");
}

#[test]
fn the_task_budget_goes_to_the_api_with_what_remains() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    case(&mock, &format!("task_budget = 50_000\n{GATE}")).run().expect(0);
    for request in mock.requests() {
        let budget = &request.body["output_config"]["task_budget"];
        assert_eq!(*budget, json!({"type": "tokens", "total": 50_000, "remaining": 50_000}));
    }
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn b067_the_fallback_model_takes_over_when_the_main_one_stays_overloaded() {
    let overloaded = status(529, "overloaded_error", "Overloaded").header("retry-after", "0");
    let script = Script::default().model("mock-2", [mend(), text("Done.")]).about("", [overloaded]);
    let mock = Mock::start(script);
    let case = case(&mock, GATE);
    let job = case.read("jobs/job.toml").replace("name = \"mock-1\"", "name = \"mock-1\"\nfallback = \"mock-2\"");
    case.write("jobs/job.toml", job);
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(mock.models(), ["mock-1", "mock-1", "mock-1", "mock-2", "mock-2"]);
    assert_eq!(ran.result("job")["loop_counts"]["fallbacks"], 1);
    let events = ran.file("events.jsonl");
    assert!(events.contains("\"event\":\"model_fallback\",\"from\":\"mock-1\",\"to\":\"mock-2\""), "{events}");
}

#[test]
fn b068_a_model_that_is_not_there_is_replaced_at_once() {
    let missing = status(404, "not_found_error", "model: mock-1");
    let mock = Mock::start(Script::default().model("mock-2", [mend(), text("Done.")]).about("", [missing]));
    let case = case(&mock, GATE);
    let job = case.read("jobs/job.toml").replace("name = \"mock-1\"", "name = \"mock-1\"\nfallback = \"mock-2\"");
    case.write("jobs/job.toml", job);
    case.run().expect(0);
    assert_eq!(mock.models(), ["mock-1", "mock-2", "mock-2"]);
}

#[test]
fn b036_thinking_of_the_main_model_never_reaches_the_fallback() {
    let overloaded = status(529, "overloaded_error", "Overloaded").header("retry-after", "0");
    let think = message([]).thinking("hm", "c2lnbmF0dXJl").tool("Glob", json!({"pattern": "*"}));
    let script = Script::default().model("mock-2", [mend(), text("Done.")]).model("mock-1", [think, overloaded]);
    let mock = Mock::start(script);
    let case = case(&mock, GATE);
    let job = case.read("jobs/job.toml").replace("name = \"mock-1\"", "name = \"mock-1\"\nfallback = \"mock-2\"");
    case.write("jobs/job.toml", job);
    case.run().expect(0);
    let fallback = mock.requests().into_iter().filter(|request| request.model() == "mock-2");
    for request in fallback {
        assert!(!request.body["messages"].to_string().contains("\"thinking\""), "{}", request.body);
    }
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn a_small_model_summarises_calls_and_nothing_waits_for_it() {
    let script = Script::default()
        .model("mock-s", [text("Looked at the files.")])
        .about("", [tool("Glob", json!({"pattern": "*"})), mend(), text("Done.")]);
    let mock = Mock::start(script);
    let case = case(&mock, GATE);
    let job = case.read("jobs/job.toml").replace("name = \"mock-1\"", "name = \"mock-1\"\nsmall = \"mock-s\"");
    case.write("jobs/job.toml", job);
    let ran = case.run().expect(0);
    assert!(mock.models().contains(&"mock-s".to_owned()), "{:?}", mock.models());
    let result = ran.result("job");
    assert_eq!(result["turns"], 3, "a summary is no turn");
    assert_eq!(result["model_calls"].as_u64().unwrap() as usize, mock.requests().len());
    let asked = mock.requests().into_iter().find(|request| request.model() == "mock-s").unwrap();
    assert!(asked.body.get("tools").is_none(), "{}", asked.body);
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn b082_the_bound_of_repeated_calls_can_be_set() {
    let mock = Mock::start(Script::calls([tool("Grep", json!({"pattern": "nothing-like-this"}))]));
    let ran = case(&mock, &format!("loop_limit = 5\n{GATE}")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed loop_detected aborted_tools");
    assert_eq!(mock.requests().len(), 5);
    let said = ran.result("job")["message"].as_str().unwrap().to_owned();
    assert!(said.contains("nothing-like-this"), "the evidence: {said}");
}
