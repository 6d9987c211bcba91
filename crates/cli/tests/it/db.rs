//! `greenroom db`: maintenance of the records.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, SystemTime},
};

use greenroom_core::{
    Owner, Records as _, RefId, SessionUid, raw,
    record::{ConsoleLine, Level, Request, Response, SessionRef, Status},
};
use greenroom_store::{Store, StoreSettings};
use insta::assert_snapshot;
use serde_json::Value;

use crate::run::Place;

/// The first moment of 2026, a long time ago for `records.max_age`.
const THEN: Duration = Duration::from_secs(1_767_225_600);

fn place() -> Place {
    let place = Place::new();
    let data = place.real("home/data").display().to_string();
    place.env("GREENROOM_DATA_DIR", &data)
}

fn open(place: &Place) -> Store {
    Store::open(StoreSettings {
        folder: place.real("home/data"),
        run: "test".to_owned(),
        living: Vec::new(),
        began: SystemTime::now(),
        // Nothing is removed automatically here.
        max_age: Duration::from_secs(100 * 365 * 24 * 3600),
        bytes_max: 1 << 30,
        blobs_ttl: Duration::from_secs(24 * 3600),
        blobs_bytes_max: 1 << 30,
        blobs_per_pool: false,
    })
}

/// Records are where the setting says, and every verb looks for them there.
#[tokio::test]
async fn records_folder_setting_is_used_by_every_verb() {
    let stage = crate::front::stage::Stage::new();
    let folder = stage.path("elsewhere");
    let stage = stage.set("records.dir", folder.to_str().unwrap());
    let client = stage.client().await;
    client.call("echo", serde_json::json!({"sessionId": "a", "text": "a"})).await;
    assert!(folder.join("records.db").exists() && !stage.data().join("records.db").exists());
    client.close_stdin().await;
    assert!(client.wait().await.success());
    for verb in [&["db", "stats"][..], &["db", "export"], &["logs", "--session", "a"]] {
        let arguments = [verb, &["--records-dir", folder.to_str().unwrap()]].concat();
        let said = crate::control::ask::ask(&stage, &arguments).await;
        assert!(said.code == 0 && !said.stdout.is_empty() && said.stderr.is_empty(), "{verb:?}: {said:?}");
    }
}

