//! Full windows and refused prompts, through the binary: every rung of the ladder, and the clean end below the last one.

use crate::case::{Case, Ran, eventually, long_file};
use crate::looping::{GATE, case, clean, job, mend, transitions, windowed};
use crate::mock::{Answer, Mock, Request, Script, message, status, text, tool};
use crate::signals::send;
use crate::streaming::valid;
use rustix::process::Signal;
use serde_json::json;

/// Whether a request asks for a summary of the conversation.
pub(crate) fn is_compaction(request: &Request) -> bool {
    request.last_text().contains("Write a summary by which you can go on")
}

/// How often the mock was asked for a summary.
fn compactions(mock: &Mock) -> usize {
    mock.requests().iter().filter(|request| is_compaction(request)).count()
}

/// A refusal as the API words it.
pub(crate) fn too_long(tokens: usize, most: usize) -> Answer {
    status(400, "invalid_request_error", &format!("prompt is too long: {tokens} tokens > {most} maximum"))
}

/// A call whose input differs from turn to turn.
fn look(turn: usize) -> Answer {
    tool("Glob", json!({"pattern": format!("*{turn}*")}))
}

fn layer(ran: &Ran, name: &str) -> u64 {
    ran.result("job")["loop_counts"]["layers"][name].as_u64().unwrap()
}

/// Answers by the number of the request among those that are no compaction; compactions are answered by the other closure.
fn scripted(
    mut turn: impl FnMut(usize, &Request) -> Answer + Send + 'static,
    mut summary: impl FnMut(&Request) -> Answer + Send + 'static,
) -> Mock {
    let mut count = 0;
    let answer = move |request: &Request| {
        if is_compaction(request) {
            return summary(request);
        }
        count += 1;
        turn(count, request)
    };
    Mock::start(Script::made(answer).rewrites())
}

#[test]
fn blocking_limit_of_a_task_that_fills_the_window() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    // What the context files of the worktree bring is known only there.
    let case = case(&mock, "").job("job", &windowed(&mock, 40_000, "mend a.txt", GATE));
    for file in ["AGENTS.md", "CLAUDE.md"] {
        case.write(file, "mend it so. ".repeat(3_300));
    }
    case.git(&["add", "-A"]);
    case.git(&["commit", "-q", "-m", "context"]);
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("job"), "failed context_exhausted blocking_limit");
    assert_eq!(transitions(&ran), [""; 0]);
    assert!(ran.stderr.contains("nothing to compact"), "{}", ran.stderr);
    assert_eq!(mock.requests().len(), 0, "it was sent all the same");
    clean(&mock);
}

#[test]
fn prompt_too_long_when_the_compaction_is_too_long_as_well() {
    let mock = scripted(
        |turn, _| match turn {
            1 => mend(),
            2..=4 => look(turn),
            _ => too_long(211_180, 200_000),
        },
        |_| too_long(211_180, 200_000),
    );
    let ran = case(&mock, GATE).run().expect(1);
    assert_eq!(ran.ending("job"), "failed context_exhausted prompt_too_long");
    assert_eq!(transitions(&ran), ["next_turn"; 4]);
    assert!(ran.result("job")["error"]["message"].as_str().unwrap().contains("211180"));
    assert_eq!(ran.result("job")["loop_counts"]["compact_failures"], 1);
    let tried = compactions(&mock);
    assert!((2..=4).contains(&tried), "{tried} compactions");
    assert!(ran.file("jobs/job/diff.patch").contains("+two"), "the work is lost");
    clean(&mock);
}

#[test]
fn reactive_compact_retry_goes_on_from_the_summary() {
    let mock = scripted(
        |turn, _| match turn {
            1..=4 => look(turn),
            5 => too_long(211_180, 200_000),
            6 => mend(),
            _ => text("Done."),
        },
        |_| text("Four looks, nothing found. Next: mend a.txt."),
    );
    let ran = case(&mock, GATE).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let expected = ["next_turn", "next_turn", "next_turn", "next_turn", "reactive_compact_retry", "next_turn"];
    assert_eq!(transitions(&ran), expected);
    assert_eq!((compactions(&mock), layer(&ran, "auto_compact")), (1, 1));
    let after = &mock.requests()[6];
    let first = after.first_text();
    assert!(first.contains("mend a.txt") && first.contains("Four looks, nothing found."), "{first}");
    clean(&mock);
}

