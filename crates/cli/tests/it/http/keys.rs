//! Requests with and without API keys, as they come over the network.

use greenroom_testkit::{
    TEST_TIMEOUT,
    http::{HttpMcpClient, Reply, Server},
    text_of, within,
};
use serde_json::json;

use crate::{
    control::run_verb::run_verb,
    front::fixture::{FakeEngineSetup, NEWEST},
};

pub const ANN: &str = "key-of-ann-0123456789";
pub const BOB: &str = "key-of-bob-0123456789";
pub const OPS: &str = "key-of-ops-0123456789";
pub const EYE: &str = "key-of-eye-0123456789";

/// A setup with keys from the environment: two owners, an operator and a viewer.
pub fn setup() -> FakeEngineSetup {
    let keys = format!("ann:{ANN},bob:{BOB},ops[admin]:{OPS},eye[watch]:{EYE}");
    FakeEngineSetup::new().set("api_keys", &keys)
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Reply {
    server.connection().await.request("GET", path, headers, None).await
}

/// With a key from the environment a request with it is served, as the key's owner; one without it, or with a wrong one, is
/// refused with 401 in the format of its path.
#[tokio::test]
async fn requests_need_a_key() {
    let setup = setup();
    let server = setup.serve().await;
    let json = ("content-type", "application/json");
    for (headers, says) in [
        (&[][..], "this server needs an API key"),
        (&[("authorization", "Bearer wrong-key-0123456789")], "the API key is not valid"),
        (&[("x-api-key", "grm_half")], "the API key is not whole"),
        (&[("x-api-key", "")], "the API key is not valid"),
        (&[("authorization", "Basic eDp5")], "another scheme than `Bearer`"),
        (&[("x-api-key", ANN), ("authorization", "Bearer other-key-0123456789")], "which differ"),
    ] {
        let mut reply = get(&server, "/api/sessions", headers).await;
        assert_eq!(reply.status, 401, "{headers:?}");
        assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer realm=\"greenroom\""));
        let body = reply.json().await;
        assert_eq!(body["error"], "unauthorized");
        assert!(body["message"].as_str().unwrap().contains(says), "{body}");
        let headers: Vec<_> = headers.iter().copied().chain([json]).collect();
        let mut reply = server.connection().await.request("POST", "/mcp", &headers, Some("{}")).await;
        assert_eq!(reply.status, 401, "{headers:?}");
        let body = reply.json().await;
        assert!(body["error"]["message"].as_str().unwrap().contains(says), "{body}");
    }
    for header in [("x-api-key", ANN), ("authorization", &*format!("Bearer {ANN}"))] {
        assert_eq!(get(&server, "/api/sessions", &[header]).await.status, 200);
    }
    let client = HttpMcpClient::open_with_key(&server, NEWEST, ANN).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "served"})).await), "served");
    let sessions = get(&server, "/api/sessions", &[("x-api-key", ANN)]).await.json().await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    let foreign = get(&server, "/api/sessions", &[("x-api-key", BOB)]).await.json().await;
    assert_eq!(foreign["sessions"], json!([]));
}

/// Every path but `/health` needs a key, also one that does not exist.
#[tokio::test]
async fn only_health_is_open() {
    let setup = setup();
    let server = setup.serve().await;
    assert_eq!(get(&server, "/health", &[]).await.status, 200);
    for path in [
        "/",
        "/ready",
        "/metrics",
        "/mcp",
        "/front",
        "/api/openapi.json",
        "/api/pools",
        "/api/nothing",
        "/nothing",
        "/health/",
        "//health",
        "/HEALTH",
        "/api/../health",
    ] {
        assert_eq!(get(&server, path, &[]).await.status, 401, "{path}");
    }
    for path in ["/nothing", "/api/nothing"] {
        assert_eq!(get(&server, path, &[("x-api-key", EYE)]).await.status, 404, "{path}");
    }
    let reply = server.connection().await.request("PUT", "/mcp", &[("x-api-key", EYE)], None).await;
    assert_eq!(reply.status, 405);
}

