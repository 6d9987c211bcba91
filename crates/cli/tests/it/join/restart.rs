//! A server that is killed while its clients work, and its successor.

use futures_util::future::join_all;
use greenroom_testkit::{Client, eventually, http::HttpMcpClient, text_of};
use serde_json::{Value, json};

use crate::{
    front::fixture::{FakeEngineSetup, NEWEST, failure, retryable, tool_names},
    real::inspect,
};

const NOTE: &str = "session restarted: the greenroom server was restarted";

/// The note of a `get` that must find nothing.
async fn note(client: &Client, session: Option<&str>) -> Option<String> {
    let mut arguments = json!({"key": "k"});
    if let Some(session) = session {
        arguments["sessionId"] = json!(session);
    }
    let text = text_of(&client.call("get", arguments).await);
    assert!(text.starts_with("(unset)"), "{text}");
    text.split_once('\n').map(|(_, note)| note.to_owned())
}

#[track_caller]
fn assert_restart_note(note: Option<&str>) {
    assert!(note.is_some_and(|note| note.starts_with(NOTE)), "{note:?}");
}

/// Returns when a front has noticed the loss of this many servers. Earlier messages would have gone to the dead one, and
/// would be answered with its loss.
async fn until_noticed(front: &Client, servers: usize) {
    let noticed = || front.stderr().matches("looking for the next one").count() >= servers;
    eventually("a front to notice the end of its server", || noticed().then_some(())).await;
}

/// A server is killed with 20 clients: every call in flight gets the error of the loss, or its connection breaks, and none
/// is made twice. The next server sends each front one note about each session that it used, and about no other.
#[tokio::test]
async fn killed_server_notes_each_lost_session_once() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let gate = setup.gate("gate");
    let fronts = join_all((0..10).map(|_| setup.client_with(json!({})))).await;
    let remotes = join_all((0..10).map(|_| HttpMcpClient::open(&server, NEWEST, json!({})))).await;
    let mut calls = Vec::new();
    for (n, front) in fronts.iter().enumerate() {
        let named = format!("front {n}");
        front.call("set", json!({"key": "k", "value": "v", "sessionId": named})).await;
        if n % 2 == 0 {
            front.call("set", json!({"key": "k", "value": "v"})).await;
        }
        calls.push(front.start_call("wait", json!({"file": gate.path(), "sessionId": named})).await);
    }
    let mut wires = Vec::new();
    for (n, http_client) in remotes.iter().enumerate() {
        let arguments = json!({"file": gate.path(), "sessionId": format!("remote {n}")});
        wires.push(http_client.send(&http_client.call_message("wait", arguments)).await);
    }
    gate.arrived(20).await;
    let run = inspect::run_of(&setup.data(), server.pid());
    server.kill().await;
    inspect::all_gone(&run).await;
    for call in calls {
        let answer = call.response().await;
        let (code, text) = failure(&answer);
        assert_eq!((code.as_str(), retryable(&answer)), ("server_lost", false), "{text}");
        assert!(text.contains("whether it took effect is unknown, and it was not repeated"), "{text}");
    }
    // Requests made meanwhile wait for the next server.
    let lists = join_all(fronts.iter().map(|front| front.start("tools/list", Value::Null))).await;
    let next = setup.serve().await;
    for list in lists {
        let list = list.response().await;
        assert!(list["result"]["tools"].is_array(), "{list}");
    }
    for (n, front) in fronts.iter().enumerate() {
        front.next_notification("notifications/tools/list_changed").await;
        let named = format!("front {n}");
        assert_restart_note(note(front, Some(&named)).await.as_deref());
        assert_eq!(note(front, Some(&named)).await, None, "told once");
        assert_eq!(note(front, Some(&format!("fresh {n}"))).await, None, "never used");
        let own = note(front, None).await;
        if n % 2 == 0 {
            assert_restart_note(own.as_deref());
        } else {
            assert_eq!(own, None, "never used");
        }
        assert_eq!(note(front, None).await, None, "told once");
    }
    for http_client in &remotes {
        let mut gone = HttpMcpClient::listen(&http_client.at(&next), None).await;
        assert_eq!(gone.status, 404);
        assert!(gone.body().await.contains("send `initialize` again"));
    }
    let http_client = HttpMcpClient::open(&next, NEWEST, json!({})).await;
    assert_eq!(text_of(&http_client.call("echo", json!({"text": "on"})).await), "on");
    assert_eq!(setup.log().count("tools/call wait"), 20, "none was made twice");
    drop(wires);
}

