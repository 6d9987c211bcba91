//! `greenroom backup`, `restore` and `owners`: while a greenroom runs, and on another folder.

use std::fs;

use serde_json::{Value, json};

use crate::{
    control::run_verb::{VerbOutput, run_verb},
    front::fixture::FakeEngineSetup,
};

fn stderr_of(printed: &VerbOutput, code: i32) -> &str {
    assert_eq!(printed.code, code, "{printed:?}");
    &printed.stderr
}

/// A backup that is made while an agent has a session is restored into an empty folder, where every record is found; a
/// greenroom that runs there is not written over.
#[tokio::test]
async fn a_running_greenroom_is_backed_up_and_restored_elsewhere() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for text in ["one", "two"] {
        client.call("echo", json!({"sessionId": "a", "text": text})).await;
    }
    fs::write(setup.data().join("keys.json"), "{}").unwrap();
    let backup = setup.path("backup");
    let printed = run_verb(&setup, &["backup", backup.to_str().unwrap()]).await;
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(
        printed.stdout.contains("backed up 2 calls") && printed.stdout.contains("keys.json"),
        "{printed:?}"
    );
    assert!(printed.stdout.contains("not in it: installed engines"), "{printed:?}");

    let again = run_verb(&setup, &["backup", backup.to_str().unwrap()]).await;
    assert!(
        stderr_of(&again, 1).contains("exists") && again.stderr.contains("hint: name a folder"),
        "{again:?}"
    );
    let restore = run_verb(&setup, &["restore", backup.to_str().unwrap()]).await;
    assert!(stderr_of(&restore, 1).contains("greenroom runs on"), "{restore:?}");

    let elsewhere = setup.path("elsewhere");
    let to = ["--data-dir", elsewhere.to_str().unwrap()];
    let restored =
        run_verb(&setup, &[&["restore", backup.to_str().unwrap(), "--json"], &to[..]].concat()).await;
    assert_eq!(restored.code, 0, "{restored:?}");
    assert_eq!((&restored.json()["records"], &restored.json()["files"]), (&json!(2), &json!(["keys.json"])));
    assert_eq!(fs::read_to_string(elsewhere.join("keys.json")).unwrap(), "{}");
    let exported = run_verb(&setup, &[&["db", "export"], &to[..]].concat()).await;
    let exported: Vec<Value> =
        exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exported.len(), 2);

    let wrong = run_verb(&setup, &[&["restore", elsewhere.to_str().unwrap()], &to[..]].concat()).await;
    assert!(stderr_of(&wrong, 1).contains("is not a backup"), "{wrong:?}");
    client.close_stdin().await;
    assert!(client.wait().await.success());
}

/// Records move to another owner, or go, when the first owner has no open session; an unknown owner is an error that names
/// the known ones.
#[tokio::test]
async fn records_change_owner_when_no_session_is_open() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "one"})).await;
    let owners = async |arguments: &[&str]| run_verb(&setup, &[&["owners"], arguments].concat()).await;
    let early = owners(&["give", "local", "ann"]).await;
    assert!(stderr_of(&early, 1).contains("\"local\" has 1 open session: \"a\" (pid "), "{early:?}");
    client.close_stdin().await;
    assert!(client.wait().await.success());

    let given = owners(&["give", "local", "ann"]).await;
    assert_eq!(given.stdout, "\"ann\" has 1 call and 1 session of \"local\" now\n", "{given:?}");
    assert_eq!(owners(&["--json"]).await.json(), json!([{"owner": "ann", "records": 1, "sessions": 1}]));
    let unknown = owners(&["delete", "local", "--yes"]).await;
    assert!(stderr_of(&unknown, 1).contains("no records of an owner \"local\""), "{unknown:?}");
    assert!(unknown.stderr.contains("hint: there are records of `ann`"), "{unknown:?}");
    let same = owners(&["give", "ann", "ann"]).await;
    assert!(stderr_of(&same, 2).contains("both owners are \"ann\""), "{same:?}");
    let unasked = owners(&["delete", "ann"]).await;
    assert!(stderr_of(&unasked, 2).contains("nothing was removed"), "{unasked:?}");
    let removed = owners(&["delete", "ann", "--yes"]).await;
    assert_eq!(removed.stdout, "removed 1 call, 1 session and 0 files of \"ann\"\n", "{removed:?}");
    assert_eq!(owners(&["--json"]).await.json(), json!([]));
}
