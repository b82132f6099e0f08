//! How long a call waits, and that nothing of it stays when it is over.

use super::{SHORT, Setup, Talk, retried, texts};
use crate::mock::{Answer, Gate, Mock, Script, text, tool};
use runner::model::Timeouts;
use runner::outcome::ModelErrorKind as Kind;
use serde_json::json as value;

fn impatient(url: String, set: impl FnOnce(&mut Timeouts)) -> Talk {
    let mut setup = Setup::at(url);
    set(&mut setup.timeouts);
    setup.talk()
}

#[tokio::test]
async fn b054_b056_silence_ends_the_call() {
    for place in ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_stop"] {
        let mock = Mock::start(Script::calls([tool("Bash", value!({"command": "ls"})).stall_before(place)]));
        let (failure, _) = impatient(mock.url(), |limits| limits.idle = SHORT).call().await.unwrap_err();
        assert_eq!((failure.kind, retried(&failure)), (Kind::Stream, true));
        assert_eq!(failure.message, "the stream was silent for 0.3s", "{place}");
        mock.abandoned(1).await;
    }
}

#[tokio::test]
async fn each_limit_is_named() {
    let limited = async |answered: Answer, set: fn(&mut Timeouts)| {
        let mock = Mock::start(Script::calls([answered]));
        let (failure, _) = impatient(mock.url(), set).call().await.unwrap_err();
        assert_eq!((failure.kind, retried(&failure)), (Kind::Stream, true));
        mock.abandoned(1).await; // The connection does not outlive the call.
        failure.message
    };
    let pings = || text("Hello").ping_before("content_block_stop");
    assert_eq!(limited(Answer::hang(), |limits| limits.first_byte = SHORT).await, "no answer within 0.3s");
    assert_eq!(limited(Answer::hang(), |limits| limits.total = SHORT).await, "the call was not over within 0.3s");
    assert_eq!(limited(pings(), |limits| limits.total = SHORT).await, "the call was not over within 0.3s");
    assert_eq!(
        limited(pings(), |limits| limits.content_idle = SHORT).await,
        "the stream brought nothing of the message for 0.3s"
    );
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let mock = Mock::start(Script::calls([text("Hello").stall_before("content_block_stop")]));
    let talk = Setup::at(mock.url()).talk();
    tokio::select! {
        result = talk.call() => panic!("{result:?}"),
        () = mock.arrived(1) => {}
    }
    drop(talk);
    mock.abandoned(1).await;
}

#[tokio::test]
async fn a_pause_is_no_end() {
    let (first, second) = (Gate::new(), Gate::new());
    let mock = Mock::start(Script::calls([text("Hello").when(&first).pause_before("message_delta", &second)]));
    let talk = Setup::at(mock.url()).talk();
    let release = async {
        mock.arrived(1).await;
        first.open();
        second.open();
    };
    let (result, ()) = tokio::join!(talk.call(), release);
    assert_eq!(texts(&result.unwrap()), ["Hello"]);
}
