//! A client that ends in any way leaves no engine, no folder and no greenroom behind.

use std::fs;

use greenroom_testkit::{
    Client, eventually,
    process::{Signal, children, signal, wait_gone, zombie},
};
use serde_json::json;

use super::fixture::{FakeEngineSetup, pid};

/// A client with an idle session, a call in flight, one in the queue, and one whose engine is still starting.
async fn busy(setup: &FakeEngineSetup) -> (Client, Vec<u32>) {
    let client = setup.client().await;
    pid(&client, "idle").await;
    let gate = setup.gate("gate");
    for _ in 0..2 {
        drop(client.start_call("wait", json!({"file": gate.path(), "sessionId": "busy"})).await);
    }
    gate.arrived(1).await;
    fs::write(setup.path("ill"), "").unwrap();
    let started = setup.log().count("start");
    drop(client.start_call("pid", json!({"sessionId": "starting"})).await);
    setup.log().reached("start", started + 1).await;
    let engines = children(client.pid());
    assert_eq!(engines.len(), 3, "{engines:?}");
    (client, engines)
}

/// Engines hang at their start as soon as the file `ill` exists.
fn setup() -> FakeEngineSetup {
    FakeEngineSetup::new().script(r#"if [ -e "$0/ill" ]; then exec "$@" --hang-at-start; fi; exec "$@""#)
}

async fn nothing_is_left(setup: &FakeEngineSetup, engines: Vec<u32>) {
    for engine in engines {
        wait_gone(engine).await;
    }
    assert_eq!(setup.seats().len(), 0);
    assert_eq!(fs::read_dir(setup.data().join("run")).unwrap().count(), 0, "the run folder is gone");
}

/// A client that closes its end mid-call.
#[tokio::test]
async fn closed_stdin_during_calls_ends_greenroom() {
    let setup = setup();
    let (client, engines) = busy(&setup).await;
    client.close_stdin().await;
    assert!(client.wait().await.success());
    nothing_is_left(&setup, engines).await;
}

/// A signal that asks greenroom to end mid-call.
#[tokio::test]
async fn signal_during_calls_ends_greenroom() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let setup = setup();
        let (client, engines) = busy(&setup).await;
        client.signal(signal);
        assert!(client.wait().await.success());
        nothing_is_left(&setup, engines).await;
    }
}

/// greenroom killed without a chance to clean up: its engines end with it, its folder at the next start.
#[tokio::test]
async fn killed_greenroom_leaves_no_engine() {
    let setup = setup();
    let (client, engines) = busy(&setup).await;
    client.kill();
    client.wait().await;
    for engine in engines {
        wait_gone(engine).await;
    }
    assert_eq!(setup.seats().len(), 3, "a killed process removes no folders");
    fs::remove_file(setup.path("ill")).unwrap();
    let next = setup.client().await;
    assert_eq!(setup.seats().len(), 0);
    pid(&next, "a").await;
}

/// A client that closes its end while the list of tools is fetched.
#[tokio::test]
async fn closed_stdin_during_tool_listing_ends_greenroom() {
    let setup = setup();
    fs::write(setup.path("ill"), "").unwrap();
    let client = setup.client().await;
    drop(client.start("tools/list", json!({})).await);
    setup.log().reached("initialize", 1).await;
    let engines = children(client.pid());
    client.close_stdin().await;
    assert!(client.wait().await.success());
    nothing_is_left(&setup, engines).await;
}

/// A client that writes and never reads cannot keep greenroom from ending.
#[tokio::test]
async fn client_that_never_reads_blocks_no_shutdown() {
    use std::{
        io::Write,
        process::{Command, Stdio},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    let setup = FakeEngineSetup::new();
    let mut greenroom = Command::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["mcp", "--data-dir"])
        .arg(setup.data())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = greenroom.stdin.take().unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    // It blocks once greenroom waits for its answers to be read; the end of greenroom ends it.
    let writer = std::thread::spawn(move || {
        while stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut last = 0;
    let mut still = 0;
    eventually("the writer stands still", || {
        let now = written.load(Ordering::Relaxed);
        still = if now == last && now > 0 { still + 1 } else { 0 };
        last = now;
        (still == 40).then_some(())
    })
    .await;
    signal(greenroom.id(), Signal::TERM);
    eventually("greenroom ends", || zombie(greenroom.id()).then_some(())).await;
    assert!(greenroom.wait().unwrap().success());
    writer.join().unwrap();
}