/// A record that is the same every time: this many seconds after `from`.
async fn write(store: &Store, owner: &str, session: &str, from: SystemTime, second: u8) {
    let at = from + Duration::from_secs(second.into());
    let uid = SessionUid::new(SystemTime::UNIX_EPOCH, [owner.as_bytes()[0] ^ session.as_bytes()[0]; 16]);
    let session = SessionRef { uid, name: Arc::from(session), pool: Arc::from("DEFAULT") };
    let request = Request {
        ref_id: RefId::new(at, [second; 16]),
        owner: Owner::new(owner),
        session: Some(session.clone()),
        tool: Arc::from("browser_click"),
        params: raw::parse(r#"{"target":"e7"}"#.to_owned()).unwrap(),
        at,
    };
    let response = Response {
        ref_id: request.ref_id.clone(),
        session: Some(session),
        status: Status::Success,
        result: Arc::from(r#"{"content":[]}"#),
        snapshot: Some("- button\n".repeat(1000).into()),
        console: vec![ConsoleLine { level: Level::Warn, message: "hm".to_owned(), at: None, location: None }],
        error: None,
        blobs: Vec::new(),
        url: Some("http://tea.test/".to_owned()),
        title: Some("Tea".to_owned()),
        at: at + Duration::from_millis(7),
        took: Duration::from_millis(7),
    };
    store.begin(request).await.unwrap();
    store.end(response).await.unwrap();
}

/// Three old calls.
async fn written(place: &Place) {
    let store = open(place);
    let then = SystemTime::UNIX_EPOCH + THEN;
    write(&store, "local", "shop", then, 1).await;
    write(&store, "local", "blog", then, 2).await;
    write(&store, "robot", "shop", then, 3).await;
    store.close().await;
}

/// Where nothing was ever recorded, the output says so, and no file is made.
#[test]
fn verbs_without_records_create_no_file() {
    let place = place();
    assert_snapshot!(place.run(&["db", "stats"]));
    assert_eq!(place.run(&["db", "vacuum"]), place.run(&["db", "stats"]));
    assert_eq!(place.run(&["db", "export"]), place.run(&["db", "stats"]));
    assert!(place.run(&["db", "stats", "--json"]).contains("----- stdout -----\nnull\n"));
    assert!(!place.real("home/data/records.db").exists());
}

/// The figures show how much is kept, of which owners and since when.
#[tokio::test]
async fn stats_count_records_by_owner_and_age() {
    let place = place();
    written(&place).await;
    insta::with_settings!({filters => vec![(r"\d+\.\d [KM]iB", "[SIZE]")]}, {
        assert_snapshot!(place.run(&["db", "stats"]));
    });
    let json = stdout(&place, &["db", "stats", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["rows"]["requests"], &json["owners"][0]["records"]), (&3.into(), &2.into()));
}

/// Old records are removed, and the output says how much that freed.
#[tokio::test]
async fn vacuum_removes_old_records() {
    let place = place();
    written(&place).await;
    let store = open(&place);
    write(&store, "local", "shop", SystemTime::now(), 9).await;
    store.close().await;
    insta::with_settings!({filters => vec![(r"\d+\.\d [KM]iB", "[SIZE]")]}, {
        assert_snapshot!(place.run(&["db", "vacuum"]));
    });
    let json = stdout(&place, &["db", "stats", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"]["requests"], 1);
}

/// Every record is a line, all or those of a session; an unknown session is an error with a hint.
#[tokio::test]
async fn export_writes_one_line_per_record() {
    let place = place();
    written(&place).await;
    let lines: Vec<Value> =
        stdout(&place, &["db", "export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    insta::with_settings!({filters => vec![(r"(- button\\n){1000}", "[SNAPSHOT]")]}, {
        assert_snapshot!("export_one", serde_json::to_string_pretty(&lines[0]).unwrap());
    });
    let count = |arguments: &[&str]| stdout(&place, arguments).lines().count();
    assert_eq!(count(&["db", "export", "--session", "shop"]), 2);
    assert_eq!(count(&["db", "export", "--since", "24h"]), 0);
    assert_eq!(count(&["db", "export", "--format", "jsonl"]), 3);
    assert_snapshot!("export_no_session", place.run(&["db", "export", "--session", "nobody"]));
    assert_snapshot!("export_bad_since", place.run(&["db", "export", "--since", "yesterday"]));
}

/// A reader that closes the pipe ends the export, and that is no failure.
#[tokio::test]
async fn export_to_a_closed_pipe_is_no_failure() {
    let place = place();
    let store = open(&place);
    for second in 0..200 {
        write(&store, "local", "shop", SystemTime::now(), second).await;
    }
    store.close().await;
    let binary = Path::new(env!("CARGO_BIN_EXE_greenroom"));
    let mut child = place
        .command(binary, "cwd", &["db", "export"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    // A megabyte and more: far beyond what a pipe holds.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with('{') && first.ends_with("}\n"));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

/// A database of a newer greenroom is left alone, and the error has a hint.
#[tokio::test]
async fn newer_database_is_not_changed() {
    let place = place();
    written(&place).await;
    // The header has the version at byte 60.
    let path = place.real("home/data/records.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert_snapshot!(place.run(&["db", "stats"]));
    assert_eq!(place.run(&["db", "vacuum"]), place.run(&["db", "stats"]));
    assert!(std::fs::read(&path).unwrap() == bytes, "nothing is written to it");
}

fn stdout(place: &Place, arguments: &[&str]) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_greenroom"));
    let output = place.command(binary, "cwd", arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
