//! Foreign files in a data folder, and processes that misbehave.

use std::{
    fs,
    io::pipe,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Stdio,
};

use greenroom_testkit::{Launch, PATIENCE, process::Signal, within};
use serde_json::json;

use super::ask::{ask, greenroom};
use crate::front::stage::{NEWEST, Stage};

/// A run folder that seems to belong to this test's process, which runs and holds no greenroom's lock.
fn living_folder(data: &Path, n: u32) -> PathBuf {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
    let folder = data.join("run").join(format!("{}-{start}-{n}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Sockets without a process, folders of dead processes and foreign files are skipped silently.
#[tokio::test]
async fn stale_sockets_and_unknown_files_are_skipped() {
    let stage = Stage::new();
    let client = stage.client().await;
    let run = stage.data().join("run");
    let dead = run.join("4194304-1-0");
    let (refusing, no_socket, empty) =
        (living_folder(&stage.data(), 7), living_folder(&stage.data(), 8), living_folder(&stage.data(), 9));
    fs::create_dir_all(&dead).unwrap();
    for folder in [&dead, &refusing] {
        drop(UnixListener::bind(folder.join("control.sock")).unwrap());
    }
    fs::write(no_socket.join("control.sock"), "no socket").unwrap();
    fs::write(run.join("notes"), "foreign").unwrap();
    fs::create_dir_all(run.join("folder")).unwrap();
    fs::write(run.join("folder/control.sock"), "").unwrap();
    let said = ask(&stage, &["status", "--json"]).await;
    assert_eq!((said.code, said.json().as_array().unwrap().len()), (0, 1), "{said:?}");
    assert_eq!(said.json()[0]["pid"], client.pid());
    assert_eq!(said.stderr, "");
    let logs = ask(&stage, &["logs"]).await;
    assert_eq!((logs.code, logs.stderr.as_str()), (0, ""), "{logs:?}");
    assert!(empty.exists() && dead.exists(), "looking removes nothing");
}

/// A killed greenroom's socket stays until the next start, and no verb takes it for a living one.
#[tokio::test]
async fn socket_of_a_killed_process_is_ignored() {
    let stage = Stage::new();
    let client = stage.client().await;
    client.kill();
    client.wait().await;
    assert_eq!(fs::read_dir(stage.data().join("run")).unwrap().count(), 1);
    ask(&stage, &["status"]).await.check("nobody", &stage);
}

/// A greenroom that hangs delays no verb: it is named, those that answer are shown, and the exit code is a failure.
#[tokio::test]
async fn hung_process_delays_no_verb() {
    let stage = Stage::new();
    let (hung, well) = (stage.client().await, stage.client().await);
    well.call("echo", json!({"sessionId": "prices", "text": "a"})).await;
    hung.signal(Signal::STOP);
    let says = format!("pid {} does not answer", hung.pid());
    let said = ask(&stage, &["status"]).await;
    assert!(said.code == 1 && said.stdout.contains(&says) && said.stdout.contains("  prices  "), "{said:?}");
    let all = ask(&stage, &["status", "--json"]).await.json();
    let silent = all.as_array().unwrap().iter().find(|one| one["pid"] == hung.pid()).unwrap();
    assert_eq!((&silent["answers"], &silent["error"]), (&json!(false), &json!("does not answer")));
    let list = ask(&stage, &["sessions", "list"]).await;
    assert!(list.code == 1 && list.stderr.contains(&says) && list.stdout.contains("prices"), "{list:?}");
    let show = ask(&stage, &["sessions", "show", "other"]).await;
    assert!(show.code == 1 && show.stderr.contains(&says), "{show:?}");
    let logs = ask(&stage, &["logs"]).await;
    assert!(logs.code == 1 && logs.stdout.contains("session \"prices\" opened"), "{logs:?}");
    assert!(logs.stderr.contains(&format!("pid {}: it does not answer within 2 s", hung.pid())), "{logs:?}");
    hung.signal(Signal::CONT);
    let said = ask(&stage, &["status"]).await;
    assert_eq!(said.code, 0, "{said:?}");
}

/// A data folder whose path is longer than a socket address.
#[tokio::test]
async fn long_data_folder_path_works() {
    let stage = Stage::new();
    let data = (0..12).fold(stage.path("home"), |path, _| path.join("a-long-folder-name"));
    let flag = format!("--data-dir={}", data.display());
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom")).arg("mcp").arg(&flag).home(stage.path("home"));
    let launch =
        stage.environment().into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
    let client = launch.spawn();
    client.initialize(NEWEST, json!({})).await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    let said = ask(&stage, &["status", "--json", &flag]).await;
    assert_eq!(said.json()[0]["sessions"][0]["id"], "a", "{said:?}");
    assert_eq!(ask(&stage, &["sessions", "close", "a", &flag]).await.code, 0);
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert_eq!(fs::read_dir(data.join("run")).unwrap().count(), 0);
}

/// A closed stdout is no failure, and no panic: `greenroom status | head -0`.
#[tokio::test]
async fn closed_stdout_is_no_failure() {
    let stage = Stage::new();
    let client = stage.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    for verb in [
        &["status"][..],
        &["status", "--json"],
        &["status", "--watch", "--json"],
        &["sessions", "list"],
        &["sessions", "show", "a"],
        &["logs"],
        &["logs", "--follow"],
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let child = greenroom(&stage, verb).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = within(PATIENCE, child.wait_with_output()).await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{verb:?}");
    }
}
