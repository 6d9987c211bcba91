//! Stopping a server in any state.

use greenroom_testkit::{PATIENCE, http::stateless, process::Signal, within};
use serde_json::{Value, json};

use super::{
    pools::{JSON, post},
    remote,
};
use crate::{front::stage::Stage, real::look};

/// The id of the request that this error answers; the error says that the server is stopping.
fn stopped(answer: &Value) -> Value {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("greenroom is stopping"), "{answer}");
    answer["id"].clone()
}

/// Open streams, calls in flight, joined fronts and half a request keep no server from ending, and nothing is left. Each
/// call in flight is answered, over REST and MCP alike.
#[tokio::test]
async fn open_streams_and_calls_block_no_shutdown() {
    // The gate never opens, so waiting for the calls behind it makes no sense.
    let stage = Stage::new().set("server.drain_timeout", "0");
    let server = stage.serve().await;
    let client = remote(&server).await;
    let front = stage.client_with(json!({})).await;
    let gate = stage.gate("gate");
    let mut stream = client.listen(None).await;
    let call = client.call_of("elicit", json!({"message": "?", "sessionId": "e"}));
    let mut asked = client.post(&call).await;
    asked.message().await;
    let waits = client.call_of("wait", json!({"file": gate.path(), "sessionId": "w"}));
    let held = client.send(&waits).await;
    let of_front = front.start_call("wait", json!({"file": gate.path(), "sessionId": "f"})).await;
    let mut half = server.wire().await;
    half.send("POST /mcp HTTP/1.1\r\n").await;
    let listen = stateless(1, "subscriptions/listen", json!({"notifications": {}}), json!({}));
    let mut listening = server.post_stateless(&listen).await;
    listening.message().await;
    let body = json!({"tool": "wait", "session_id": "r", "params": {"file": gate.path()}}).to_string();
    let mut program = server.wire().await;
    program
        .send(format!(
            "POST /api/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    let alone = json!({"name": "wait", "arguments": {"file": gate.path(), "sessionId": "s"}});
    let mut alone = server.post_stateless(&stateless(7, "tools/call", alone, json!({}))).await;
    gate.arrived(4).await;
    let run = look::run_of(&stage.data(), server.pid());
    assert!(server.stop().await.success(), "{}", server.stderr());
    assert!(!run.exists());
    look::all_gone(&run).await;
    assert_eq!(stream.next().await, None);
    // Each call that was cut off has an answer, then its connection ends.
    let said = asked.message().await;
    assert_eq!(stopped(&said), call["id"], "{said}");
    assert_eq!(asked.next().await, None);
    let said = held.reply().await.answer().await;
    assert_eq!(stopped(&said), waits["id"], "{said}");
    let said = alone.answer().await;
    assert_eq!(stopped(&said), json!(7), "{said}");
    let mut cut_off = program.reply().await;
    assert_eq!(cut_off.status, 503);
    let said = cut_off.json().await;
    assert_eq!(said["error"], "stopping", "{said}");
    assert!(said["message"].as_str().unwrap().starts_with("greenroom is stopping"), "{said}");
    let lost = of_front.response().await;
    assert_eq!(lost["result"]["_meta"]["greenroom/error"]["code"], "server_lost", "{lost}");
    front.close_stdin().await;
    assert!(front.wait().await.success());
    assert_eq!(look::runs(&stage.data()), Vec::<std::path::PathBuf>::new());
}

/// A server that is stopped lets running calls end, accepts no more, and then ends.
#[tokio::test]
async fn shutdown_waits_for_running_calls() {
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
async fn second_signal_cuts_running_calls() {
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
    // On a busy machine the answer's stream has begun by then, with status 200.
    assert!(answer.status == 503 || answer.is_stream(), "{}", answer.status);
    stopped(&answer.answer().await);
}
