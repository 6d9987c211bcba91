//! greenroom's own tools: listing sessions, making one, closing one.

use greenroom_testkit::{process::alive, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, failure, pid, pid_of, sessions};

/// `session_list` shows each session with all its fields, busy or idle, oldest first.
#[tokio::test]
async fn session_list_shows_every_field() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    assert_eq!(sessions(&client).await, Vec::<Value>::new());
    client.call("pid", json!({})).await;
    pid(&client, "idle").await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "busy"})).await;
    gate.arrived(1).await;
    let queued = client.start_call("pid", json!({"sessionId": "busy"})).await;
    pid(&client, "idle").await;

    let list = sessions(&client).await;
    let [own, idle, busy] = &list[..] else { panic!("three sessions: {list:?}") };
    let fields: Vec<&String> = idle.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "id",
            "pool",
            "instance",
            "state",
            "url",
            "title",
            "created",
            "lastUsed",
            "callsInFlight",
            "expiresInSeconds"
        ]
    );
    assert_eq!((&own["id"], &own["state"]), (&Value::Null, &json!("idle")));
    assert_eq!(own["note"], "used by calls without sessionId on this connection");
    assert_eq!(
        (&idle["id"], &idle["state"], &idle["callsInFlight"]),
        (&json!("idle"), &json!("idle"), &json!(0))
    );
    assert_eq!((&idle["pool"], &idle["instance"]), (&json!("DEFAULT"), &own["instance"]));
    let left = idle["expiresInSeconds"].as_u64().unwrap();
    assert!((200..=300).contains(&left), "{left}");
    assert_eq!((&busy["state"], &busy["callsInFlight"]), (&json!("busy"), &json!(2)));
    assert_eq!(busy["expiresInSeconds"], Value::Null, "it cannot expire during a call");
    for time in [&idle["created"], &idle["lastUsed"]] {
        let time = time.as_str().unwrap();
        assert!(time.len() == 20 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
    assert!(idle["created"].as_str() <= idle["lastUsed"].as_str());
    gate.open();
    held.response().await;
    queued.response().await;
}

/// `session_close` returns when process and folder are gone; the id is free, and the next session gets no note.
#[tokio::test]
async fn session_close_removes_process_and_folder() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    assert_eq!(setup.seats().len(), 1);
    assert_eq!(text_of(&client.call("session_close", json!({"sessionId": "a"})).await), "session closed");
    assert!(!alive(process));
    assert_eq!(setup.seats().len(), 0);
    let (code, text) = failure(&client.call("session_close", json!({"sessionId": "a"})).await);
    assert_eq!(
        (code.as_str(), text.as_str()),
        (
            "no_session",
            "no such session: \"a\"\n\nhint: session_list, or `greenroom sessions` in a shell, shows what there is"
        )
    );
    let again = client.call("pid", json!({"sessionId": "a"})).await;
    assert_eq!(text_of(&again), pid_of(&again).to_string(), "asked for, so nothing to remark");

    let (code, text) = failure(&client.call("session_close", json!({})).await);
    assert_eq!(code, "no_session");
    assert!(text.starts_with("this connection has no session yet"), "{text}");
    let own = pid_of(&client.call("pid", json!({})).await);
    assert_eq!(text_of(&client.call("session_close", json!({})).await), "session closed");
    assert!(!alive(own));
}

/// A call in flight when its session is closed gets that error; the next call has a new session.
#[tokio::test]
async fn session_close_fails_the_running_call() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let queued = client.start_call("pid", json!({"sessionId": "a"})).await;
    client.call("session_close", json!({"sessionId": "a"})).await;
    for call in [held, queued] {
        let (code, text) = failure(&call.response().await);
        assert_eq!(code, "session_closed");
        assert!(text.contains("a call with the same sessionId starts a new session"), "{text}");
    }
    pid(&client, "a").await;
}

