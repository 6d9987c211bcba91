//! The list of tools: read from the engine, cached on disk, announced when it changes and only then.

use std::{fs, path::PathBuf};

use greenroom_testkit::{Client, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, tool_names};

const CHANGED: &str = "notifications/tools/list_changed";

/// Ends greenroom and waits until it is gone.
async fn end(client: Client) {
    client.close_stdin().await;
    assert!(client.wait().await.success());
}

/// greenroom lists all pages of the engine's list as one, in its order.
#[tokio::test]
async fn paged_tool_list_is_joined() {
    let plain = FakeEngineSetup::new();
    let whole = tool_names(&plain.client().await).await;
    let setup = FakeEngineSetup::new().flags(&["--page-size", "4"]);
    assert_eq!(tool_names(&setup.client().await).await, whole);
    assert!(setup.log().count("tools/list") > 3, "{:?}", setup.log().lines());
}

/// A tool that the engine adds is announced once, listed, and can be called.
#[tokio::test]
async fn a_new_tool_is_announced() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let before = tool_names(&client).await;
    let name = text_of(&client.call("change_tools", json!({})).await);
    client.next_notification(CHANGED).await;
    let after = tool_names(&client).await;
    assert_eq!(after.len(), before.len() + 1);
    assert!(after.contains(&name));
    assert_eq!(text_of(&client.call(&name, json!({})).await), name);
    assert_eq!(client.notifications_left(CHANGED), 0);
}

/// An announcement without a change is not passed on, and a new session is no change: a client would read the list again
/// for nothing.
#[tokio::test]
async fn unchanged_list_is_not_announced() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    tool_names(&client).await;
    for n in 0..8 {
        let session = format!("s{n}");
        assert_eq!(
            text_of(&client.call("spurious_change", json!({"sessionId": session})).await),
            "announced"
        );
        client.call("echo", json!({"text": "a", "sessionId": session})).await;
    }
    // One to read the list, one for the first seat of the instance, one for each announcement.
    setup.log().reached("tools/list", 10).await;
    client.call("change_tools", json!({"sessionId": "s0"})).await;
    client.next_notification(CHANGED).await;
    client.request("ping", Value::Null).await;
    assert_eq!(client.notifications_left(CHANGED), 0, "one change, one announcement");
}

/// The second start lists the tools without an engine, and a damaged file is replaced.
#[tokio::test]
async fn tool_list_is_cached_across_starts() {
    let setup = FakeEngineSetup::new();
    let log = setup.log();
    let client = setup.client().await;
    let listed = client.request("tools/list", Value::Null).await["result"].clone();
    assert_eq!(log.count("start"), 1);
    end(client).await;

    let client = setup.client().await;
    assert_eq!(client.request("tools/list", Value::Null).await["result"], listed);
    assert_eq!(log.count("start"), 1, "no engine was asked");
    end(client).await;

    for damage in ["", "{\"fingerprint\":", "[]", "{\"fingerprint\":\"x\",\"tools\":[]}"] {
        fs::write(cached_list_path(&setup), damage).unwrap();
        let starts = log.count("start");
        let client = setup.client().await;
        assert_eq!(client.request("tools/list", Value::Null).await["result"], listed);
        assert_eq!(log.count("start"), starts + 1, "the engine was asked: {damage}");
        end(client).await;
        let client = setup.client().await;
        assert_eq!(client.request("tools/list", Value::Null).await["result"], listed);
        assert_eq!(log.count("start"), starts + 1, "and its answer kept: {damage}");
        end(client).await;
    }
}

/// Where the list cannot be cached greenroom asks for it each time, and everything works.
#[tokio::test]
async fn unwritable_tool_list_cache_is_harmless() {
    let setup = FakeEngineSetup::new();
    fs::create_dir_all(setup.data()).unwrap();
    fs::write(setup.data().join("cache"), "in the way").unwrap();
    let client = setup.client().await;
    assert!(tool_names(&client).await.contains(&"echo".to_owned()));
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
}

/// If an engine's tools differ from its cached list, under the same command, greenroom finds out when its first session
/// opens: it announces and keeps the new list, and the tools can be called.
#[tokio::test]
async fn changed_engine_replaces_the_cached_list() {
    let setup = FakeEngineSetup::new().script(r#"exec "$@" $(cat "$0/flags" 2>/dev/null)"#);
    let client = setup.client().await;
    let old = tool_names(&client).await;
    client.call("echo", json!({"text": "a"})).await;
    end(client).await;

    setup.file("flags", "--extra-tool one_more", 0o600);
    let client = setup.client().await;
    let starts = setup.log().count("start");
    assert_eq!(tool_names(&client).await, old, "as kept");
    assert_eq!(setup.log().count("start"), starts);
    assert_eq!(client.notifications_left(CHANGED), 0);
    client.call("echo", json!({"text": "a"})).await;
    client.next_notification(CHANGED).await;
    assert!(tool_names(&client).await.contains(&"one_more".to_owned()));
    assert_eq!(text_of(&client.call("one_more", json!({})).await), "one_more");
    end(client).await;

    let client = setup.client().await;
    let starts = setup.log().count("start");
    assert!(tool_names(&client).await.contains(&"one_more".to_owned()));
    assert_eq!(setup.log().count("start"), starts, "the new list was kept");
}

/// A tool that an engine adds while it runs is not cached: the next engine does not have it.
#[tokio::test]
async fn tool_added_at_run_time_is_not_cached() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let before = tool_names(&client).await;
    client.call("change_tools", json!({})).await;
    client.next_notification(CHANGED).await;
    assert_ne!(tool_names(&client).await, before);
    end(client).await;
    assert_eq!(tool_names(&setup.client().await).await, before);
}

/// The file of the cached list.
fn cached_list_path(setup: &FakeEngineSetup) -> PathBuf {
    let files: Vec<PathBuf> =
        fs::read_dir(setup.data().join("cache")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}
