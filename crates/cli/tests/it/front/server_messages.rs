//! An engine's notifications and questions during a call reach the client of that call, and its answers the engine.

use std::fs;

use greenroom_testkit::{Client, text_of};
use serde_json::{Value, json};

use super::fixture::FakeEngineSetup;

/// Progress carries the client's own token, comes in order, and before the answer.
#[tokio::test]
async fn progress_precedes_the_answer_in_order() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for token in [json!(7), json!("seven"), json!(0)] {
        for round in 0..20 {
            let before = client.transcript().len();
            let params =
                json!({"name": "progress", "arguments": {"steps": 50}, "_meta": {"progressToken": token}});
            let answer = client.request("tools/call", params).await;
            assert_eq!(text_of(&answer), "50 steps");
            let lines = client.transcript().split_off(before + 1);
            let notification: Vec<Value> =
                lines.iter().map(|line| serde_json::from_str(&line[4..]).unwrap()).collect();
            assert_eq!(notification.len(), 52, "round {round}: 51 times progress, then the answer");
            for (at, message) in notification.iter().take(51).enumerate() {
                assert_eq!(message["method"], "notifications/progress", "round {round}");
                assert_eq!(message["params"]["progressToken"], token);
                let expected = if at == 0 { json!(0.5) } else { json!(at) };
                assert_eq!(message["params"]["progress"], expected, "round {round}");
            }
        }
    }
    client.call("progress", json!({"steps": 3})).await;
    client.request("ping", Value::Null).await;
    let notification =
        client.transcript().iter().filter(|line| line.contains("notifications/progress")).count();
    assert_eq!(notification, 3 * 20 * 51, "without a token there is none");
}

