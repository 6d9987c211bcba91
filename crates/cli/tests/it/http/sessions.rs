//! Clients come and go; browsers stay as long as a client may need them.

use greenroom_testkit::{eventually, http::HttpMcpClient, text_of};
use serde_json::json;

use crate::front::fixture::{FakeEngineSetup, NEWEST, failure};

/// A client's DELETE ends the session of its own, and no other; another client finds a named one again.
#[tokio::test]
async fn delete_ends_only_the_unnamed_session() {
    let setup = FakeEngineSetup::new().set("pool.warm", "0");
    let server = setup.serve().await;
    let first = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let second = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    for (client, session, value) in
        [(&first, None, "own"), (&first, Some("named"), "kept"), (&second, None, "second")]
    {
        let mut arguments = json!({"key": "k", "value": value});
        if let Some(session) = session {
            arguments["sessionId"] = json!(session);
        }
        assert_eq!(text_of(&client.call("set", arguments).await), "set");
    }
    assert_eq!(setup.seats().len(), 3);
    assert_eq!(first.delete().await.status, 204);
    eventually("the end of one session", || (setup.seats().len() == 2).then_some(())).await;
    assert_eq!(first.delete().await.status, 404);
    let get = |arguments| second.call("get", arguments);
    assert_eq!(text_of(&get(json!({"key": "k", "sessionId": "named"})).await), "kept");
    assert_eq!(text_of(&get(json!({"key": "k"})).await), "second");
}

/// Two clients have one browser each when they give no `sessionId`, and share the one that they both name.
#[tokio::test]
async fn clients_share_only_named_sessions() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let first = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let second = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    first.call("set", json!({"key": "k", "value": "mine"})).await;
    first.call("set", json!({"key": "k", "value": "ours", "sessionId": "s"})).await;
    assert_eq!(text_of(&second.call("get", json!({"key": "k"})).await), "(unset)");
    assert_eq!(text_of(&second.call("get", json!({"key": "k", "sessionId": "s"})).await), "ours");
    let list = text_of(&second.call("session_list", json!({})).await);
    assert_eq!(list.matches("\"id\"").count(), 2, "its own and the named one: {list}");
}

/// A DELETE ends what is in flight: streams end, and calls are no longer answered.
#[tokio::test]
async fn delete_ends_streams_and_running_calls() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let gate = setup.gate("gate");
    let mut stream = client.listen(None).await;
    let held = client.send(&client.call_message("wait", json!({"file": gate.path()}))).await;
    gate.arrived(1).await;
    assert_eq!(client.delete().await.status, 204);
    assert_eq!(stream.next().await, None);
    let mut answer = held.reply().await;
    // On a busy machine the answer's stream has begun by then. It ends without a message.
    let status = answer.status;
    let body = answer.body().await;
    let has_message = body.lines().any(|line| line.starts_with("data: {"));
    assert!((status == 202 && body.is_empty()) || (answer.is_stream() && !has_message), "{status}: {body}");
    let other = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    assert_eq!(text_of(&other.call("echo", json!({"text": "on"})).await), "on");
}

/// A session whose time is over carries a note, even when its client never had another connection.
#[tokio::test]
async fn expired_session_note_reaches_the_same_client() {
    let setup = FakeEngineSetup::new().set("sessions.idle_timeout", "200ms").set("pool.warm", "0");
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    client.call("set", json!({"key": "k", "value": "v"})).await;
    eventually("the end of the session", || setup.seats().is_empty().then_some(())).await;
    let answer = text_of(&client.call("get", json!({"key": "k"})).await);
    assert!(answer.starts_with("(unset)\nsession restarted: it was closed after 200 ms"), "{answer}");
    let none = client.call("session_close", json!({"sessionId": "nobody"})).await;
    assert_eq!(failure(&none).0, "no_session");
}
