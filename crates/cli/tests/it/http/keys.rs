//! Requests with and without API keys, as they come over the network.

use greenroom_testkit::{
    http::{HttpMcpClient, Reply, Server},
    text_of,
};
use serde_json::json;

use crate::front::fixture::{FakeEngineSetup, NEWEST};

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
