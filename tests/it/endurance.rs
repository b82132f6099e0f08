//! Three hundred turns through a window of 40,000 tokens.

use crate::case::{Case, long_file};
use crate::context::{is_compaction, too_long};
use crate::looping::{GATE, clean, mend, windowed};
use crate::mock::{Answer, Mock, Request, Script, message, status, text};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const WINDOW: usize = 40_000;
const TURNS: usize = 300;

/// What the model does at a turn: it reads, searches and runs, now and then says at length what it thinks, and finishes in the end.
fn turn(turn: usize) -> Answer {
    if turn == TURNS - 1 {
        return mend();
    }
    if turn == TURNS {
        return text("Done.");
    }
    let answer = match turn % 5 {
        0 => message([]).text(&format!("Turn {turn}: {}", "this part has to do with the others. ".repeat(30))),
        _ => message([]),
    };
    let read = |answer: Answer, line: usize, limit: usize| {
        answer.tool("Read", json!({"file_path": "big.txt", "offset": line, "limit": limit}))
    };
    // So much at once that clearing old results cannot make room for it.
    if matches!(turn % 60, 30 | 31) {
        return read(read(answer, turn * 50, 1_000), turn * 50 + 1_000, 1_000);
    }
    match turn % 12 {
        11 => answer.tool("Bash", json!({"command": format!("seq {turn} {}", turn + 3_000)})),
        3 | 7 => answer.tool("Grep", json!({"pattern": format!("line {turn}"), "output_mode": "content"})),
        5 => read(answer, turn * 50, 1_000),
        _ => read(answer, turn * 50, 60),
    }
}

/// A server with a window: what does not fit is refused in the API's words.
fn server(refused: &Arc<AtomicUsize>) -> Mock {
    let (refused, mut done) = (Arc::clone(refused), 0);
    let answer = move |request: &Request| {
        let prompt = request.bytes.len().div_ceil(3);
        let output = usize::try_from(request.body["max_tokens"].as_u64().unwrap()).unwrap();
        if prompt > WINDOW {
            refused.fetch_add(1, Ordering::SeqCst);
            return too_long(prompt, WINDOW);
        }
        if prompt + output > WINDOW {
            refused.fetch_add(1, Ordering::SeqCst);
            let why = format!("input length and `max_tokens` exceed context limit: {prompt} + {output} > {WINDOW}");
            return status(400, "invalid_request_error", &why);
        }
        if is_compaction(request) {
            return text("The task: mend a.txt. Parts of big.txt were read; nothing stood out. Next: read on.")
                .usage(prompt as u64, 40);
        }
        done += 1;
        turn(done).usage(prompt as u64, 120)
    };
    Mock::start(Script::made(answer).rewrites())
}

#[test]
fn three_hundred_turns_fit_through_a_small_window() {
    let refused = Arc::new(AtomicUsize::new(0));
    let mock = server(&refused);
    let more = format!("max_turns = {TURNS}\ntoken_budget = 1_000_000_000{GATE}");
    let case = Case::new(&[("a.txt", "one\n"), ("check.sh", "grep -q two a.txt\n"), ("big.txt", &long_file(20_000))]);
    let case = case.job("job", &windowed(&mock, 40_000, "mend a.txt", &more));
    let ran = case.run().expect(0);
    assert_eq!(ran.ending("job"), "passed completed completed");
    let result = ran.result("job");
    assert_eq!(result["turns"], TURNS);
    let layers = &result["loop_counts"]["layers"];
    println!("{layers}, {} requests in {} s", mock.requests().len(), result["duration_s"]);
    for (layer, count) in layers.as_object().unwrap() {
        assert!(count.as_u64() > Some(0), "{layer} never acted: {layers}");
    }
    assert_eq!(refused.load(Ordering::SeqCst), 0, "requests that do not fit");
    assert_eq!(result["loop_counts"]["compact_failures"], 0);
    let largest = mock.requests().iter().map(|request| request.bytes.len().div_ceil(3)).max().unwrap();
    assert!(largest <= WINDOW, "{largest}");
    clean(&mock);
}
