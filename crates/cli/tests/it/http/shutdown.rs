//! Stopping a server in any state.

use greenroom_testkit::{TEST_TIMEOUT, http::stateless, process::Signal, within};
use serde_json::{Value, json};

use super::{
    http_client,
    pools::{JSON, post},
};
use crate::{front::fixture::FakeEngineSetup, real::inspect};

/// The id of the request that this error answers; the error says that the server is stopping.
fn id_of_stopping_error(answer: &Value) -> Value {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("greenroom is stopping"), "{answer}");
    answer["id"].clone()
}

/// Open streams, calls in flight, joined fronts and half a request keep no server from ending, and nothing is left. Each
/// call in flight is answered, over REST and MCP alike.
#[tokio::test]
async fn open_streams_and_calls_block_no_shutdown() {
    // The gate never opens, so waiting for the calls behind it makes no sense.
    let setup = FakeEngineSetup::new().set("server.drain_timeout", "0");
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let front = setup.client_with(json!({})).await;
    let gate = setup.gate("gate");
    let mut stream = client.listen(None).await;
    let call = client.call_message("elicit", json!({"message": "?", "sessionId": "e"}));
    let mut question = client.post(&call).await;
    question.message().await;
    let waits = client.call_message("wait", json!({"file": gate.path(), "sessionId": "w"}));
    let held = client.send(&waits).await;
    let of_front = front.start_call("wait", json!({"file": gate.path(), "sessionId": "f"})).await;
    let mut half = server.connection().await;
    half.send("POST /mcp HTTP/1.1\r\n").await;
    let listen = stateless(1, "subscriptions/listen", json!({"notifications": {}}), json!({}));
    let mut listening = server.post_stateless(&listen).await;
    listening.message().await;
    let body = json!({"tool": "wait", "session_id": "r", "params": {"file": gate.path()}}).to_string();
    let mut program = server.connection().await;
    program
        .send(format!(
            "POST /api/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    let alone = json!({"name": "wait", "arguments": {"file": gate.path(), "sessionId": "s"}});
    let mut alone = server.post_stateless(&stateless(7, "tools/call", alone, json!({}))).await;
    gate.arrived(4).await;
    let run = inspect::run_of(&setup.data(), server.pid());
    assert!(server.stop().await.success(), "{}", server.stderr());
    assert!(!run.exists());
    inspect::all_gone(&run).await;
    assert_eq!(stream.next().await, None);
    // Each call that was cut off has an answer, then its connection ends.
    let response = question.message().await;
    assert_eq!(id_of_stopping_error(&response), call["id"], "{response}");
    assert_eq!(question.next().await, None);
    let response = held.reply().await.answer().await;
    assert_eq!(id_of_stopping_error(&response), waits["id"], "{response}");
    let response = alone.answer().await;
    assert_eq!(id_of_stopping_error(&response), json!(7), "{response}");
    let mut cut_off = program.reply().await;
    assert_eq!(cut_off.status, 503);
    let response = cut_off.json().await;
    assert_eq!(response["error"], "stopping", "{response}");
    assert!(response["message"].as_str().unwrap().starts_with("greenroom is stopping"), "{response}");
    let lost = of_front.response().await;
    assert_eq!(lost["result"]["_meta"]["greenroom/error"]["code"], "server_lost", "{lost}");
    front.close_stdin().await;
    assert!(front.wait().await.success());
    assert_eq!(inspect::runs(&setup.data()), Vec::<std::path::PathBuf>::new());
}

/// A server that is stopped lets running calls end, accepts no more, and then ends.
#[tokio::test]
async fn shutdown_waits_for_running_calls() {
    let setup = FakeEngineSetup::new().set("server.drain_timeout", "1h");
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let other = http_client(&server).await;
    let gate = setup.gate("gate");
    let held = client.send(&client.call_message("wait", json!({"file": gate.path()}))).await;
    gate.arrived(1).await;
    server.signal(Signal::TERM);
    // Its refusal shows that it has received the signal.
    let refused = within(TEST_TIMEOUT, async {
        loop {
            let response = other.call("echo", json!({"text": "late", "sessionId": "new"})).await;
            if response["result"]["isError"] == json!(true) {
                return response;
            }
        }
    });
    assert_eq!(refused.await["result"]["_meta"]["greenroom/error"]["code"], "shutting_down");
    let (status, response) =
        post(&server, "/api/calls", &[JSON], r#"{"tool":"pid","session_id":"new"}"#).await;
    assert_eq!((status, &response["error"]), (503, &json!("shutting_down")), "{response}");
    gate.open();
    assert_eq!(held.reply().await.status, 200);
    assert!(server.wait().await.success());
}

/// A second signal means not to wait: running calls are cut off.
#[tokio::test]
async fn second_signal_cuts_running_calls() {
    let setup = FakeEngineSetup::new().set("server.drain_timeout", "1h").set("log", "info");
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let gate = setup.gate("gate");
    let held = client.send(&client.call_message("wait", json!({"file": gate.path()}))).await;
    gate.arrived(1).await;
    server.signal(Signal::TERM);
    server.signal(Signal::INT);
    assert!(server.wait().await.success());
    let mut answer = held.reply().await;
    // On a busy machine the answer's stream has begun by then, with status 200.
    assert!(answer.status == 503 || answer.is_stream(), "{}", answer.status);
    id_of_stopping_error(&answer.answer().await);
}
