//! Sub-agents through the binary: what they are given, how they run, what comes back of them.

use crate::case::Case;
use crate::looping::{GATE, case, clean, mend};
use crate::mock::{Answer, Gate, Mock, Request, Script, message, status, text, tool};
use crate::streaming::events;
use serde_json::{Value, json};

/// The input of a call that starts a sub-agent.
fn agent(prompt: &str, kind: &str) -> Value {
    json!({"description": "a closer look", "prompt": prompt, "subagent_type": kind})
}

/// A server whose job starts these sub-agents, mends the file and is done; the lanes of the sub-agents come first.
fn script(lanes: Script, calls: Answer) -> Script {
    lanes.about("mend a.txt", [calls, mend(), text("Done.")])
}

/// The requests of one sub-agent, by its prompt.
fn asked(mock: &Mock, prompt: &str) -> Vec<Request> {
    mock.requests().into_iter().filter(|request| request.first_text().contains(prompt)).collect()
}

fn tools(request: &Request) -> Vec<String> {
    let tools = request.body["tools"].as_array().unwrap().iter();
    let mut names: Vec<String> = tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_explorer_only_reads_and_its_last_words_are_the_result() {
    let lanes = Script::default()
        .about("count files", [tool("Glob", json!({"pattern": "*"})).usage(100, 7), text("Two files.").usage(200, 3)]);
    let mock = Mock::start(script(lanes, tool("Agent", agent("count files", "explore")).usage(1_000, 10)));
    let case = case(&mock, GATE);
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let own = asked(&mock, "count files");
    assert_eq!(own.len(), 2);
    for request in &own {
        assert_eq!(tools(request), ["Glob", "Grep", "Read"]);
    }
    let jobs = asked(&mock, "mend a.txt");
    assert!(tools(&jobs[0]).contains(&"Agent".to_owned()));
    let (_, words, is_error) = &jobs[1].results()[0];
    assert_eq!((words.as_str(), *is_error), ("Two files.", false));

    let result = ran.result("job");
    assert_eq!((&result["turns"], &result["model_calls"]), (&json!(5), &json!(5)));
    assert_eq!(result["usage"]["input_tokens"], 1_000 + 300 + 20);
    assert_eq!(result["usage"]["output_tokens"], 10 + 10 + 10);
    assert_eq!(result["loop_counts"]["subagents"], 1);
    let messages: Vec<Value> = ran.transcript("job").into_iter().filter(|line| line["kind"] == "message").collect();
    let of_agent = messages.iter().filter(|line| line["agent"] == 1).count();
    assert_eq!((of_agent, messages.len() - of_agent), (4, 6));
    let events = events(&case);
    assert!(events.iter().any(|line| line["event"] == "agent_started" && line["kind"] == "explore"));
    let ended = events.iter().find(|line| line["event"] == "agent_finished").unwrap();
    assert_eq!((&ended["terminal"], &ended["turns"]), (&json!("completed"), &json!(2)));
    clean(&mock);
}

#[test]
fn explorers_of_one_answer_run_side_by_side() {
    let gate = Gate::new();
    let lanes = Script::default()
        .about("look left", [text("Nothing on the left.").when(&gate)])
        .about("look right", [text("Nothing on the right.").when(&gate)]);
    let both = message([]).tool("Agent", agent("look left", "explore")).tool("Agent", agent("look right", "explore"));
    let mock = Mock::start(script(lanes, both));
    let case = case(&mock, GATE);
    let child = case.start();
    mock.wait_for_requests(3);
    assert_eq!(mock.peak(), 2, "both wait for their answers at once");
    gate.open();
    let ran = case.finish(child).expect(0);
    let results = asked(&mock, "mend a.txt")[1].results();
    let words: Vec<&str> = results.iter().map(|(_, words, _)| words.as_str()).collect();
    assert_eq!(words, ["Nothing on the left.", "Nothing on the right."]);
    assert_eq!(ran.result("job")["loop_counts"]["subagents"], 2);
    clean(&mock);
}

#[test]
fn a_general_agent_works_in_the_same_tree() {
    let lanes = Script::default().about("do the edit", [mend(), text("Edited.")]);
    let lanes = lanes.about("mend a.txt", [tool("Agent", agent("do the edit", "general")), text("Done.")]);
    let mock = Mock::start(lanes);
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert!(!tools(&asked(&mock, "do the edit")[0]).contains(&"Agent".to_owned()));
    clean(&mock);
}

#[test]
fn sub_agents_start_no_sub_agents() {
    for kind in ["general", "explore"] {
        let lanes = Script::default().about("dig", [tool("Agent", agent("dig deeper", "explore")), text("I cannot.")]);
        let mock = Mock::start(script(lanes, tool("Agent", agent("dig", kind))));
        let ran = case(&mock, GATE).run().expect(0);
        let (_, words, is_error) = &asked(&mock, "dig")[1].results()[0];
        assert!(*is_error && words.contains("Agent"), "{words}");
        assert_eq!(ran.result("job")["loop_counts"]["subagents"], 1);
        clean(&mock);
    }
}

#[test]
fn a_sub_agent_that_cannot_reach_its_model_is_an_error_result() {
    let lanes = Script::default().about("count files", [status(401, "authentication_error", "invalid x-api-key")]);
    let mock = Mock::start(script(lanes, tool("Agent", agent("count files", "explore"))));
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let (_, words, is_error) = &asked(&mock, "mend a.txt")[1].results()[0];
    assert!(*is_error && words.contains("invalid x-api-key"), "{words}");
    clean(&mock);
}

#[test]
fn a_signal_ends_sub_agents_with_their_job() {
    let lanes = Script::default().about("count files", [Answer::hang()]);
    let mock = Mock::start(script(lanes, tool("Agent", agent("count files", "explore"))));
    let case: Case = case(&mock, GATE);
    let child = case.start();
    mock.wait_for_requests(2);
    crate::signals::send(&child, rustix::process::Signal::INT);
    let ran = case.finish(child).expect(130);
    assert_eq!(ran.ending("job"), "cancelled interrupted aborted_tools");
    clean(&mock);
}
