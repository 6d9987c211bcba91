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

use crate::cli_fixture::CliFixture;

/// The first moment of 2026, a long time ago for `records.max_age`.
const THEN: Duration = Duration::from_secs(1_767_225_600);

fn fixture() -> CliFixture {
    let fixture = CliFixture::new();
    let data = fixture.real("home/data").display().to_string();
    fixture.env("GREENROOM_DATA_DIR", &data)
}

fn open(fixture: &CliFixture) -> Store {
    Store::open(StoreSettings {
        folder: fixture.real("home/data"),
        process_tag: "test".to_owned(),
        running_tags: Vec::new(),
        processes_listed_after: SystemTime::now(),
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
    let setup = crate::front::fixture::FakeEngineSetup::new();
    let folder = setup.path("elsewhere");
    let setup = setup.set("records.dir", folder.to_str().unwrap());
    let client = setup.client().await;
    client.call("echo", serde_json::json!({"sessionId": "a", "text": "a"})).await;
    assert!(folder.join("records.db").exists() && !setup.data().join("records.db").exists());
    client.close_stdin().await;
    assert!(client.wait().await.success());
    for run_verb_in in [&["db", "stats"][..], &["db", "export"], &["logs", "--session", "a"]] {
        let arguments = [run_verb_in, &["--records-dir", folder.to_str().unwrap()]].concat();
        let printed = crate::control::run_verb::run_verb(&setup, &arguments).await;
        assert!(
            printed.code == 0 && !printed.stdout.is_empty() && printed.stderr.is_empty(),
            "{run_verb_in:?}: {printed:?}"
        );
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
async fn written(fixture: &CliFixture) {
    let store = open(fixture);
    let then = SystemTime::UNIX_EPOCH + THEN;
    write(&store, "local", "shop", then, 1).await;
    write(&store, "local", "blog", then, 2).await;
    write(&store, "robot", "shop", then, 3).await;
    store.close().await;
}

/// Where nothing was ever recorded, the output says so, and no file is made.
#[test]
fn verbs_without_records_create_no_file() {
    let fixture = fixture();
    assert_snapshot!(fixture.run(&["db", "stats"]));
    assert_eq!(fixture.run(&["db", "vacuum"]), fixture.run(&["db", "stats"]));
    assert_eq!(fixture.run(&["db", "export"]), fixture.run(&["db", "stats"]));
    assert!(fixture.run(&["db", "stats", "--json"]).contains("----- stdout -----\nnull\n"));
    assert!(!fixture.real("home/data/records.db").exists());
}

/// The figures show how much is kept, of which owners and since when.
#[tokio::test]
async fn stats_count_records_by_owner_and_age() {
    let fixture = fixture();
    written(&fixture).await;
    insta::with_settings!({filters => vec![(r"\d+\.\d [KM]iB", "[SIZE]")]}, {
        assert_snapshot!(fixture.run(&["db", "stats"]));
    });
    let json = stdout(&fixture, &["db", "stats", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["rows"]["requests"], &json["owners"][0]["records"]), (&3.into(), &2.into()));
}

/// Old records are removed, and the output says how much that freed.
#[tokio::test]
async fn vacuum_removes_old_records() {
    let fixture = fixture();
    written(&fixture).await;
    let store = open(&fixture);
    write(&store, "local", "shop", SystemTime::now(), 9).await;
    store.close().await;
    insta::with_settings!({filters => vec![(r"\d+\.\d [KM]iB", "[SIZE]")]}, {
        assert_snapshot!(fixture.run(&["db", "vacuum"]));
    });
    let json = stdout(&fixture, &["db", "stats", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"]["requests"], 1);
}

/// Every record is a line, all or those of a session; an unknown session is an error with a hint.
#[tokio::test]
async fn export_writes_one_line_per_record() {
    let fixture = fixture();
    written(&fixture).await;
    let lines: Vec<Value> =
        stdout(&fixture, &["db", "export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    insta::with_settings!({filters => vec![(r"(- button\\n){1000}", "[SNAPSHOT]")]}, {
        assert_snapshot!("export_one", serde_json::to_string_pretty(&lines[0]).unwrap());
    });
    let count = |arguments: &[&str]| stdout(&fixture, arguments).lines().count();
    assert_eq!(count(&["db", "export", "--session", "shop"]), 2);
    assert_eq!(count(&["db", "export", "--since", "24h"]), 0);
    assert_eq!(count(&["db", "export", "--format", "jsonl"]), 3);
    assert_snapshot!("export_no_session", fixture.run(&["db", "export", "--session", "nobody"]));
    assert_snapshot!("export_bad_since", fixture.run(&["db", "export", "--since", "yesterday"]));
}

/// A reader that closes the pipe ends the export, and that is no failure.
#[tokio::test]
async fn export_to_a_closed_pipe_is_no_failure() {
    let fixture = fixture();
    let store = open(&fixture);
    for second in 0..200 {
        write(&store, "local", "shop", SystemTime::now(), second).await;
    }
    store.close().await;
    let binary = Path::new(env!("CARGO_BIN_EXE_greenroom"));
    let mut child = fixture
        .command(binary, "cwd", &["db", "export"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    // A megabyte and more: far beyond what a pipe holds.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with('{') && first.ends_with("}\n"));
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!((child.wait().unwrap().code(), printed.as_str()), (Some(0), ""));
}

/// A database of a newer greenroom is left alone, and the error has a hint.
#[tokio::test]
async fn newer_database_is_not_changed() {
    let fixture = fixture();
    written(&fixture).await;
    // The header has the version at byte 60.
    let path = fixture.real("home/data/records.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert_snapshot!(fixture.run(&["db", "stats"]));
    assert_eq!(fixture.run(&["db", "vacuum"]), fixture.run(&["db", "stats"]));
    assert!(std::fs::read(&path).unwrap() == bytes, "nothing is written to it");
}

fn stdout(fixture: &CliFixture, arguments: &[&str]) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_greenroom"));
    let output = fixture.command(binary, "cwd", arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