#[test]
fn aborted_streaming_while_the_conversation_is_summarised() {
    let mock = scripted(
        |turn, _| match turn {
            1 => mend(),
            2..=4 => look(turn),
            _ => too_long(211_180, 200_000),
        },
        |_| Answer::hang(),
    );
    let case = case(&mock, GATE);
    let child = case.start();
    eventually("a summary is asked for", || compactions(&mock) == 1);
    send(&child, Signal::INT);
    let ran = case.finish(child).expect(130);
    assert_eq!(ran.ending("job"), "cancelled interrupted aborted_streaming");
    valid(&ran);
    assert!(ran.file("jobs/job/diff.patch").contains("+two"), "the work is lost");
    clean(&mock);
}

#[test]
fn reactive_compaction_comes_once_in_a_query() {
    let mock = scripted(
        |turn, _| match turn {
            1..=4 | 6..=9 => look(turn),
            _ => too_long(211_180, 200_000),
        },
        |_| text("Nothing found yet."),
    );
    let ran = case(&mock, GATE).run().expect(1);
    assert_eq!(ran.ending("job"), "failed context_exhausted prompt_too_long");
    assert_eq!(compactions(&mock), 1);
    clean(&mock);
}

#[test]
fn collapse_drain_retry_shows_digests_before_anything_is_summarised() {
    // Words that a digest shortens, and a size between the marks at which spans are staged and applied.
    let words = "I will look at the next part of the tree and think about what it says. ".repeat(12);
    let mock = scripted(
        move |turn, _| match turn {
            1..=9 => look(turn).text(&words).usage(if turn == 9 { 13_500 } else { 2_000 }, 50),
            10 => too_long(40_100, 40_000),
            11 => mend(),
            _ => text("Done."),
        },
        |_| text("There was no need to ask."),
    );
    let ran = case(&mock, "").job("job", &windowed(&mock, 40_000, "mend a.txt", GATE)).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let took: Vec<String> = transitions(&ran).into_iter().filter(|code| code != "next_turn").collect();
    assert_eq!(took, ["collapse_drain_retry"]);
    assert_eq!((compactions(&mock), layer(&ran, "collapse"), layer(&ran, "auto_compact")), (0, 1, 0));
    let (before, after) = (&mock.requests()[9], &mock.requests()[10]);
    assert!(after.bytes.len() < before.bytes.len(), "{} {}", before.bytes.len(), after.bytes.len());
    assert!(after.body["messages"].to_string().contains("earlier turns in short"));
    clean(&mock);
}

/// A picture of one pixel.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\
\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

fn picture(mock: &Mock) -> Case {
    let case = case(mock, GATE);
    case.write("p.png", PICTURE);
    case.git(&["add", "-A"]);
    case.git(&["commit", "-q", "-m", "a picture"]);
    case
}

fn refused() -> Answer {
    status(400, "invalid_request_error", "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum")
}

#[test]
fn reactive_compact_retry_takes_the_images_out() {
    let answers = [tool("Read", json!({"file_path": "p.png"})), refused(), mend(), text("Done.")];
    let mock = Mock::start(Script::calls(answers).rewrites());
    let ran = picture(&mock).run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    assert_eq!(transitions(&ran), ["next_turn", "reactive_compact_retry", "next_turn"]);
    let bodies: Vec<String> = mock.requests().iter().map(|request| request.body["messages"].to_string()).collect();
    assert!(bodies[1].contains("\"image\"") && !bodies[2].contains("\"image\""), "{}", bodies[1]);
    assert!(bodies[2].contains("taken out"), "{}", bodies[2]);
    clean(&mock);
}

#[test]
fn image_error_when_it_is_refused_without_images_too() {
    let answers = [mend(), tool("Read", json!({"file_path": "p.png"})), refused(), refused()];
    let mock = Mock::start(Script::calls(answers).rewrites());
    let ran = picture(&mock).run().expect(1);
    assert_eq!(ran.ending("job"), "failed media image_error");
    assert_eq!(transitions(&ran), ["next_turn", "next_turn", "reactive_compact_retry"]);
    assert_eq!(mock.requests().len(), 4);
    assert!(ran.result("job")["error"]["message"].as_str().unwrap().contains("5 MB"));
    assert!(ran.file("jobs/job/diff.patch").contains("+two"), "the work is lost");
    clean(&mock);
}

/// A job that mends the file and then reads on until its window is full; every compaction is answered so.
fn filling(summary: impl Fn() -> Answer + Send + 'static) -> (Mock, Ran, usize) {
    let mock = scripted(
        |turn, request| {
            let tokens = (request.bytes.len() / 3) as u64;
            if turn == 1 {
                return mend().usage(tokens, 50);
            }
            // The last three turns are never cleared: so much in each of them leaves nothing but a compaction.
            let read = |line: usize| json!({"file_path": "big.txt", "offset": line, "limit": 1_000});
            let calls = message([]).tool("Read", read(turn * 2_000)).tool("Read", read(turn * 2_000 + 1_000));
            calls.usage(tokens, 100)
        },
        move |request| match summary() {
            answer if answer.is_message() => answer.usage((request.bytes.len() / 3) as u64, 5_000),
            answer => answer,
        },
    );
    let more = format!("max_turns = 200\ntoken_budget = 100_000_000{GATE}before = \"fail\"\n");
    let case = Case::new(&[("a.txt", "one\n"), ("check.sh", "grep -q two a.txt\n"), ("big.txt", &long_file(20_000))]);
    let case = case.job("job", &windowed(&mock, 40_000, "mend a.txt", &more));
    let ran = case.env("RUNNER_MODEL_RETRIES", "1").run();
    let tried = compactions(&mock);
    (mock, ran, tried)
}

