//! Which server a front joins, and the errors when it cannot.

use greenroom_testkit::text_of;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    control::ask::ask,
    front::stage::{NEWEST, Stage},
};

/// `--standalone` brings its own browsers, even if a server runs.
#[tokio::test]
async fn standalone_flag_ignores_a_running_server() {
    let stage = Stage::new();
    let server = stage.serve().await;
    let client = stage.launch(&["mcp", "--standalone"]).spawn();
    client.initialize(NEWEST, json!({})).await;
    client.call("set", json!({"key": "k", "value": "v", "sessionId": "s"})).await;
    let joined = stage.client_with(json!({})).await;
    assert_eq!(text_of(&joined.call("get", json!({"key": "k", "sessionId": "s"})).await), "(unset)");
    let all = ask(&stage, &["status", "--json"]).await.json();
    let mut pids: Vec<_> = all.as_array().unwrap().iter().map(|one| one["pid"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    let mut expected = [u64::from(server.pid()), u64::from(client.pid())];
    expected.sort_unstable();
    assert_eq!(pids, expected);
}

/// A front that names a browser on the command line uses that one, even if a server runs.
#[tokio::test]
async fn browser_flag_ignores_a_running_server() {
    let stage = Stage::new();
    let _server = stage.serve().await;
    let url = format!("http://{}", greenroom_testkit::nobody());
    let client = stage.launch(&["mcp", "--engine", "playwright", "--browserUrl", &url]).spawn();
    client.initialize(NEWEST, json!({})).await;
    let listed = text_of(&client.call("list_browsers", json!({})).await);
    assert!(listed.contains(&url), "{listed}");
}

/// `--server URL` joins the server at this URL, from a home that knows of none.
#[tokio::test]
async fn server_flag_joins_by_url() {
    let (stage, elsewhere) = (Stage::new(), Stage::new());
    let server = stage.serve().await;
    for url in [server.url(), format!("{}/mcp", server.url())] {
        let client = elsewhere.launch(&["mcp", "--server", &url]).spawn();
        client.initialize(NEWEST, json!({})).await;
        assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
        client.close_stdin().await;
        assert!(client.wait().await.success());
    }
    assert_eq!((stage.log().count("tools/call echo"), elsewhere.log().lines().len()), (2, 0));
}

/// An invalid URL is a usage error; an address without a greenroom server is a failure with a hint.
#[tokio::test]
async fn invalid_server_urls_are_refused() {
    let stage = Stage::new();
    for url in ["localhost:1", "https://localhost", ""] {
        let said = ask(&stage, &["mcp", "--server", url]).await;
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{url}: {said:?}");
        assert!(said.stderr.contains("--server"), "{said:?}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let site = greenroom_testkit::Site::start().await;
    for url in [format!("http://{nobody}"), site.base()] {
        let said = ask(&stage, &["mcp", "--server", &url]).await;
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{url}: {said:?}");
        assert!(said.stderr.contains("error: cannot join a greenroom server: "), "{said:?}");
        assert!(said.stderr.contains("hint: start one there with `greenroom serve`"), "{said:?}");
    }
    let said = ask(&stage, &["mcp", "--server", "http://127.0.0.1:1", "--standalone"]).await;
    assert_eq!(said.code, 2, "{said:?}");
}

/// The front warns about flags that have no effect behind a server, and not about its own ones.
#[tokio::test]
async fn flags_without_effect_are_warned_about() {
    let stage = Stage::new();
    let server = stage.serve().await;
    let (data, url) = (stage.data().display().to_string(), server.url());
    let named = ["--browserUrl", "http://127.0.0.1:9", "--server", &url];
    let flags = ["mcp", "--engine", "playwright", "--data-dir", &data, "--log", "warn"];
    let flags: Vec<_> = flags.into_iter().chain(named).collect();
    let client = stage.launch(&flags).spawn();
    client.initialize(NEWEST, json!({})).await;
    client.stderr_says("--pool-engine has no effect").await;
    client.stderr_says("--browserUrl http://127.0.0.1:9 has no effect").await;
    client.close_stdin().await;
    client.wait().await;
    let stderr = client.stderr();
    assert_eq!(stderr.matches("has no effect").count(), 2, "{stderr}");
}

/// A front does not join a server that is about to end: it goes on without it.
#[tokio::test]
async fn ending_server_is_not_joined() {
    let stage = Stage::new();
    let server = stage.serve().await;
    server.kill().await;
    let client = stage.client_with(json!({})).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
    let all = ask(&stage, &["status", "--json"]).await.json();
    assert_eq!(all[0]["pid"], client.pid(), "{all}");
}
