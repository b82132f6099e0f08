//! Parts of an answer that are told before it is whole.

use super::{SHORT, Setup, Talk, inputs, retried, told};
use crate::mock::{Answer, Gate, Mock, Script, message, text, tool};
use runner::model::Progress;
use runner::outcome::ModelErrorKind as Kind;
use runner::query::{Block, ModelCall, Origin, Reply, Role, Stop};
use serde_json::{Value, json as value};
use tokio::sync::mpsc::{self, Receiver};

/// Calls with a channel of this size, and watches it. The reply is taken to come.
async fn watched<T>(talk: &Talk, room: usize, watch: impl AsyncFnOnce(&mut Receiver<Progress>) -> T) -> (Reply, T) {
    let (sender, mut screen) = mpsc::channel(room);
    let call = ModelCall::first(talk.history.clone());
    let call = async move { talk.client.call(&call, &sender).await };
    let (reply, watched) = tokio::join!(call, watch(&mut screen));
    (reply.unwrap(), watched)
}

/// The next block.
async fn next(screen: &mut Receiver<Progress>) -> Option<Block> {
    loop {
        if let Progress::Block(block) = screen.recv().await? {
            return Some(block);
        }
    }
}

fn command(block: &Block) -> Value {
    let Block::ToolUse(_) = block else { panic!("{block:?}") };
    inputs(&Reply {
        blocks: vec![block.clone()],
        stop: Stop::Pause,
        usage: runner::units::Usage::default(),
        cleared: None,
        request_id: None,
    })
    .remove(0)
}

#[tokio::test]
async fn a_call_is_told_while_the_server_still_holds_the_rest_back() {
    let (first, second) = (Gate::new(), Gate::new());
    let answer = message([])
        .thinking("hm", "c2ln")
        .tool("Bash", value!({"command": "one"}))
        .tool("Bash", value!({"command": "two"}))
        .pause_after_block(1, &first)
        .pause_after_block(2, &second);
    let mock = Mock::start(Script::calls([answer]));
    let talk = Setup::at(mock.url()).talk();
    let (reply, seen) = watched(&talk, 32, async |screen| {
        let mut seen = vec![next(screen).await.unwrap(), next(screen).await.unwrap()];
        first.open(); // Only now: the call had come before anything after it was sent.
        seen.push(next(screen).await.unwrap());
        second.open();
        assert_eq!(next(screen).await, None, "each is told once");
        seen
    })
    .await;
    assert_eq!(seen, reply.blocks);
    assert_eq!(command(&seen[2]), value!({"command": "two"}));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[tokio::test]
async fn b047_b053_what_was_told_before_a_break_is_known() {
    let whole = || tool("Bash", value!({"command": "touch x"})).text("Done.");
    for cut in [whole().end_after_block(0), whole().break_after_block(0), whole().break_before("message_stop")] {
        let mock = Mock::start(Script::calls([cut]));
        let (result, seen) = Setup::at(mock.url()).talk().call_watched().await;
        let (failure, _) = result.unwrap_err();
        assert_eq!((failure.kind, retried(&failure)), (Kind::Stream, true), "{failure:?}");
        assert_eq!(command(&told(&seen)[0]), value!({"command": "touch x"}));
    }
    let mock = Mock::start(Script::calls([whole().stall_after_block(0)]));
    let mut setup = Setup::at(mock.url());
    setup.timeouts.idle = SHORT;
    let (result, seen) = setup.talk().call_watched().await;
    assert_eq!((result.unwrap_err().0.kind, told(&seen).len()), (Kind::Stream, 1));
}

#[tokio::test]
async fn a_slow_consumer_slows_the_stream_loses_no_block_and_meets_no_limit() {
    let held = Gate::new();
    let many = (0..20).fold(message([]), |answer, at| answer.text("word ").tool("Bash", value!({"command": at})));
    let mock = Mock::start(Script::calls([many.pause_before("message_delta", &held)]));
    let mut setup = Setup::at(mock.url());
    (setup.timeouts.idle, setup.timeouts.content_idle) = (SHORT, SHORT);
    let talk = setup.talk();
    let (reply, seen) = watched(&talk, 1, async |screen| {
        let mut seen = Vec::new();
        while seen.len() < 40 {
            if seen.len() == 37 {
                // What is measured: longer than either limit nobody reads, while the last block waits for room.
                tokio::time::sleep(2 * SHORT).await;
            }
            seen.push(next(screen).await.unwrap());
        }
        held.open();
        assert_eq!(next(screen).await, None);
        seen
    })
    .await;
    assert_eq!(seen, reply.blocks);
}

#[tokio::test]
async fn b036_b060_what_an_answer_does_not_hold_is_not_told() {
    for answer in [
        message([]).text("Hello").thinking("trailing", "c2ln"),
        message([]).text(" ").thinking("hm", "c2ln"),
        message([]).text("Writing.").cut_call("Bash", "{\"command\":\"a"),
        message([]).tool_with_id("same", "Bash", value!({})).tool_with_id("same", "Bash", value!({})),
    ] {
        let mock = Mock::start(Script::calls([answer]));
        let (result, _) = Setup::at(mock.url()).talk().call_watched().await; // Compares the two.
        result.unwrap();
    }
}

#[tokio::test]
async fn a_consumer_that_went_away_does_not_stop_the_call() {
    let mock = Mock::start(Script::calls([tool("Bash", value!({"command": "ls"}))]));
    let talk = Setup::at(mock.url()).talk();
    let (sender, screen) = mpsc::channel(1);
    drop(screen);
    let reply = talk.client.call(&ModelCall::first(talk.history.clone()), &sender).await.unwrap();
    assert_eq!(reply.blocks.len(), 1);
}

#[tokio::test]
async fn a_paused_answer_goes_back_as_it_is_and_goes_on() {
    let search = value!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}});
    let paused = |answer: Answer| answer.stop("pause_turn");
    let mock = Mock::start(Script::calls([
        paused(message([]).thinking("hm", "c2ln").text("Searching.").block(search)),
        paused(text("Still searching.")),
        tool("Bash", value!({"command": "ls"})),
        text("Done."),
    ]));
    let mut talk = Setup::at(mock.url()).talk();
    for _ in 0..2 {
        let reply = talk.call().await.unwrap();
        assert_eq!(reply.stop, Stop::Pause);
        talk.push(Role::Assistant, Origin::Model, reply.blocks);
    }
    talk.turn("ok").await;
    talk.turn("").await;
    assert_eq!(mock.breaches(), [""; 0]);
    let requests = mock.requests();
    let kinds = |at: usize| {
        let blocks = requests[at].messages()[1]["content"].as_array().unwrap();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(1), ["thinking", "text", "server_tool_use"]);
    assert_eq!(kinds(2), ["thinking", "text", "server_tool_use", "text"]);
    assert_eq!(kinds(3), ["thinking", "text", "server_tool_use", "text", "tool_use"]);
    talk.push(Role::Assistant, Origin::Model, vec![Block::Text("Forged.".into())]);
    talk.call().await.unwrap_err();
    assert!(mock.breaches()[0].contains("prefill"));
}
