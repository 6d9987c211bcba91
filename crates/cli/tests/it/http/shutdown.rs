//! Stopping a server in any state.

use greenroom_testkit::{PATIENCE, http::stateless, process::Signal, within};
use serde_json::json;

use super::{
    pools::{JSON, post},
    remote,
};
use crate::{front::stage::Stage, real::look};

/// Open streams, calls in flight, joined fronts and half a request keep no server from ending, and nothing is left.
#[tokio::test]
async fn everything_at_once() {
    // The gate never opens, so waiting for the calls behind it makes no sense.
    let stage = Stage::new().set("server.drain_timeout", "0");
    let server = stage.serve().await;
    let client = remote(&server).await;
    let front = stage.client_with(json!({})).await;
    let gate = stage.gate("gate");
    let mut stream = client.listen(None).await;
    let mut asked = client.post(&client.call_of("elicit", json!({"message": "?", "sessionId": "e"}))).await;
    asked.message().await;
    let held = client.send(&client.call_of("wait", json!({"file": gate.path(), "sessionId": "w"}))).await;
    let of_front = front.start_call("wait", json!({"file": gate.path(), "sessionId": "f"})).await;
    let mut half = server.wire().await;
    half.send("POST /mcp HTTP/1.1\r\n").await;
    let listen = stateless(1, "subscriptions/listen", json!({"notifications": {}}), json!({}));
    let mut listening = server.post_stateless(&listen).await;
    listening.message().await;
    gate.arrived(2).await;
    let run = look::run_of(&stage.data(), server.pid());
    assert!(server.stop().await.success(), "{}", server.stderr());
    assert!(!run.exists());
    look::all_gone(&run).await;
    assert_eq!((stream.next().await, asked.next().await), (None, None));
    let mut refused = held.reply().await;
    assert_eq!(refused.status, 503);
    let said = refused.json().await;
    assert!(said["error"]["message"].as_str().unwrap().contains("stopping"), "{said}");
    let lost = of_front.response().await;
    assert_eq!(lost["result"]["_meta"]["greenroom/error"]["code"], "server_lost", "{lost}");
    front.close_stdin().await;
    assert!(front.wait().await.success());
    assert_eq!(look::runs(&stage.data()), Vec::<std::path::PathBuf>::new());
}

/// A server that is stopped lets running calls end, accepts no more, and then ends.
#[tokio::test]
async fn running_calls_come_to_their_end() {
    let stage = Stage::new().set("server.drain_timeout", "1h");
    let server = stage.serve().await;
    let (client, other) = (remote(&server).await, remote(&server).await);
    let gate = stage.gate("gate");
    let held = client.send(&client.call_of("wait", json!({"file": gate.path()}))).await;
    gate.arrived(1).await;
    server.signal(Signal::TERM);
    // Its refusal shows that it has received the signal.
    let refused = within(PATIENCE, async {
        loop {
            let said = other.call("echo", json!({"text": "late", "sessionId": "new"})).await;
            if said["result"]["isError"] == json!(true) {
                return said;
            }
        }
    });
    assert_eq!(refused.await["result"]["_meta"]["greenroom/error"]["code"], "shutting_down");
    let (status, said) = post(&server, "/api/calls", &[JSON], r#"{"tool":"pid","session_id":"new"}"#).await;
    assert_eq!((status, &said["error"]), (503, &json!("shutting_down")), "{said}");
    gate.open();
    assert_eq!(held.reply().await.status, 200);
    assert!(server.wait().await.success());
}

/// A second signal means not to wait: running calls are cut off.
#[tokio::test]
async fn asked_twice() {
    let stage = Stage::new().set("server.drain_timeout", "1h").set("log", "info");
    let server = stage.serve().await;
    let client = remote(&server).await;
    let gate = stage.gate("gate");
    let held = client.send(&client.call_of("wait", json!({"file": gate.path()}))).await;
    gate.arrived(1).await;
    server.signal(Signal::TERM);
    server.signal(Signal::INT);
    assert!(server.wait().await.success());
    let mut answer = held.reply().await;
    // On a busy machine the answer's stream has begun by then. It is cut off without the call's result.
    let (status, body) = (answer.status, answer.body().await);
    assert!(status == 503 || (answer.is_stream() && !body.contains("\"content\"")), "{status}: {body}");
}