/// A key in the query is refused, with the place where it belongs, even if the request has the key in a header too.
#[tokio::test]
async fn keys_in_the_query_are_refused() {
    let setup = setup();
    let server = setup.serve().await;
    for query in ["key", "api_key", "token", "access_token", "X-Api-Key"] {
        let path = format!("/api/sessions?{query}={ANN}");
        for headers in [&[][..], &[("x-api-key", ANN)]] {
            let mut reply = get(&server, &path, headers).await;
            assert_eq!(reply.status, 400, "{path}");
            let body = reply.json().await;
            assert_eq!(body["error"], "key_in_query");
            let message = body["message"].as_str().unwrap();
            assert!(message.contains("`Authorization: Bearer KEY`") && !message.contains(ANN), "{message}");
        }
    }
    assert!(!server.stderr().contains(ANN), "{}", server.stderr());
}

/// A key without the scope of a route is refused with 403, which names the scope; `/ready` shows its details to `admin`
/// only.
#[tokio::test]
async fn missing_scopes_are_named() {
    let setup = setup();
    let server = setup.serve().await;
    for (method, path, key, scope) in [
        ("GET", "/metrics", ANN, "admin"),
        ("POST", "/api/pools/DEFAULT/restart", ANN, "admin"),
        ("POST", "/api/browsers", ANN, "admin"),
        ("GET", "/api/sessions", OPS, "browse watch"),
        ("POST", "/api/calls", EYE, "browse"),
        ("PUT", "/api/blobs", EYE, "browse"),
        ("POST", "/mcp", EYE, "browse"),
        ("GET", "/front", EYE, "browse"),
        ("DELETE", "/api/sessions/a", EYE, "browse control"),
    ] {
        let mut reply = server.connection().await.request(method, path, &[("x-api-key", key)], None).await;
        assert_eq!(reply.status, 403, "{method} {path}");
        let challenge = reply.header("www-authenticate").unwrap().to_owned();
        let expected = format!("error=\"insufficient_scope\", scope=\"{scope}\"");
        assert!(challenge.ends_with(&expected), "{method} {path}: {challenge}");
        let body = reply.body().await;
        let first = scope.split(' ').next().unwrap();
        assert!(body.contains(&format!("lacks the scope `{first}`")), "{body}");
    }
    assert_eq!(get(&server, "/metrics", &[("x-api-key", OPS)]).await.status, 200);
    assert_eq!(get(&server, "/api/sessions", &[("x-api-key", EYE)]).await.status, 200);
    let ready = get(&server, "/ready", &[("x-api-key", ANN)]).await.json().await;
    assert!(ready.get("status").is_some() && ready.get("records").is_none(), "{ready}");
    let ready = get(&server, "/ready", &[("x-api-key", OPS)]).await.json().await;
    assert_eq!(ready["records"], "kept");
    let setup = self::setup().set("server.public_probes", "true");
    let public = setup.serve().await;
    assert_eq!(get(&public, "/ready", &[]).await.json().await["records"], "kept");
    assert_eq!(get(&public, "/metrics", &[]).await.status, 200);
    assert_eq!(get(&public, "/api/pools", &[]).await.status, 401);
}

/// Another owner's `Mcp-Session-Id` gets the same 404 as one that never existed, on every method; the client itself goes on.
#[tokio::test]
async fn foreign_mcp_sessions_are_unknown() {
    let setup = setup();
    let server = setup.serve().await;
    let ann = HttpMcpClient::open_with_key(&server, NEWEST, ANN).await;
    let bob = ann.with_key(BOB);
    let mut foreign = bob.post(&bob.message("ping", json!(null))).await;
    let unknown_id = "f".repeat(ann.session.len());
    let key = format!("Bearer {BOB}");
    let headers =
        [("authorization", &*key), ("content-type", "application/json"), ("mcp-session-id", &*unknown_id)];
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut unknown = server.connection().await.request("POST", "/mcp", &headers, Some(ping)).await;
    assert_eq!((foreign.status, unknown.status), (404, 404));
    assert_eq!(
        foreign.body().await.replace(&ann.session, "ID"),
        unknown.body().await.replace(&unknown_id, "ID")
    );
    assert_eq!(bob.listen(None).await.status, 404);
    assert_eq!(bob.delete().await.status, 404);
    assert_eq!(text_of(&ann.call("echo", json!({"text": "still here"})).await), "still here");
}