/// `create_new_session` opens a browser under an id of its own or of the agent's; an id in use is refused. Its UUID finds
/// it too, before and after its first call, and finds nothing after it is closed.
#[tokio::test]
async fn create_new_session_opens_a_browser() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let made: Value =
        serde_json::from_str(&text_of(&client.call("create_new_session", json!({})).await)).unwrap();
    let id = made["sessionId"].as_str().unwrap();
    assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(setup.log().count("initialize"), 1, "its browser is there already, and no list was asked for");
    assert_eq!(sessions(&client).await[0]["id"], id);

    let made: Value = serde_json::from_str(&text_of(
        &client.call("create_new_session", json!({"sessionId": "mine"})).await,
    ))
    .unwrap();
    assert_eq!(made["sessionId"], "mine");
    let uid = made["session_id"].as_str().unwrap();
    assert!(uuid::Uuid::try_parse(uid).is_ok_and(|uid| uid.get_version_num() == 4), "{made}");
    let process = pid(&client, uid).await;
    assert_eq!(pid(&client, "mine").await, process);
    let (code, _) = failure(&client.call("create_new_session", json!({"sessionId": uid})).await);
    assert_eq!(code, "session_exists");
    let (code, text) = failure(&client.call("create_new_session", json!({"sessionId": "mine"})).await);
    assert_eq!(code, "session_exists");
    assert_eq!(
        text,
        "the session exists already: \"mine\"\n\nhint: use it, close it with session_close, or choose another id"
    );
    assert_eq!(pid(&client, "mine").await, process);
    assert_eq!(sessions(&client).await.len(), 2);

    // It has a row of its own in the records, though no call has named it.
    let made: Value = serde_json::from_str(&text_of(
        &client.call("create_new_session", json!({"sessionId": "quiet"})).await,
    ))
    .unwrap();
    let uid = made["session_id"].as_str().unwrap();
    assert_eq!(text_of(&client.call("session_close", json!({"sessionId": uid})).await), "session closed");
    let (code, text) = failure(&client.call("pid", json!({"sessionId": uid})).await);
    assert_eq!(code, "session_over");
    assert!(text.contains("it is closed") && text.contains("opens a new browser: `quiet`"), "{text}");
    assert_eq!(sessions(&client).await.len(), 2);
}

/// The UUID of a connection's own session finds it from that connection only.
#[tokio::test]
async fn unnamed_session_uuid_works_on_its_connection_only() {
    let setup = FakeEngineSetup::new().set("responses", "refs");
    let server = setup.serve().await;
    let one = crate::http::http_client(&server).await;
    let other = crate::http::http_client(&server).await;
    let uid = |answer: &Value| -> Value {
        let parsed: Value = serde_json::from_str(&text_of(answer)).unwrap();
        assert!(parsed["metadata"].get("session").is_none(), "{parsed}");
        parsed["session_id"].clone()
    };
    let own = uid(&one.call("pid", json!({})).await);
    assert_eq!(uid(&one.call("pid", json!({"sessionId": own})).await), own);
    let (code, text) = failure(&other.call("pid", json!({"sessionId": own})).await);
    assert_eq!(code, "session_over");
    assert!(text.contains("it is a connection's own"), "{text}");
}

/// With `tools.profile = "core"` `more_tools` names the tools that are not listed, describes any tool, and runs it in the
/// session that the call names. The list of an engine whose core is not known stays whole.
#[tokio::test]
async fn core_profile_lists_few_tools_and_runs_the_others() {
    let setup = FakeEngineSetup::new().set("tools.profile", "core");
    let client = setup.client().await;
    let listed = client.request("tools/list", json!({})).await;
    let names: Vec<_> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in ["echo", "more_tools", "session_close", "get_content"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!names.contains(&"session_list") && !names.contains(&"browser_execute_bulk"), "{names:?}");
    let others = text_of(&client.call("more_tools", json!({})).await);
    for name in ["browser_execute_bulk: ", "session_list: "] {
        assert!(others.lines().any(|line| line.starts_with(name)), "{name}: {others}");
    }
    let described = text_of(&client.call("more_tools", json!({"tool": "echo"})).await);
    assert!(described.contains("\"name\":\"echo\"") && described.contains("inputSchema"), "{described}");
    let set = json!({"tool": "set", "arguments": {"key": "k", "value": "v"}, "sessionId": "a"});
    client.call("more_tools", set).await;
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "v");
    let unknown = client.call("more_tools", json!({"tool": "ecko"})).await;
    assert_eq!(unknown["result"]["isError"], true, "{unknown}");
    assert!(text_of(&unknown).contains("hint: did you mean \"echo\"?"), "{unknown}");
    let sessions =
        text_of(&client.call("more_tools", json!({"tool": "session_list", "arguments": {}})).await);
    assert!(sessions.contains("\"a\""), "{sessions}");
}
