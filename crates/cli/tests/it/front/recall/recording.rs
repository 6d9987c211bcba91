//! The record of every call, however it ends: its arguments and its outcome.

use greenroom_testkit::{eventually, text_of};
use serde_json::{Value, json};

use super::{
    super::fixture::{FakeEngineSetup, error, failure, pid, until_in_flight},
    read, ref_id,
};
use crate::records::database::{RecordedCall, RecordsDb};

/// The newest record of a tool.
#[track_caller]
fn newest(setup: &FakeEngineSetup, tool: &str) -> RecordedCall {
    let db = RecordsDb::at(&setup.data());
    let id: String = db.one(&format!(
        "SELECT ref_id FROM requests WHERE tool_name = '{tool}' ORDER BY position DESC LIMIT 1"
    ));
    db.record(&id).unwrap()
}

fn records(setup: &FakeEngineSetup) -> i64 {
    RecordsDb::at(&setup.data()).one("SELECT count(*) FROM requests")
}

/// Every call has a `ref_id` in `_meta`, even when it fails; the record holds the engine's whole answer.
#[tokio::test]
async fn every_call_has_a_ref_id_and_a_record() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let mut names = std::collections::BTreeSet::new();
    let calls = [
        ("echo", json!({"text": "a", "rich": true}), "success"),
        ("structured", json!({"n": 1.5}), "success"),
        ("fail", json!({"message": "no luck"}), "error"),
        ("echo", json!({"text": 7}), "error"),
        ("echo", json!({"colour": "red"}), "error"),
    ];
    for (tool, arguments, status) in calls {
        let answer = client.call(tool, arguments.clone()).await;
        let id = ref_id(&answer);
        assert!(names.insert(id.clone()), "{id} was given twice");
        let record = RecordsDb::at(&setup.data()).record(&id).unwrap();
        assert_eq!((record.tool.as_str(), record.status.as_deref()), (tool, Some(status)), "{record:?}");
        assert_eq!(record.params, arguments);
        assert_eq!(record.error.is_some(), status == "error", "{record:?}");
        let first = answer["result"]["content"][0]["text"].as_str().unwrap();
        let (content, _) = read(&client, json!({"ref_id": id})).await;
        assert!(content.starts_with(first), "{content}\n{first}");
    }
    // Unknown members and spellings of an answer are kept; only bytes are stored elsewhere.
    let record = RecordsDb::at(&setup.data()).record(names.first().unwrap()).unwrap().result.unwrap();
    for part in ["\"x-unknown\":{\"kept\":[1e2,12345678901234567890123]}", "\"priority\":0.50", "x-hologram"]
    {
        assert!(record.contains(part), "no `{part}`: {record}");
    }
    assert!(!record.contains("iVBOR"), "{record}");
}

/// A JSON-RPC error, a browser that dies, and one that cannot start: each is recorded with what happened.
#[tokio::test]
async fn failed_calls_are_recorded() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let answer = client.call("rpc_error", json!({"code": -32_000, "message": "broken"})).await;
    assert_eq!(error(&answer).0, -32_000);
    let record = newest(&setup, "rpc_error");
    assert_eq!((record.status.as_deref(), record.error.as_deref()), (Some("error"), Some("broken")));
    assert!(record.result.unwrap().contains("-32000"));

    let answer = client.call("die", json!({"code": 3, "stderr": "final output", "sessionId": "a"})).await;
    let (code, statuses) = failure(&answer);
    assert_eq!(code, "session_lost");
    let record = RecordsDb::at(&setup.data()).record(&ref_id(&answer)).unwrap();
    assert_eq!((record.status.as_deref(), record.error.as_deref()), (Some("error"), Some(statuses.as_str())));

    let setup = FakeEngineSetup::new().script("echo 'no licence found' >&2; exit 3").flags(&[]);
    let client = setup.spawn();
    client.initialize(super::super::fixture::NEWEST, json!({})).await;
    let answer = client.call("echo", json!({"text": "a"})).await;
    // The tools of an engine that never started are unknown, so there is no call to record.
    assert!(answer["result"]["isError"] == true || answer.get("error").is_some(), "{answer}");
}

/// A lease timeout is recorded as a failure, without a session.
#[tokio::test]
async fn lease_timeout_is_recorded() {
    let setup = FakeEngineSetup::new()
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("MAIN_LEASE_TIMEOUT", "100");
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path()})).await;
    gate.arrived(1).await;
    let answer = client.call("echo", json!({"text": "a"})).await;
    let (code, statuses) = failure(&answer);
    assert_eq!(code, "lease_timeout");
    let id = ref_id(&answer);
    let record = RecordsDb::at(&setup.data()).record(&id).unwrap();
    assert_eq!(
        (record.status.as_deref(), record.error.as_deref(), &record.params),
        (Some("error"), Some(statuses.as_str()), &json!({"text": "a"}))
    );
    let session: Option<String> =
        RecordsDb::at(&setup.data()).one(&format!("SELECT session_id FROM requests WHERE ref_id = '{id}'"));
    assert_eq!(session, None);
    gate.open();
    held.response().await;

    let answer = client.call("echo", json!({"text": "a", "browser_pool": "NOWHERE"})).await;
    assert_eq!(failure(&answer).0, "no_such_pool");
    assert_eq!(
        RecordsDb::at(&setup.data()).record(&ref_id(&answer)).unwrap().status.as_deref(),
        Some("error")
    );
}

