//! Several greenrooms keep their records in one database.

use greenroom_testkit::Client;
use serde_json::{Value, json};

use super::database::RecordsDb;
use crate::{
    front::{
        fixture::{FakeEngineSetup, NEWEST},
        recall::ref_id,
    },
    http::http_client,
};

/// How many calls each process gets.
const CALLS: usize = 150;

/// Makes calls, several at a time, and returns the names of their records.
async fn calls(client: &Client, name: &str) -> Vec<(String, String)> {
    let mut made = Vec::new();
    for batch in 0..CALLS / 10 {
        let mut pending = Vec::new();
        for n in 0..10 {
            let text = format!("{name} {batch} {n}");
            let arguments = json!({"text": text, "sessionId": format!("{name} {}", n % 3)});
            pending.push((text, client.start_call("echo", arguments).await));
        }
        for (text, call) in pending {
            made.push((recorded_ref_id(&call.response().await), text));
        }
    }
    made
}

/// The name of an answer's record; the answer must have no note about it.
#[track_caller]
fn recorded_ref_id(answer: &Value) -> String {
    assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1, "{answer}");
    ref_id(answer)
}

/// A server and two standalone processes write at once: nothing is lost, and none has to wait for the other.
#[tokio::test]
async fn three_processes_share_one_database() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let alone = [0, 1].map(|_| setup.launch(&["mcp", "--standalone"]).spawn());
    for client in &alone {
        client.initialize(NEWEST, json!({})).await;
    }
    let through_server = async {
        let client = http_client(&server).await;
        let mut made = Vec::new();
        for n in 0..CALLS {
            let text = format!("served {n}");
            made.push((
                recorded_ref_id(&client.call("echo", json!({"text": text, "sessionId": "s"})).await),
                text,
            ));
        }
        made
    };
    let (one, two, three) = tokio::join!(calls(&alone[0], "one"), calls(&alone[1], "two"), through_server);
    let made: Vec<_> = [one, two, three].concat();
    let db = RecordsDb::at(&setup.data());
    assert_eq!(db.one::<i64>("SELECT count(*) FROM responses"), made.len() as i64);
    for (id, text) in &made {
        let record = db.record(id).unwrap_or_else(|| panic!("{text} is lost"));
        assert_eq!(record.params["text"], text.as_str());
        assert!(record.result.unwrap().contains(text.as_str()));
    }
    let runs: Vec<String> = db.all("SELECT DISTINCT run FROM sessions WHERE state = 'active'");
    assert_eq!(runs.len(), 3, "the sessions of living processes were closed");

    // One process can read what another keeps, and the cursor is the same for all.
    let id = &made[0].0;
    let read = alone[1].call("get_content", json!({"ref_id": id})).await;
    assert_eq!(read["result"]["content"][0]["text"], made[0].1.as_str(), "{read}");
    let read = http_client(&server).await.call("get_content", json!({"ref_id": id})).await;
    assert_eq!(read["result"]["content"][0]["text"], "", "{read}");
    for stderr in [alone[0].stderr(), alone[1].stderr(), server.stderr()] {
        assert!(!stderr.contains("locked") && !stderr.contains("not recorded"), "{stderr}");
    }
}