/// Runs `greenroom keys` with the data folder of the setup, and returns its stdout.
pub async fn keys(setup: &FakeEngineSetup, arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command.arg("keys").args(arguments).env_clear().envs(setup.environment()).current_dir(setup.path("home"));
    let output = within(TEST_TIMEOUT, command.output()).await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Asks again until a request with this key gets this status.
async fn until_status(server: &Server, key: &str, status: u16) {
    let poll = async { while get(server, "/api/sessions", &[("x-api-key", key)]).await.status != status {} };
    within(TEST_TIMEOUT, poll).await;
}

/// The first key closes a running server to requests without one: its stream ends, its MCP session is gone, and the control
/// socket goes on as `local`.
#[tokio::test]
async fn first_key_closes_a_running_server() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let keyless = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    keyless.call("echo", json!({"text": "a", "sessionId": "mine"})).await;
    let mut stream = keyless.listen(None).await;
    let ann = keys(&setup, &["create", "ann"]).await;
    while stream.event().await.is_some() {}
    assert_eq!(keyless.post(&keyless.message("ping", json!(null))).await.status, 401);
    assert_eq!(keyless.with_key(&ann).post(&keyless.message("ping", json!(null))).await.status, 404);
    let sessions = get(&server, "/api/sessions", &[("x-api-key", &ann)]).await.json().await;
    assert_eq!(sessions["sessions"], json!([]));
    let local = setup.client().await;
    assert_eq!(text_of(&local.call("echo", json!({"text": "same", "sessionId": "mine"})).await), "same");
    server.wait_for_stderr("there is an API key now").await;
    keys(&setup, &["revoke", "ann"]).await;
    until_status(&server, &ann, 401).await;
    assert_eq!(get(&server, "/api/sessions", &[]).await.status, 401, "revoking the last key opens nothing");
}

/// A revoked key loses its streams and its running call, and its sessions are closed; another owner's go on.
#[tokio::test]
async fn revoked_keys_lose_streams_and_sessions() {
    let setup = FakeEngineSetup::new();
    let ann_key = keys(&setup, &["create", "ann"]).await;
    let bob_key = keys(&setup, &["create", "bob"]).await;
    let server = setup.serve().await;
    let ann = HttpMcpClient::open_with_key(&server, NEWEST, &ann_key).await;
    let bob = HttpMcpClient::open_with_key(&server, NEWEST, &bob_key).await;
    for client in [&ann, &bob] {
        client.call("echo", json!({"text": "a", "sessionId": "named"})).await;
        client.call("echo", json!({"text": "a"})).await;
    }
    let mut ann_stream = ann.listen(None).await;
    let mut bob_stream = bob.listen(None).await;
    let gate = setup.gate("held");
    let call = json!({"sessionId": "named", "file": gate.path()});
    let mut running = ann.post(&ann.call_message("wait", call)).await;
    assert!(running.is_stream(), "the call runs");
    keys(&setup, &["revoke", "ann"]).await;
    while ann_stream.event().await.is_some() {}
    let answer = running.answer().await;
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("the API key is no longer valid"),
        "{answer}"
    );
    assert_eq!(get(&server, "/api/sessions", &[("x-api-key", &ann_key)]).await.status, 401);
    let ann_key = keys(&setup, &["rotate", "ann"]).await;
    until_status(&server, &ann_key, 200).await;
    let closed = async {
        let sessions = async || get(&server, "/api/sessions", &[("x-api-key", &ann_key)]).await.json().await;
        while sessions().await["sessions"] != json!([]) {}
    };
    within(TEST_TIMEOUT, closed).await;
    assert_eq!(text_of(&bob.call("echo", json!({"text": "on", "sessionId": "named"})).await), "on");
    bob.call("change_tools", json!({"sessionId": "named"})).await;
    assert_eq!(bob_stream.message().await["method"], "notifications/tools/list_changed");
}

