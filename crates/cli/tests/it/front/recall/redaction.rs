//! Secrets are not recorded: not in arguments, not in answers that repeat them, not in errors.

use greenroom_testkit::text_of;
use serde_json::{Value, json};

use super::{super::fixture::FakeEngineSetup, read, ref_id};
use crate::records::database::{RecordsDb, has_bytes};

const SECRET: &str = "hunter2-\"quoted\"-\u{e4}";

/// Values whose names look like secrets, or that are typed into fields described as such, or that the operator names, are
/// nowhere in the files of the database. The agent's own answer still has them.
#[tokio::test]
async fn secrets_are_not_recorded() {
    let setup = FakeEngineSetup::new().set("records.redact", "[\"iban\"]");
    let client = setup.client().await;
    let secret = |arguments: Value| arguments;
    let calls = [
        ("fill", secret(json!({"element": "Password field", "target": "e3", "text": SECRET}))),
        ("fill", secret(json!({"target": "#user_password", "text": SECRET}))),
        ("fill", secret(json!({"element": "IBAN of the account", "target": "e4", "text": SECRET}))),
        ("echo", secret(json!({"payload": {"deep": [{"apiKey": SECRET}]}}))),
        ("echo", secret(json!({"payload": {"headers": {"Authorization": SECRET}}, "rich": true}))),
        ("echo", secret(json!({"payload": {"My-IBAN": SECRET}}))),
    ];
    let record_of = |id: &str| RecordsDb::at(&setup.data()).record(id).unwrap();
    for (tool, arguments) in calls {
        let answer = client.call(tool, arguments.clone()).await;
        assert!(text_of(&answer).contains("hunter2"), "the agent gets its answer: {answer}");
        let id = ref_id(&answer);
        let record = record_of(&id);
        let params = record.params.to_string();
        let result = record.result.unwrap();
        assert!(params.contains("[redacted]") && !params.contains("hunter2"), "{arguments}: {params}");
        assert!(result.contains("[redacted]") && !result.contains("hunter2"), "{arguments}: {result}");
        let (content, _) = read(&client, json!({"ref_id": id})).await;
        assert!(!content.contains("hunter2"), "{content}");
    }
    // Failed calls are redacted too, and so are greenroom's own errors about them.
    let wrong = json!({"element": "Password field", "target": "e3", "text": SECRET, "colour": SECRET});
    let record = record_of(&ref_id(&client.call("fill", wrong).await));
    assert_eq!(record.status.as_deref(), Some("error"));
    assert!(!format!("{record:?}").contains("hunter2"), "{record:?}");

    let plain = json!({"element": "Name", "target": "e3", "text": "Ann"});
    assert_eq!(
        record_of(&ref_id(&client.call("fill", plain.clone()).await)).params,
        plain,
        "nothing is hidden for nothing"
    );

    client.close_stdin().await;
    client.wait().await;
    assert_eq!(has_bytes(&setup.data(), b"hunter2"), None, "a secret is in a file");
}

/// Secrets of one command of several are not recorded either.
#[tokio::test]
async fn secrets_of_bulk_commands_are_not_recorded() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let commands = json!([
        {"tool": "echo", "args": {"text": "first"}},
        {"tool": "fill", "args": {"element": "Password", "target": "e1", "text": SECRET}, "return_result": true},
    ]);
    let answer = client.call("browser_execute_bulk", json!({"commands": commands})).await;
    assert!(text_of(&answer).contains("hunter2"));
    let db = RecordsDb::at(&setup.data());
    let texts: Vec<String> =
        db.all("SELECT q.params || r.result FROM requests q JOIN responses r USING (ref_id)");
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains("hunter2")), "{texts:?}");
}
