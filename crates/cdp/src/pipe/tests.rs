//! Connections on one pipe, against a browser that the test simulates.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf, duplex, split},
    time::timeout,
};

use super::*;
use crate::{EVENTS_BYTES_MAX, Event};

/// The longest a test may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// The browser's end of a pipe.
struct FakeBrowser {
    calls: Frames<ReadHalf<DuplexStream>>,
    answers: WriteHalf<DuplexStream>,
}

fn pipe_with_fake_browser() -> (BrowserPipe, FakeBrowser) {
    let (own, browser) = duplex(64 << 10);
    let (from_browser, to_browser) = split(own);
    let (calls, answers) = split(browser);
    (BrowserPipe::open(from_browser, to_browser), FakeBrowser { calls: Frames::new(calls), answers })
}

impl FakeBrowser {
    async fn call(&mut self) -> Value {
        let text = timeout(DEADLINE, self.calls.next()).await.expect("a call in time").unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Sends a message as Chromium writes it: the session last.
    async fn send(&mut self, message: &str) {
        self.answers.write_all(message.as_bytes()).await.unwrap();
        self.answers.write_all(&[0]).await.unwrap();
    }

    /// Answers the call that opens a connection.
    async fn attach(&mut self, session: &str) {
        let call = self.call().await;
        assert_eq!(call["method"], "Target.attachToBrowserTarget");
        let info = r#"{"targetId":"T","type":"browser"}"#;
        let params = format!(r#"{{"sessionId":"{session}","targetInfo":{info},"waitingForDebugger":false}}"#);
        self.send(&format!(r#"{{"method":"Target.attachedToTarget","params":{params}}}"#)).await;
        self.send(&format!(r#"{{"id":{},"result":{{"sessionId":"{session}"}}}}"#, call["id"])).await;
    }

    /// Attaches a session within another.
    async fn attach_child(&mut self, parent: &str, child: &str) {
        let params = format!(r#"{{"sessionId":"{child}","targetInfo":{{}},"waitingForDebugger":false}}"#);
        self.send(&format!(
            r#"{{"method":"Target.attachedToTarget","params":{params},"sessionId":"{parent}"}}"#
        ))
        .await;
    }
}

async fn connection(
    pipe: &BrowserPipe,
    browser: &mut FakeBrowser,
    session: &str,
) -> (MessageWriter, MessageReader) {
    let (connected, ()) = tokio::join!(pipe.connect(), browser.attach(session));
    connected.unwrap()
}

async fn next(reader: &mut MessageReader) -> Value {
    let text = timeout(DEADLINE, reader.next()).await.expect("a message in time").expect("no message");
    serde_json::from_str(&text).unwrap()
}

/// Two connections use the same numbers, and each gets its own answers and events, with the sessions within it. A
/// connection's own session is not in its messages.
#[tokio::test]
async fn messages_reach_their_connection() {
    let (pipe, mut browser) = pipe_with_fake_browser();
    let (mut one, mut to_one) = connection(&pipe, &mut browser, "ONE").await;
    let (mut two, mut to_two) = connection(&pipe, &mut browser, "TWO").await;
    for (writer, session) in [(&mut one, "ONE"), (&mut two, "TWO")] {
        assert!(writer.send(r#"{"id":1,"method":"A.b","params":{"x":[1]}}"#.into()).await);
        let call = browser.call().await;
        assert_eq!(call, json!({ "id": 1, "method": "A.b", "params": { "x": [1] }, "sessionId": session }));
    }
    browser.send(r#"{"id":1,"result":{"n":2},"sessionId":"TWO"}"#).await;
    browser.send(r#"{"id":1,"result":{"n":1},"sessionId":"ONE"}"#).await;
    assert_eq!(next(&mut to_one).await, json!({ "id": 1, "result": { "n": 1 } }));
    assert_eq!(next(&mut to_two).await, json!({ "id": 1, "result": { "n": 2 } }));

    browser.attach_child("ONE", "PAGE").await;
    let attached = next(&mut to_one).await;
    assert_eq!((&attached["params"]["sessionId"], &attached["sessionId"]), (&json!("PAGE"), &Value::Null));
    browser.attach_child("PAGE", "WORKER").await;
    assert_eq!(next(&mut to_one).await["sessionId"], "PAGE");
    let in_worker = json!({ "id": 7, "method": "A.b", "sessionId": "WORKER" });
    assert!(one.send(in_worker.to_string().into()).await);
    assert_eq!(browser.call().await, in_worker);
    browser.send(r#"{"id":7,"result":{},"sessionId":"WORKER"}"#).await;
    assert_eq!(next(&mut to_one).await, json!({ "id": 7, "result": {}, "sessionId": "WORKER" }));

    // Another connection's session does not exist for this one.
    assert!(two.send(json!({ "id": 8, "method": "A.b", "sessionId": "PAGE" }).to_string().into()).await);
    let refused = next(&mut to_two).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(8), &json!(-32001)));
}

/// Calls in a session that ends are answered, also in the sessions within it; the browser's own late answers to them, which
/// name no session, reach nobody.
#[tokio::test]
async fn calls_in_an_ended_session_are_answered() {
    let (pipe, mut browser) = pipe_with_fake_browser();
    let (mut one, mut to_one) = connection(&pipe, &mut browser, "ONE").await;
    let (mut two, mut to_two) = connection(&pipe, &mut browser, "TWO").await;
    browser.attach_child("ONE", "PAGE").await;
    browser.attach_child("PAGE", "WORKER").await;
    for _ in 0..2 {
        next(&mut to_one).await;
    }
    for (id, session) in [(5, "PAGE"), (6, "WORKER"), (7, "PAGE")] {
        assert!(
            one.send(json!({ "id": id, "method": "A.b", "sessionId": session }).to_string().into()).await
        );
        browser.call().await;
    }
    assert!(two.send(json!({ "id": 5, "method": "A.b" }).to_string().into()).await);
    browser.call().await;
    browser.send(r#"{"id":7,"result":{},"sessionId":"PAGE"}"#).await;
    browser
        .send(r#"{"method":"Target.detachedFromTarget","params":{"sessionId":"PAGE"},"sessionId":"ONE"}"#)
        .await;
    browser.send(r#"{"id":5,"error":{"code":-32001,"message":"Session with given id not found."}}"#).await;
    browser.send(r#"{"id":5,"result":{},"sessionId":"TWO"}"#).await;
    assert_eq!(next(&mut to_one).await["id"], 7);
    assert_eq!(next(&mut to_one).await["method"], "Target.detachedFromTarget");
    for id in [5, 6] {
        let answer = next(&mut to_one).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32001)));
    }
    assert_eq!(next(&mut to_two).await, json!({ "id": 5, "result": {} }));
    assert!(one.send(json!({ "id": 9, "method": "A.b", "sessionId": "WORKER" }).to_string().into()).await);
    assert_eq!(next(&mut to_one).await["id"], 9, "it is answered without the browser");
}

/// A connection that is closed or dropped, or given up before the browser has answered, ends its session in the browser, after
/// the connection's last call. Other connections stay.
#[tokio::test]
async fn end_of_a_connection_ends_its_session() {
    let (pipe, mut browser) = pipe_with_fake_browser();
    let (mut one, to_one) = connection(&pipe, &mut browser, "ONE").await;
    let (mut two, mut to_two) = connection(&pipe, &mut browser, "TWO").await;
    assert!(one.send(r#"{"id":1,"method":"Last.call"}"#.into()).await);
    one.close().await;
    drop(to_one);
    assert_eq!(browser.call().await["method"], "Last.call");
    let detach = browser.call().await;
    assert_eq!(
        (&detach["method"], &detach["params"]["sessionId"]),
        (&json!("Target.detachFromTarget"), &json!("ONE"))
    );
    browser.send(&format!(r#"{{"id":{},"result":{{}}}}"#, detach["id"])).await;
    browser.send(r#"{"method":"A.late","params":{},"sessionId":"ONE"}"#).await;

    let given_up = tokio::spawn({
        let pipe = pipe.clone();
        async move { pipe.connect().await.map(drop) }
    });
    let call = browser.call().await;
    given_up.abort();
    given_up.await.unwrap_err();
    browser.send(&format!(r#"{{"id":{},"result":{{"sessionId":"LATE"}}}}"#, call["id"])).await;
    assert_eq!(browser.call().await["params"]["sessionId"], "LATE");

    assert!(two.send(r#"{"id":1,"method":"A.b"}"#.into()).await);
    assert_eq!(browser.call().await["sessionId"], "TWO");
    browser.send(r#"{"id":1,"result":{},"sessionId":"TWO"}"#).await;
    assert_eq!(next(&mut to_two).await["id"], 1);
}

/// The end of the browser ends every connection and every call, with the reason; so does a message that is none. Without
/// handles the pipe closes.
#[tokio::test]
async fn end_of_the_pipe_ends_all() {
    let (pipe, mut browser) = pipe_with_fake_browser();
    let (_one, mut to_one) = connection(&pipe, &mut browser, "ONE").await;
    let (client, mut events) = {
        let (connected, ()) = tokio::join!(pipe.client(), browser.attach("TWO"));
        connected.unwrap()
    };
    browser.send(r#"{"method":"A.last","params":{},"sessionId":"TWO"}"#).await;
    let waiting = tokio::spawn(async move { client.call("A.b", &json!({})).await });
    browser.call().await;
    drop(browser);
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed(Closed::ByBrowser))));
    assert_eq!(to_one.next().await, None);
    let Event { method, session, .. } = events.next().await.unwrap();
    assert_eq!((&*method, session), ("A.last", None));
    assert_eq!(events.next().await.unwrap_err(), Closed::ByBrowser);
    assert!(matches!(pipe.connect().await.map(drop), Err(Error::Closed(Closed::ByBrowser))));

    let (pipe, mut browser) = pipe_with_fake_browser();
    browser.send("no message").await;
    let why = pipe.call("A.b", &json!({})).await.unwrap_err();
    assert!(matches!(why, Error::Closed(Closed::Protocol(_))), "{why}");

    let (pipe, mut browser) = pipe_with_fake_browser();
    let (one, _) = connection(&pipe, &mut browser, "ONE").await;
    drop(pipe);
    drop(one);
    assert_eq!(browser.calls.next().await, Err(Closed::ByBrowser), "the browser's input has ended");
}

/// A connection that reads nothing ends when too many bytes wait for it, and its session with it. Another connection is
/// served all the while. One message always fits, however long it is.
#[tokio::test]
async fn connection_that_reads_nothing_ends_alone() {
    let (pipe, mut browser) = pipe_with_fake_browser();
    let (mut idle, mut to_idle) = connection(&pipe, &mut browser, "IDLE").await;
    let (_other, mut to_other) = connection(&pipe, &mut browser, "OTHER").await;
    let long = "x".repeat(EVENTS_BYTES_MAX / 4);
    for _ in 0..4 {
        browser.send(&format!(r#"{{"method":"A.b","params":"{long}","sessionId":"IDLE"}}"#)).await;
        browser.send(r#"{"method":"A.b","params":{},"sessionId":"OTHER"}"#).await;
        next(&mut to_other).await;
    }
    let detach = browser.call().await;
    assert_eq!(detach["params"]["sessionId"], "IDLE");
    assert_eq!(to_idle.next().await, None);
    assert!(!idle.send(r#"{"id":1,"method":"A.b"}"#.into()).await);
}

/// The router answers a call that Chromium would not read; Chromium would close the pipe, and all sessions with it.
#[tokio::test]
async fn too_long_calls_do_not_reach_the_browser() {
    let (pipe, mut browser) = pipe_with_fake_browser();
    let (mut one, mut to_one) = connection(&pipe, &mut browser, "ONE").await;
    let long = format!(r#"{{"id":3,"method":"A.b","params":"{}"}}"#, "x".repeat(64 << 20));
    assert!(one.send(long.into()).await);
    let answer = next(&mut to_one).await;
    assert_eq!(answer["id"], 3);
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("the call is too long"), "{answer}");
    assert!(one.send(r#"{"id":4,"method":"A.b"}"#.into()).await);
    assert_eq!(browser.call().await["id"], 4);
}
