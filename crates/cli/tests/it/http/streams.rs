//! Messages of a call before its answer: a stream of the call's own, in order, with the answer last.

use greenroom_testkit::{http::HttpMcpClient, text_of};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// Progress comes first and in order, the answer last, each event with an id of its own. The first event says how long to
/// wait after a break.
#[tokio::test]
async fn progress_precedes_the_answer_with_event_ids() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    for revision in ["2025-03-26", "2025-06-18", NEWEST] {
        let client = HttpMcpClient::open(&server, revision, json!({})).await;
        let mut reply = client.post(&client.call_with_progress("progress", json!({"steps": 3}))).await;
        assert!(reply.is_stream());
        let mut events = Vec::new();
        while let Some(event) = reply.event().await {
            events.push(event);
        }
        let retries: Vec<_> = events.iter().map(|event| event.retry.as_deref()).collect();
        assert!(retries[0] == Some("1000") && retries[1..].iter().all(Option::is_none), "{retries:?}");
        if revision == NEWEST {
            let first = events.remove(0);
            assert_eq!((first.id.as_deref(), first.data.as_str()), (Some("1-start"), ""));
        }
        let ids: Vec<_> = events.iter().map(|event| event.id.clone().unwrap()).collect();
        assert_eq!(ids, ["1-0", "1-1", "1-2", "1-3", "1-4"]);
        let steps: Vec<_> =
            events[..4].iter().map(|event| event.message()["params"]["progress"].clone()).collect();
        assert_eq!(steps, [json!(0.5), json!(1), json!(2), json!(3)]);
        assert_eq!(text_of(&events[4].message()), "3 steps");
    }
}

/// The head of a long call's answer comes while the engine still works; the call goes on after the client has left, and the
/// client finds its answer when it comes back.
#[tokio::test]
async fn long_call_continues_after_its_client_leaves() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let gate = setup.gate("gate");
    let mut reply = client.post(&client.call_message("wait", json!({"file": gate.path()}))).await;
    assert!(reply.is_stream());
    let first = reply.event().await.unwrap();
    assert_eq!((first.retry.as_deref(), first.data.as_str()), (Some("1000"), ""));
    drop(reply);
    gate.arrived(1).await;
    gate.open();
    let rest = client.listen(first.id.as_deref()).await.messages().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    text_of(&rest[0]);
    // Older clients accept no event without a message: their first event is the answer.
    let older = HttpMcpClient::open(&server, "2025-06-18", json!({})).await;
    let gate = setup.gate("second");
    let mut reply = older.post(&older.call_message("wait", json!({"file": gate.path()}))).await;
    assert!(reply.is_stream());
    gate.open();
    let answer = reply.event().await.unwrap();
    assert_eq!(answer.retry.as_deref(), Some("1000"));
    text_of(&answer.message());
}

/// A log line comes on the stream of the call that it belongs to.
#[tokio::test]
async fn log_line_comes_on_its_calls_stream() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    client.request("logging/setLevel", json!({"level": "info"})).await;
    let messages =
        client.post(&client.call_message("log", json!({"level": "error", "data": 1}))).await.messages().await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["method"], "notifications/message");
    assert_eq!(text_of(&messages[1]), "logged");
}

/// Questions come on the call's stream, are answered by requests of their own, and the answer follows.
#[tokio::test]
async fn elicitation_comes_on_the_calls_stream() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({"elicitation": {}, "sampling": {}})).await;
    for (tool, arguments, method) in [
        ("elicit", json!({"message": "which?"}), "elicitation/create"),
        ("sample", json!({}), "sampling/createMessage"),
    ] {
        let mut reply = client.post(&client.call_message(tool, arguments)).await;
        let question = reply.message().await;
        assert_eq!(question["method"], method);
        assert_eq!(client.respond(&question["id"], json!({"said": method})).await.status, 202);
        let answer = reply.messages().await;
        assert_eq!(answer.len(), 1, "{answer:?}");
        assert!(text_of(&answer[0]).contains(method), "{answer:?}");
    }
    let answer = client.call("echo", json!({"text": "on"})).await;
    assert_eq!(text_of(&answer), "on");
}

/// A client without the capability is not asked, and its call's answer says so.
#[tokio::test]
async fn client_without_elicitation_is_not_asked() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let mut reply = client.post(&client.call_message("elicit", json!({"message": "which?"}))).await;
    let messages = reply.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(text_of(&messages[0]).contains("elicitation"), "{messages:?}");
}

/// A cancelled call ends its stream without an answer, and the engine's open question is withdrawn.
#[tokio::test]
async fn cancelled_call_ends_its_stream() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({"elicitation": {}})).await;
    let call = client.call_message("elicit", json!({"message": "which?"}));
    let mut reply = client.post(&call).await;
    assert_eq!(reply.message().await["method"], "elicitation/create");
    let params = json!({"requestId": call["id"]});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(client.post(&cancel).await.status, 202);
    let rest = reply.messages().await;
    assert!(rest.iter().all(|message| message.get("result").is_none()), "{rest:?}");
    let mut waiting = client.post(&client.message("ping", Value::Null)).await;
    assert_eq!(waiting.json().await["result"], json!({}));
}

/// A client that accepts no streams gets its answer all the same; one that accepts only streams gets a stream.
#[tokio::test]
async fn accept_header_chooses_json_or_stream() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    for (accept, is_stream) in [("application/json", false), ("text/event-stream", true)] {
        for steps in [
            json!({"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": 1}}),
            json!({"name": "echo", "arguments": {"text": "a"}}),
        ] {
            let headers = [
                ("content-type", "application/json"),
                ("accept", accept),
                ("mcp-session-id", client.session.as_str()),
            ];
            let body = client.message("tools/call", steps).to_string();
            let mut reply = server.connection().await.request("POST", "/mcp", &headers, Some(&body)).await;
            assert_eq!((reply.status, reply.is_stream()), (200, is_stream), "{accept}: {body}");
            text_of(&reply.answer().await);
        }
    }
}