/// A cancelled call is recorded, whether it ran or waited, and the record says that its client left.
#[tokio::test]
async fn cancelled_call_is_recorded() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    pid(&client, "a").await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let queued = client.start_call("echo", json!({"text": "never", "sessionId": "a"})).await;
    until_in_flight(&client, "a", 2).await;
    client.cancel(queued.id()).await;
    client.cancel(held.id()).await;
    let db = RecordsDb::at(&setup.data());
    let statuses = eventually("the ends of both records", || {
        let statuses: Vec<String> =
            db.all("SELECT tool_name || ': ' || error_message FROM responses JOIN requests USING (ref_id) WHERE status = 'error'");
        (statuses.len() == 2).then_some(statuses)
    })
    .await;
    for tool in ["wait", "echo"] {
        let left = format!("{tool}: its client left before it was answered");
        assert!(statuses.contains(&left), "{statuses:?}");
        assert_eq!(newest(&setup, tool).status.as_deref(), Some("error"));
    }
    gate.open();
    assert_eq!(text_of(&client.call("echo", json!({"text": "b", "sessionId": "a"})).await), "b");
    assert_eq!(setup.log().count("tools/call echo"), 1, "a call that was given up while it waited still ran");
}

/// Of several commands each that ran has a record, and those that did not run have none.
#[tokio::test]
async fn each_command_of_a_bulk_is_recorded() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let bulk = |commands: Value, stop: bool| {
        let arguments = json!({"commands": commands, "stop_on_error": stop, "return_all_results": true, "sessionId": "a"});
        client.call("browser_execute_bulk", arguments)
    };
    let tools = |from: i64| -> Vec<String> {
        RecordsDb::at(&setup.data()).all(&format!(
            "SELECT tool_name || ' ' || status FROM requests JOIN responses USING (ref_id)
             WHERE requests.position > {from} ORDER BY requests.position"
        ))
    };
    let three = json!([
        {"tool": "echo", "args": {"text": "a"}},
        {"tool": "fail", "args": {"message": "no luck"}},
        {"tool": "pid"},
    ]);
    let answer = bulk(three.clone(), true).await;
    assert_eq!(tools(0), ["echo success", "fail error"], "{answer}");
    bulk(three, false).await;
    assert_eq!(tools(2), ["echo success", "fail error", "pid success"]);
    // Each result has the name of its record.
    let answer = bulk(json!([{"tool": "lines", "args": {"count": 3}}]), true).await;
    let id =
        answer["result"]["structuredContent"]["results"][0]["_meta"]["greenroom/ref_id"].as_str().unwrap();
    assert_eq!(read(&client, json!({"ref_id": id})).await.0, "line 1 of 3\nline 2 of 3\nline 3 of 3");
    // A browser dies during the second: its record says lost, the third has none.
    let answer = bulk(json!([{"tool": "pid"}, {"tool": "die"}, {"tool": "echo"}]), false).await;
    assert_eq!(tools(6), ["pid success", "die error"], "{answer}");
    // A mistake in one command means that no command runs, and none is recorded.
    let wrong = json!([{"tool": "pid"}, {"tool": "echo", "args": {"colour": 1}}]);
    failure(&bulk(wrong, true).await);
    assert_eq!(records(&setup), 8);
    let sessions: Vec<Option<String>> = RecordsDb::at(&setup.data()).all("SELECT session_id FROM requests");
    assert!(sessions.iter().all(Option::is_some), "{sessions:?}");
}

/// A picture among the results of several commands is replaced by its blob's name, which is one file.
#[tokio::test]
async fn bulk_picture_is_replaced_by_its_blob_name() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let picture = json!({"tool": "picture", "args": {"number": 3, "bytes": 30_000}});
    let arguments = json!({"commands": [picture, picture], "return_all_results": true});
    let answer = client.call("browser_execute_bulk", arguments).await;
    assert!(!text_of(&answer).contains("iVBOR") && text_of(&answer).len() < 5_000, "{answer}");
    let texts: Vec<_> = (0..2)
        .map(|n| answer["result"]["structuredContent"]["results"][n]["content"][1]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts[0], texts[1]);
    let hash = texts[0]
        .strip_prefix("image/png, 30024 bytes: greenroom://blobs/")
        .unwrap_or_else(|| panic!("{}", texts[0]));
    let file = setup.data().join("blobs").join(&hash[..2]).join(&hash[2..4]).join(hash);
    assert_eq!(std::fs::metadata(file).unwrap().len(), 30_024);
    let alone = client.call("picture", json!({"number": 3, "bytes": 30_000})).await;
    assert_eq!(alone["result"]["content"][1]["type"], "image", "alone it is the picture itself: {alone}");
    assert_eq!(RecordsDb::at(&setup.data()).one::<i64>("SELECT count(*) FROM blobs"), 1);
    assert_eq!(RecordsDb::at(&setup.data()).one::<i64>("SELECT count(*) FROM blob_refs"), 3);
}
