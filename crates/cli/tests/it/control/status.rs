//! `greenroom status`: every greenroom of the data folder, its sessions, its pools.

use std::fs;

use serde_json::json;

use super::run_verb::{run_verb, socket};
use crate::front::fixture::{FakeEngineSetup, NEWEST, until_in_flight};

/// Sessions are shown with their state: named ones, the connection's own, and a busy one.
#[tokio::test]
async fn status_shows_sessions_and_pools() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    run_verb(&setup, &["status"]).await.check("status_empty", &setup);
    client.call("echo", json!({"sessionId": "prices", "text": "a"})).await;
    client.call("echo", json!({"sessionId": "price check", "text": "a"})).await;
    client.call("echo", json!({"text": "a"})).await;
    let gate = setup.gate("gate");
    let busy: Vec<_> = [
        client.start_call("wait", json!({"file": gate.path(), "sessionId": "prices"})).await,
        client.start_call("echo", json!({"sessionId": "prices", "text": "b"})).await,
    ]
    .into();
    until_in_flight(&client, "prices", 2).await;
    run_verb(&setup, &["status"]).await.check("status", &setup);
    for list in [&["sessions", "list"][..], &["sessions"], &["session"], &["session", "list"]] {
        run_verb(&setup, list).await.check("sessions_list", &setup);
    }
    let all = run_verb(&setup, &["sessions", "--json"]).await.json();
    assert_eq!(all.as_array().unwrap().len(), 3, "{all}");
    assert_eq!(run_verb(&setup, &["browser"]).await.stdout, "no attached browsers\n");
    gate.open();
    for call in busy {
        call.response().await;
    }
}

/// Every greenroom that shares the data folder is shown, for programs with stable names.
#[tokio::test]
async fn status_shows_every_process() {
    let setup = FakeEngineSetup::new();
    let one = setup.client().await;
    let two = setup.client().await;
    one.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    two.call("echo", json!({"sessionId": "b", "text": "a"})).await;
    let output = run_verb(&setup, &["status", "--json"]).await;
    let all = output.json();
    let mut seen: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|process| (process["pid"].as_u64().unwrap(), process["sessions"][0]["id"].clone()))
        .collect();
    let mut expected = vec![(u64::from(one.pid()), json!("a")), (u64::from(two.pid()), json!("b"))];
    seen.sort_by_key(|(pid, _)| *pid);
    expected.sort_by_key(|(pid, _)| *pid);
    assert_eq!((output.code, seen), (0, expected));
    let process = &all[0];
    assert_eq!(process["answers"], true);
    assert_eq!((&process["kind"], &process["listen"]), (&json!("stdio"), &json!(null)));
    assert_eq!(process["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(process["dataFolder"], setup.data().display().to_string());
    assert_eq!(process["sessionCount"], 1);
    let mut pool = process["pools"][0].clone();
    let members = pool.as_object_mut().unwrap().remove("members").unwrap();
    assert_eq!(
        pool,
        json!({
            "name": "DEFAULT", "description": "", "isDefault": true, "elastic": true, "drained": false, "instances": 1, "healthy": 1,
            "available": 1, "leased": 1, "slots": 128, "waiting": 0, "spares": 0, "restarts": 0, "unproxied": true,
        })
    );
    assert_eq!((&members[0]["id"], &members[0]["status"]), (&json!(0), &json!("healthy")), "{members}");
    assert_eq!((&members[0]["slots"], &members[0]["leased"]), (&json!(16), &json!(1)), "{members}");
    let text = run_verb(&setup, &["status"]).await.stdout;
    assert!(
        text.contains(&format!("pid {}", one.pid())) && text.contains(&format!("pid {}", two.pid())),
        "{text}"
    );

    two.close_stdin().await;
    assert!(two.wait().await.success());
    let left = run_verb(&setup, &["status", "--json"]).await.json();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["pid"], one.pid());
}

/// Where no greenroom runs, or ever ran, the output says so, and that is no failure.
#[tokio::test]
async fn status_without_a_process_is_no_failure() {
    let setup = FakeEngineSetup::new();
    run_verb(&setup, &["status"]).await.check("no_greenroom_runs", &setup);
    assert_eq!(run_verb(&setup, &["status", "--json"]).await.stdout, "[]\n");
    assert_eq!(run_verb(&setup, &["sessions", "list", "--json"]).await.stdout, "[]\n");
    let logs = run_verb(&setup, &["logs", "--json"]).await;
    assert_eq!((logs.code, logs.stdout.as_str()), (0, ""));
    assert!(!setup.data().exists(), "looking leaves nothing behind");
}

/// The socket is there as soon as greenroom answers, and a file in the run folder says where a server listens.
#[tokio::test]
async fn run_folder_has_the_servers_address() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    client.initialize(NEWEST, json!({})).await;
    let socket = socket(&setup, &client);
    assert!(socket.exists());
    fs::write(socket.with_file_name("server"), "http://127.0.0.1:34501\n").unwrap();
    let output = run_verb(&setup, &["status"]).await;
    assert!(output.stdout.lines().next().unwrap().ends_with("  http://127.0.0.1:34501"), "{output:?}");
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert!(!socket.exists());
}

/// Fronts that joined a server are shown by their clients' names with a number, in `status`, in `sessions` and in the log;
/// nowhere by the random number that is their id.
#[tokio::test]
async fn joined_fronts_are_shown_by_client_name() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let mut windows = Vec::new();
    for name in ["claude-code", "claude-code", "tea bot"] {
        let client = setup.spawn();
        let info = json!({"name": name, "version": "1"});
        let output = json!({"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": info});
        client.request("initialize", output).await;
        client.call("echo", json!({"text": "a"})).await;
        windows.push(client);
    }
    let names = ["Claude Code 1", "Claude Code 2", "tea bot 1"];
    for verb in ["status", "sessions", "logs"] {
        let output = run_verb(&setup, &[verb]).await;
        assert!(names.iter().all(|name| output.stdout.contains(name)), "{verb}: {output:?}");
        let all = run_verb(&setup, &["sessions", "--json"]).await.json();
        for session in all.as_array().unwrap() {
            let number = session["connection"].to_string();
            assert!(number.len() > 5 && !output.stdout.contains(&number), "{verb}: {number} {output:?}");
        }
    }
    let closed = run_verb(&setup, &["session", "close", "Claude Code 2"]).await;
    assert_eq!(closed.stdout, format!("closed \"Claude Code 2\" (pid {})\n", server.pid()), "{closed:?}");
}
