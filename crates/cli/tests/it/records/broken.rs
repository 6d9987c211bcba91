//! A database that is broken, of a later greenroom, or removed: calls go on, and greenroom reports what happened.

use std::fs;

use greenroom_testkit::{TEST_TIMEOUT, within};
use serde_json::json;

use super::database::RecordsDb;
use crate::{
    front::{
        fixture::{FakeEngineSetup, failure},
        recall::ref_id,
    },
    http::http_client,
};

/// Makes a database with one record in it.
async fn with_a_record() -> (FakeEngineSetup, String) {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let id = ref_id(&client.call("echo", json!({"text": "before"})).await);
    client.close_stdin().await;
    assert!(client.wait().await.success());
    (setup, id)
}

/// A broken database is moved aside, byte for byte, and that is reported; calls are recorded in a new one from the first on.
#[tokio::test]
async fn broken_database_is_moved_aside() {
    let (setup, before) = with_a_record().await;
    let path = setup.data().join("records.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..4096].fill(0x5a);
    fs::write(&path, &bytes).unwrap();

    let client = setup.client().await;
    let id = ref_id(&client.call("echo", json!({"text": "after"})).await);
    client
        .wait_for_stderr("the database of records is broken; it was moved aside, and a new one begins")
        .await;
    assert_eq!(RecordsDb::at(&setup.data()).record(&id).unwrap().status.as_deref(), Some("success"));
    let (code, _) = failure(&client.call("get_content", json!({"ref_id": before})).await);
    assert_eq!(code, "no_record");
    let files = setup.data().read_dir().unwrap().flatten();
    let aside: Vec<_> =
        files.filter(|file| file.file_name().to_string_lossy().starts_with("records.db.corrupt-")).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(fs::read(aside[0].path()).unwrap(), bytes, "it is kept as it was");
}

/// A database of a later version is left alone: calls go on without records, with the reason, until it can be used.
#[tokio::test]
async fn newer_database_is_not_changed() {
    let (setup, before) = with_a_record().await;
    let version: i64 = RecordsDb::at(&setup.data()).one("PRAGMA user_version");
    RecordsDb::at(&setup.data()).run("PRAGMA user_version = 99");

    let server = setup.serve().await;
    let client = http_client(&server).await;
    let answer = client.call("echo", json!({"text": "meanwhile"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "meanwhile");
    let note = answer["result"]["content"][1]["text"].as_str().unwrap();
    for part in ["not recorded: ", "newer greenroom", "99"] {
        assert!(note.contains(part), "no `{part}`: {note}");
    }
    assert!(answer["result"].get("_meta").is_none(), "{answer}");
    let readiness = server.get("/ready").await.json().await;
    assert!(readiness["records"].as_str().unwrap().contains("newer greenroom"), "{readiness}");
    let (code, text) = failure(&client.call("get_content", json!({"ref_id": before})).await);
    assert!(code == "records_unreadable" && text.contains("newer greenroom"), "{code}: {text}");
    let db = RecordsDb::at(&setup.data());
    assert_eq!(db.one::<i64>("PRAGMA user_version"), 99, "it was written to");
    assert_eq!(db.one::<i64>("SELECT count(*) FROM requests"), 1);

    db.run(&format!("PRAGMA user_version = {version}"));
    let kept = async {
        loop {
            let answer = client.call("echo", json!({"text": "after"})).await;
            if answer["result"].get("_meta").is_some() {
                return ref_id(&answer);
            }
        }
    };
    let id = within(TEST_TIMEOUT, kept).await;
    for id in [before, id] {
        assert_eq!(db.record(&id).unwrap().status.as_deref(), Some("success"));
    }
}

/// A database that is removed while greenroom runs is created again: no call is written to a deleted file.
#[tokio::test]
async fn removed_database_is_created_again() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    ref_id(&client.call("echo", json!({"text": "before"})).await);
    for file in ["records.db", "records.db-wal", "records.db-shm"] {
        fs::remove_file(setup.data().join(file)).unwrap();
    }
    let ids = [
        ref_id(&client.call("echo", json!({"text": "after"})).await),
        ref_id(&client.call("echo", json!({"text": "later"})).await),
    ];
    let db = RecordsDb::at(&setup.data());
    for id in ids {
        assert_eq!(db.record(&id).unwrap().status.as_deref(), Some("success"));
    }
    let read = client
        .call("get_content", json!({"ref_id": db.one::<String>("SELECT ref_id FROM requests LIMIT 1")}))
        .await;
    assert_eq!(read["result"]["content"][0]["text"], "after", "{read}");
}
