//! Foreign files in a data folder, and processes that misbehave.

use std::{
    fs,
    io::pipe,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Stdio,
};

use greenroom_testkit::{Launch, TEST_TIMEOUT, process::Signal, within};
use serde_json::json;

use super::run_verb::{greenroom, run_verb};
use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// A run folder that seems to belong to this test's process, which runs and holds no greenroom's lock.
fn run_folder_of_this_process(data: &Path, n: u32) -> PathBuf {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
    let folder = data.join("run").join(format!("{}-{start}-{n}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Sockets without a process, folders of dead processes and foreign files are skipped silently.
#[tokio::test]
async fn stale_sockets_and_unknown_files_are_skipped() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let run = setup.data().join("run");
    let dead = run.join("4194304-1-0");
    let refusing = run_folder_of_this_process(&setup.data(), 7);
    let no_socket = run_folder_of_this_process(&setup.data(), 8);
    let empty = run_folder_of_this_process(&setup.data(), 9);
    fs::create_dir_all(&dead).unwrap();
    for folder in [&dead, &refusing] {
        drop(UnixListener::bind(folder.join("control.sock")).unwrap());
    }
    fs::write(no_socket.join("control.sock"), "no socket").unwrap();
    fs::write(run.join("notes"), "foreign").unwrap();
    fs::create_dir_all(run.join("folder")).unwrap();
    fs::write(run.join("folder/control.sock"), "").unwrap();
    let printed = run_verb(&setup, &["status", "--json"]).await;
    assert_eq!((printed.code, printed.json().as_array().unwrap().len()), (0, 1), "{printed:?}");
    assert_eq!(printed.json()[0]["pid"], client.pid());
    assert_eq!(printed.stderr, "");
    let logs = run_verb(&setup, &["logs"]).await;
    assert_eq!((logs.code, logs.stderr.as_str()), (0, ""), "{logs:?}");
    assert!(empty.exists() && dead.exists(), "looking removes nothing");
}

/// A killed greenroom's socket stays until the next start, and no verb takes it for a running process.
#[tokio::test]
async fn socket_of_a_killed_process_is_ignored() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.kill();
    client.wait().await;
    assert_eq!(fs::read_dir(setup.data().join("run")).unwrap().count(), 1);
    run_verb(&setup, &["status"]).await.check("no_greenroom_runs", &setup);
}

/// A greenroom that hangs delays no verb: the output names it and shows the others, and the exit code is a failure.
#[tokio::test]
async fn hung_process_delays_no_verb() {
    let setup = FakeEngineSetup::new();
    let hung = setup.client().await;
    let well = setup.client().await;
    well.call("echo", json!({"sessionId": "prices", "text": "a"})).await;
    hung.signal(Signal::STOP);
    let says = format!("pid {} does not answer", hung.pid());
    let printed = run_verb(&setup, &["status"]).await;
    assert!(
        printed.code == 1 && printed.stdout.contains(&says) && printed.stdout.contains("  prices  "),
        "{printed:?}"
    );
    let all = run_verb(&setup, &["status", "--json"]).await.json();
    let silent = all.as_array().unwrap().iter().find(|one| one["pid"] == hung.pid()).unwrap();
    assert_eq!((&silent["answers"], &silent["error"]), (&json!(false), &json!("does not answer")));
    let list = run_verb(&setup, &["sessions", "list"]).await;
    assert!(list.code == 1 && list.stderr.contains(&says) && list.stdout.contains("prices"), "{list:?}");
    let show = run_verb(&setup, &["sessions", "show", "other"]).await;
    assert!(show.code == 1 && show.stderr.contains(&says), "{show:?}");
    let logs = run_verb(&setup, &["logs"]).await;
    assert!(logs.code == 1 && logs.stdout.contains("session \"prices\" opened"), "{logs:?}");
    assert!(logs.stderr.contains(&format!("pid {}: it does not answer within 2 s", hung.pid())), "{logs:?}");
    hung.signal(Signal::CONT);
    let printed = run_verb(&setup, &["status"]).await;
    assert_eq!(printed.code, 0, "{printed:?}");
}

/// Verbs work with a data folder whose path is longer than a socket address.
#[tokio::test]
async fn long_data_folder_path_works() {
    let setup = FakeEngineSetup::new();
    let data = (0..12).fold(setup.path("home"), |path, _| path.join("a-long-folder-name"));
    let flag = format!("--data-dir={}", data.display());
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom")).arg("mcp").arg(&flag).home(setup.path("home"));
    let launch =
        setup.environment().into_iter().fold(launch, |launch, (name, value)| launch.env(name, value));
    let client = launch.spawn();
    client.initialize(NEWEST, json!({})).await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    let printed = run_verb(&setup, &["status", "--json", &flag]).await;
    assert_eq!(printed.json()[0]["sessions"][0]["id"], "a", "{printed:?}");
    assert_eq!(run_verb(&setup, &["sessions", "close", "a", &flag]).await.code, 0);
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert_eq!(fs::read_dir(data.join("run")).unwrap().count(), 0);
}

/// A closed stdout is no failure, and no panic: `greenroom status | head -0`.
#[tokio::test]
async fn closed_stdout_is_no_failure() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    for run_verb_in in [
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
        let child = greenroom(&setup, run_verb_in).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = within(TEST_TIMEOUT, child.wait_with_output()).await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{run_verb_in:?}");
    }
}