/// A rotated key has its new secret at once, and the old one only with a grace time, which ends; its sessions stay.
#[tokio::test]
async fn rotated_keys_keep_their_sessions() {
    let setup = FakeEngineSetup::new();
    let first = keys(&setup, &["create", "ann"]).await;
    let server = setup.serve().await;
    let client = HttpMcpClient::open_with_key(&server, NEWEST, &first).await;
    client.call("echo", json!({"text": "a", "sessionId": "mine"})).await;
    let second = keys(&setup, &["rotate", "ann"]).await;
    until_status(&server, &first, 401).await;
    let sessions = get(&server, "/api/sessions", &[("x-api-key", &second)]).await.json().await;
    assert_eq!(sessions["sessions"][0]["name"], "mine", "{sessions}");
    let third = keys(&setup, &["rotate", "ann", "--grace", "1s"]).await;
    until_status(&server, &third, 200).await;
    until_status(&server, &second, 401).await;
    assert_eq!(get(&server, "/api/sessions", &[("x-api-key", &third)]).await.status, 200);
    assert_eq!(text_of(&client.with_key(&third).call("echo", json!({"text": "b"})).await), "b");
}

/// An expired key is refused, and loses its streams.
#[tokio::test]
async fn expired_keys_lose_their_streams() {
    let setup = FakeEngineSetup::new();
    keys(&setup, &["create", "ann"]).await;
    let server = setup.serve().await;
    let short = keys(&setup, &["create", "short", "--expires", "3s"]).await;
    until_status(&server, &short, 200).await;
    let client = HttpMcpClient::open_with_key(&server, NEWEST, &short).await;
    let mut stream = client.listen(None).await;
    while stream.event().await.is_some() {}
    assert_eq!(get(&server, "/api/sessions", &[("x-api-key", &short)]).await.status, 401);
}

/// A damaged file of keys stops the start, and changes nothing in a server that runs.
#[tokio::test]
async fn damaged_key_files_open_nothing() {
    let setup = FakeEngineSetup::new();
    let ann = keys(&setup, &["create", "ann"]).await;
    let server = setup.serve().await;
    std::fs::write(setup.data().join("keys.json"), "{}").unwrap();
    server.wait_for_stderr("the file of API keys is damaged").await;
    assert_eq!(get(&server, "/api/sessions", &[]).await.status, 401);
    assert_eq!(get(&server, "/api/sessions", &[("x-api-key", &ann)]).await.status, 200);
    let second = setup.launch(&["serve", "--listen", "127.0.0.1:0"]).spawn();
    assert_eq!(within(TEST_TIMEOUT, second.wait()).await.code(), Some(1));
    assert!(second.stderr().contains("the file of API keys is damaged"), "{}", second.stderr());
}

/// An owner has as many sessions as its key says, also when the key changes while the server runs; the refusal has the
/// figure and the limit, and says when to try again. Another owner is not concerned.
#[tokio::test]
async fn keys_limit_the_sessions_of_their_owner() {
    let setup = FakeEngineSetup::new();
    let created = run_verb(&setup, &["keys", "create", "cat", "--sessions", "1", "--json"]).await;
    let cat = created.json()["key"].as_str().unwrap().to_owned();
    let dan = run_verb(&setup, &["keys", "create", "dan", "--json"]).await.json()["key"]
        .as_str()
        .unwrap()
        .to_owned();
    let server = setup.serve().await;
    let open = async |key: &str, session: &str| {
        let headers = [("x-api-key", key), ("content-type", "application/json")];
        let body = json!({"tool": "echo", "params": {"text": "a"}, "session_id": session}).to_string();
        server.connection().await.request("POST", "/api/calls", &headers, Some(&body)).await
    };
    assert_eq!(open(&cat, "one").await.status, 200);
    let mut refused = open(&cat, "two").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let problem = refused.json().await;
    assert!(problem["message"].as_str().unwrap().contains("at most 1"), "{problem}");
    for session in ["one", "two", "three"] {
        assert_eq!(open(&dan, session).await.status, 200, "the server's own limit is 3");
    }
    assert_eq!(open(&dan, "four").await.status, 429);
    assert_eq!(open(&cat, "one").await.status, 200, "an open session goes on");
}
