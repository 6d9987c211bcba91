//! A server whose configuration changes while it runs.

use std::{fs, path::PathBuf};

use greenroom_testkit::{http::Server, process::Signal, text_of};
use serde_json::{Value, json};

use super::http_client;
use crate::front::fixture::FakeEngineSetup;

const TWO: &str = "[pools.MAIN]\ninstances = 2\nis_default = true\n";

fn file(setup: &FakeEngineSetup) -> PathBuf {
    let folder = setup.path("home/.config/greenroom");
    fs::create_dir_all(&folder).unwrap();
    folder.join("greenroom.toml")
}

async fn pool(server: &Server) -> Value {
    server.get("/api/pools/MAIN").await.json().await
}

/// Returns when this many instances are healthy, of as many.
async fn healthy(server: &Server, count: usize) {
    super::pools::until(server, "MAIN", super::pools::healthy(count)).await;
}

/// The server reads a changed file: it applies what can change, reports what cannot, and a mistake changes nothing.
#[tokio::test]
async fn changed_config_file_is_applied() {
    let setup = FakeEngineSetup::new().set("log", "info");
    fs::write(file(&setup), TWO).unwrap();
    let server = setup.serve().await;
    healthy(&server, 2).await;
    let changed = "log = \"debug\"\n[pools.MAIN]\ninstances.count = 3\nis_default = true\ndescription = \"more\"\nlease_timeout = 5000\nuser_agent = \"u\"\n[pools.MORE]\ninstances = 1\n";
    fs::write(file(&setup), changed).unwrap();
    healthy(&server, 3).await;
    assert_eq!(pool(&server).await["description"], "more");
    for expected_line in [
        "pool MAIN has 3 instances",
        "MAIN: `lease_timeout` is `5s`",
        "MAIN: `user_agent` is `u`; it applies to instances that start from now on",
        "pool MORE is new; it takes effect only when greenroom is restarted",
    ] {
        server.wait_for_stderr(expected_line).await;
    }
    fs::write(file(&setup), "[pools.MAIN]\ninstances = 0\n").unwrap();
    server.wait_for_stderr("cannot use the changed configuration; greenroom keeps the old one").await;
    healthy(&server, 3).await;
    fs::write(file(&setup), TWO.replace("instances = 2", "instances = 1")).unwrap();
    healthy(&server, 1).await;
    assert!(server.stop().await.success());
}

/// SIGHUP makes a server read its configuration again instead of ending it, and calls go on meanwhile.
#[tokio::test]
async fn sighup_reloads_the_configuration() {
    let setup = FakeEngineSetup::new().set("log", "info");
    fs::write(file(&setup), TWO).unwrap();
    let server = setup.serve().await;
    healthy(&server, 2).await;
    let client = http_client(&server).await;
    let gate = setup.gate("gate");
    let held = client.send(&client.call_message("wait", json!({"file": gate.path()}))).await;
    gate.arrived(1).await;
    server.signal(Signal::HUP);
    server.wait_for_stderr("reloaded the configuration: nothing has changed").await;
    gate.open();
    assert_eq!(held.reply().await.status, 200);
    assert_eq!(text_of(&client.call("echo", json!({"text": "on"})).await), "on");
    assert!(server.stop().await.success());
}