/// Each front that used a shared session gets a note; none loses what another one began anew.
#[tokio::test]
async fn each_user_of_a_shared_session_gets_a_note() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let first = setup.client_with(json!({})).await;
    let second = setup.client_with(json!({})).await;
    for client in [&first, &second] {
        client.call("set", json!({"key": "k", "value": "v", "sessionId": "s"})).await;
    }
    server.kill().await;
    until_noticed(&first, 1).await;
    until_noticed(&second, 1).await;
    let _next = setup.serve().await;
    assert_restart_note(note(&first, Some("s")).await.as_deref());
    first.call("set", json!({"key": "k", "value": "new", "sessionId": "s"})).await;
    tool_names(&second).await;
    let text = text_of(&second.call("get", json!({"key": "k", "sessionId": "s"})).await);
    assert!(text.starts_with("new") && text.contains(NOTE), "{text}");
    assert_eq!(text_of(&second.call("get", json!({"key": "k", "sessionId": "s"})).await), "new");
}

/// A session that was lost two servers ago still gets its note; a session that its agent has created anew does not.
#[tokio::test]
async fn session_lost_two_servers_ago_gets_its_note() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = setup.client_with(json!({})).await;
    for session in ["s", "t"] {
        client.call("set", json!({"key": "k", "value": "v", "sessionId": session})).await;
    }
    server.kill().await;
    until_noticed(&client, 1).await;
    let next = setup.serve().await;
    tool_names(&client).await;
    next.kill().await;
    until_noticed(&client, 2).await;
    let _last = setup.serve().await;
    assert_restart_note(note(&client, Some("s")).await.as_deref());
    client.call("create_new_session", json!({"sessionId": "t"})).await;
    assert_eq!(note(&client, Some("t")).await, None);
}

/// A server that is stopped in order, and its successor: open questions are withdrawn, new ones have other numbers, and the
/// log level stays.
#[tokio::test]
async fn graceful_restart_withdraws_open_questions() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = setup.client_with(json!({"elicitation": {}})).await;
    client.request("logging/setLevel", json!({"level": "error"})).await;
    let pending = client.start_call("elicit", json!({"message": "which?", "sessionId": "s"})).await;
    let question = client.next_request().await;
    assert!(server.stop().await.success());
    assert_eq!(failure(&pending.response().await).0, "server_lost");
    let called_off = client.next_notification("notifications/cancelled").await;
    assert_eq!(called_off["params"]["requestId"], question.id);
    let _next = setup.serve().await;
    let pending = client.start_call("elicit", json!({"message": "which?", "sessionId": "s"})).await;
    let again = client.next_request().await;
    assert!(again.id.as_u64() > question.id.as_u64(), "{again:?}");
    client.respond(&question.id, json!({"said": "old"})).await;
    client.respond(&again.id, json!({"said": "new"})).await;
    let text = text_of(&pending.response().await);
    assert!(text.contains("new") && text.contains(NOTE), "{text}");
    client.call("log", json!({"level": "info", "data": 1, "sessionId": "s"})).await;
    assert_eq!(client.notifications_left("notifications/message"), 0);
}

/// A client that leaves while there is no server ends its front.
#[tokio::test]
async fn client_exit_without_a_server_ends_the_front() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = setup.client_with(json!({})).await;
    server.kill().await;
    client.wait_for_stderr("looking for the next one").await;
    client.close_stdin().await;
    assert!(client.wait().await.success());
}