#[test]
fn b081_work_is_judged_when_no_compaction_succeeds() {
    for answer in [
        status(500, "api_error", "oops").header("retry-after-ms", "1"),
        status(400, "invalid_request_error", "no summaries today"),
        too_long(40_100, 40_000),
    ] {
        let (mock, ran, tried) = filling(move || answer.clone());
        let ran = ran.expect(0);
        assert_eq!(ran.ending("job"), "passed completed_at_limit blocking_limit");
        assert_eq!(ran.result("job")["loop_counts"]["compact_failures"], 3);
        // Three compactions, each sent twice at most, or made smaller three times at most.
        assert!((3..=12).contains(&tried), "{tried} requests for a summary");
        assert_eq!(layer(&ran, "auto_compact"), 0);
        assert!(ran.file("jobs/job/diff.patch").contains("+two"), "the work is lost");
        clean(&mock);
    }
}

#[test]
fn b072_a_summary_as_long_as_what_it_sums_up_ends_cleanly() {
    let (mock, ran, tried) =
        filling(|| text(&"As I said before, nothing stands out in any of the parts. ".repeat(1_500)));
    let ran = ran.expect(0);
    assert_eq!(ran.ending("job"), "passed completed_at_limit blocking_limit");
    assert!((1..=3).contains(&tried), "{tried} compactions");
    assert!(ran.file("jobs/job/diff.patch").contains("+two"), "the work is lost");
    clean(&mock);
}

#[test]
fn b072_without_good_work_it_says_that_the_context_is_exhausted() {
    let summary = "As I said before, nothing stands out in any of the parts. ".repeat(1_500);
    let words = "nothing yet in this part either. ".repeat(200);
    let mock = scripted(
        move |turn, request| look(turn).text(&words).usage((request.bytes.len() / 3) as u64, 2_000),
        move |request| text(&summary).usage((request.bytes.len() / 3) as u64, 5_000),
    );
    let more = format!("max_turns = 200\ntoken_budget = 100_000_000{GATE}");
    let case = Case::new(&[("a.txt", "one\n"), ("check.sh", "grep -q two a.txt\n")]);
    let ran = case.job("job", &windowed(&mock, 40_000, "mend a.txt", &more)).run().expect(1);
    assert_eq!(ran.ending("job"), "failed context_exhausted blocking_limit");
    let tried = compactions(&mock);
    assert!((1..=3).contains(&tried), "{tried} compactions");
    clean(&mock);
}

#[test]
fn a_prompt_that_is_refused_at_once_leaves_nothing_to_compact() {
    let mock = Mock::start(Script::calls([too_long(211_180, 200_000)]));
    let case = case(&mock, "").job("job", &job(&mock, "mend a.txt", ""));
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("job"), "failed context_exhausted prompt_too_long");
    assert_eq!(mock.requests().len(), 1);
}

#[test]
fn a_provider_that_clears_by_itself_is_asked_to_and_its_own_number_is_reported() {
    let mock = scripted(
        |turn, _| match turn {
            1..=3 => look(turn).usage(5_000 * u64::try_from(turn).unwrap(), 20).cleared(2 * u64::from(turn == 3), 900),
            4 => mend(),
            _ => text("Done."),
        },
        |_| text("never asked"),
    );
    let job = windowed(&mock, 60_000, "mend a.txt", GATE).replace("mock-1", "claude-sonnet-5-5");
    let ran = case(&mock, "").job("job", &job).run().expect(0);
    let requests = mock.requests();
    assert!(requests[0].body.get("context_management").is_none(), "nothing to clear yet");
    let edit = &requests[3].body["context_management"]["edits"][0];
    assert_eq!(edit["type"], "clear_tool_uses_20250919", "{}", requests[3].body);
    let events = ran.file("events.jsonl");
    assert!(events.contains("\"layer\":\"micro_compact\",\"agent\":0,\"freed_tokens\":900"), "{events}");
    assert!(!requests.iter().any(|request| String::from_utf8_lossy(&request.bytes).contains("old result cleared")));
    clean(&mock);
}