/// Log messages come as the engine wrote them, and `logging/setLevel` holds back lesser ones in every session.
#[tokio::test]
async fn log_messages_follow_the_level() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("log", json!({"level": "debug", "data": {"n": 1}})).await;
    let notification = client.next_notification("notifications/message").await;
    assert_eq!(
        notification["params"],
        json!({"level": "debug", "logger": "fake", "data": {"n": 1}, "x-unknown": 1.5})
    );
    assert!(client.transcript().iter().any(|line| line.contains(r#""x-unknown":1.50"#)));

    assert_eq!(client.request("logging/setLevel", json!({"level": "error"})).await["result"], json!({}));
    for session in [json!({}), json!({"sessionId": "new"})] {
        for (level, data) in [("warning", "less"), ("alert", "more")] {
            let mut arguments = session.clone();
            arguments["level"] = json!(level);
            arguments["data"] = json!(data);
            client.call("log", arguments).await;
        }
        assert_eq!(client.next_notification("notifications/message").await["params"]["data"], "more");
    }
    assert_eq!(client.notifications_left("notifications/message"), 0);
}

/// An engine without logging never gets a level.
#[tokio::test]
async fn engine_without_logging_gets_no_level() {
    let setup = FakeEngineSetup::new().flags(&["--no-logging"]);
    let client = setup.client().await;
    assert_eq!(client.request("logging/setLevel", json!({"level": "error"})).await["result"], json!({}));
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
    assert_eq!(setup.log().count("logging/setLevel"), 0);
}

/// The engine's questions reach the client unchanged, and the client's raw answer or error reaches the engine.
#[tokio::test]
async fn elicitations_and_answers_pass_unchanged() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let asking = client.start_call("elicit", json!({"message": "who?"})).await;
    let question = client.next_request().await;
    assert_eq!(question.method, "elicitation/create");
    assert_eq!((&question.params["message"], &question.params["x-unknown"]), (&json!("who?"), &json!(1.5)));
    assert!(client.transcript().iter().any(|line| line.contains(r#""x-unknown":1.50"#)));
    let answer = r#"{"action":"accept","content":{"answer":"me","n":1.50},"x-new":[ 1e400 ]}"#;
    client.send_line(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#, question.id)).await;
    assert_eq!(text_of(&asking.response().await), answer);

    let asking = client.start_call("sample", json!({"sessionId": "s"})).await;
    let question = client.next_request().await;
    assert_eq!(
        (question.method.as_str(), &question.params["maxTokens"]),
        ("sampling/createMessage", &json!(16))
    );
    client.respond_error(&question.id, -1, "no model").await;
    let answer = asking.response().await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(text_of(&answer), r#"{"code":-1,"message":"no model"}"#);
}

/// Questions of several sessions at once each get their own answer, though every engine counts its ids from one.
#[tokio::test]
async fn elicitations_of_several_sessions_are_kept_apart() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.on_request("elicitation/create", |params| json!({"action": "accept", "echo": params["message"]}));
    let mut asking = Vec::new();
    for n in 0..4 {
        let arguments = json!({"message": format!("q{n}"), "sessionId": format!("s{n}")});
        asking.push(client.start_call("elicit", arguments).await);
    }
    for (n, asking) in asking.into_iter().enumerate() {
        let expected = format!(r#"{{"action":"accept","echo":"q{n}"}}"#);
        assert_eq!(text_of(&asking.response().await), expected);
    }
}

/// A question that a client cannot answer is refused on its behalf, without asking it.
#[tokio::test]
async fn unsupported_elicitation_is_refused_for_the_client() {
    let setup = FakeEngineSetup::new();
    let client = setup.client_with(json!({})).await;
    for (tool, arguments, method) in [
        ("elicit", json!({"message": "who?"}), "elicitation/create"),
        ("sample", json!({}), "sampling/createMessage"),
    ] {
        let answer = client.call(tool, arguments).await;
        assert_eq!(answer["result"]["isError"], true);
        let error: Value = serde_json::from_str(&text_of(&answer)).unwrap();
        assert_eq!(error, json!({"code": -32_601, "message": format!("`{method}` is not supported")}));
    }
    assert!(!client.transcript().iter().any(|line| line.starts_with("<--") && line.contains("\"method\"")));
}

/// A question that the engine withdraws is withdrawn from the client, and a late answer disturbs nothing.
#[tokio::test]
async fn withdrawn_elicitation_is_withdrawn_from_the_client() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let asking = client.start_call("withdraw", json!({"file": gate.path()})).await;
    let question = client.next_request().await;
    gate.open();
    assert_eq!(text_of(&asking.response().await), "withdrawn");
    let notification = client.next_notification("notifications/cancelled").await;
    assert_eq!(notification["params"]["requestId"], question.id);
    client.respond(&question.id, json!({"action": "accept"})).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "on"})).await), "on");
    assert_eq!(setup.log().count("unknown answer"), 0);
}

/// An engine sees its session's private folder as its only root: never the client's, never another session's, and
/// the folder ends with the session.
#[tokio::test]
async fn engine_sees_only_its_sessions_root() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.on_request("roots/list", |_| json!({"roots": [{"uri": "file:///the/clients/own"}]}));
    let one = root(&client, "one").await;
    let other = root(&client, "other").await;
    assert_ne!(one, other);
    assert_eq!(root(&client, "one").await, one, "it stays the same");
    let written =
        text_of(&client.call("touch", json!({"name": "f", "text": "mine", "sessionId": "one"})).await);
    assert_eq!(fs::read_to_string(&written).unwrap(), "mine");
    assert_eq!(format!("file://{written}"), format!("{one}/f"));
    client.call("session_close", json!({"sessionId": "one"})).await;
    assert!(!fs::exists(&written).unwrap());
    assert_eq!(setup.seats().len(), 1);
}

async fn root(client: &Client, session: &str) -> String {
    let answer = client.call("roots", json!({"sessionId": session})).await;
    let roots: Value = serde_json::from_str(&text_of(&answer)).unwrap();
    assert_eq!(roots["roots"].as_array().unwrap().len(), 1, "{roots}");
    roots["roots"][0]["uri"].as_str().unwrap().to_owned()
}
