//! Which server a front joins, and the errors when it cannot.

use greenroom_testkit::text_of;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    control::run_verb::run_verb,
    front::fixture::{FakeEngineSetup, NEWEST},
};

/// `--standalone` brings its own browsers, even if a server runs.
#[tokio::test]
async fn standalone_flag_ignores_a_running_server() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = setup.launch(&["mcp", "--standalone"]).spawn();
    client.initialize(NEWEST, json!({})).await;
    client.call("set", json!({"key": "k", "value": "v", "sessionId": "s"})).await;
    let joined = setup.client_with(json!({})).await;
    assert_eq!(text_of(&joined.call("get", json!({"key": "k", "sessionId": "s"})).await), "(unset)");
    let all = run_verb(&setup, &["status", "--json"]).await.json();
    let mut pids: Vec<_> = all.as_array().unwrap().iter().map(|one| one["pid"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    let mut expected = [u64::from(server.pid()), u64::from(client.pid())];
    expected.sort_unstable();
    assert_eq!(pids, expected);
}

/// A front that names a browser on the command line uses that one, even if a server runs.
#[tokio::test]
async fn browser_flag_ignores_a_running_server() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let url = format!("http://{}", greenroom_testkit::unused_address());
    let client = setup.launch(&["mcp", "--engine", "playwright", "--browserUrl", &url]).spawn();
    client.initialize(NEWEST, json!({})).await;
    let listed = text_of(&client.call("list_browsers", json!({})).await);
    assert!(listed.contains(&url), "{listed}");
}

/// A front with another network policy than the running server starts its own browsers; one with the same policy joins.
/// With `--server` the flag is an error, because it has no effect there.
#[tokio::test]
async fn network_policy_ignores_a_server_with_another() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    setup.client_with(json!({})).await.call("set", json!({"key": "k", "value": "v", "sessionId": "s"})).await;
    for (preset, expected) in [("guarded", "(unset)"), ("open", "v")] {
        let client = setup.launch(&["mcp", "--network-preset", preset]).spawn();
        client.initialize(NEWEST, json!({})).await;
        let value = text_of(&client.call("get", json!({"key": "k", "sessionId": "s"})).await);
        assert_eq!(value, expected, "{preset}");
        client.close_stdin().await;
        assert!(client.wait().await.success());
    }
    let url = server.url();
    let refused = run_verb(&setup, &["mcp", "--server", &url, "--network-preset", "guarded"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("has no effect on the server"), "{refused:?}");
}

/// `--server URL` joins the server at this URL, from a home that knows of none.
#[tokio::test]
async fn server_flag_joins_by_url() {
    let setup = FakeEngineSetup::new();
    let elsewhere = FakeEngineSetup::new();
    let server = setup.serve().await;
    for url in [server.url(), format!("{}/mcp", server.url())] {
        let client = elsewhere.launch(&["mcp", "--server", &url]).spawn();
        client.initialize(NEWEST, json!({})).await;
        assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
        client.close_stdin().await;
        assert!(client.wait().await.success());
    }
    assert_eq!((setup.log().count("tools/call echo"), elsewhere.log().lines().len()), (2, 0));
}

/// An invalid URL is a usage error; an address without a greenroom server is a failure with a hint.
#[tokio::test]
async fn invalid_server_urls_are_refused() {
    let setup = FakeEngineSetup::new();
    for url in ["localhost:1", "https://key@localhost", ""] {
        let output = run_verb(&setup, &["mcp", "--server", url]).await;
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{url}: {output:?}");
        assert!(output.stderr.contains("--server"), "{output:?}");
    }
    let closed_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let site = greenroom_testkit::Site::start().await;
    for url in [format!("http://{closed_address}"), site.base()] {
        let output = run_verb(&setup, &["mcp", "--server", &url]).await;
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{url}: {output:?}");
        assert!(output.stderr.contains("error: cannot join a greenroom server: "), "{output:?}");
        assert!(output.stderr.contains("hint: start one there with `greenroom serve`"), "{output:?}");
    }
    let output = run_verb(&setup, &["mcp", "--server", "http://127.0.0.1:1", "--standalone"]).await;
    assert_eq!(output.code, 2, "{output:?}");
}

/// A joined front warns about flags that have no effect there, and not about flags that it uses itself.
#[tokio::test]
async fn flags_without_effect_are_warned_about() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let data = setup.data().display().to_string();
    let url = server.url();
    let named = ["--browserUrl", "http://127.0.0.1:9", "--server", &url];
    let flags = ["mcp", "--engine", "playwright", "--data-dir", &data, "--log", "warn"];
    let flags: Vec<_> = flags.into_iter().chain(named).collect();
    let client = setup.launch(&flags).spawn();
    client.initialize(NEWEST, json!({})).await;
    client.wait_for_stderr("--pool-engine has no effect").await;
    client.wait_for_stderr("--browserUrl http://127.0.0.1:9 has no effect").await;
    client.close_stdin().await;
    client.wait().await;
    let stderr = client.stderr();
    assert_eq!(stderr.matches("has no effect").count(), 2, "{stderr}");
}

/// A front does not join a server that is about to end: it goes on without it.
#[tokio::test]
async fn ending_server_is_not_joined() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    server.kill().await;
    let client = setup.client_with(json!({})).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
    let all = run_verb(&setup, &["status", "--json"]).await.json();
    assert_eq!(all[0]["pid"], client.pid(), "{all}");
}
