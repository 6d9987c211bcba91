//! Servers that other machines can reach: where they may listen, what they refuse before they look at a key, and the headers
//! of their answers.

use greenroom_testkit::{
    TEST_TIMEOUT,
    http::{HttpConnection, Server},
    within,
};
use serde_json::json;

use super::keys::{ANN, OPS, setup};
use crate::front::fixture::FakeEngineSetup;

/// Without keys a server refuses an address beyond loopback, and says what to do; with keys it listens there, needs a key
/// from this machine too, and guards its network.
#[tokio::test]
async fn addresses_beyond_loopback_need_keys() {
    let keyless = FakeEngineSetup::new();
    let refused = keyless.launch(&["serve", "--listen", "0.0.0.0:0"]).spawn();
    assert_eq!(within(TEST_TIMEOUT, refused.wait()).await.code(), Some(2));
    let said = refused.stderr();
    assert!(said.contains("refusing to listen beyond this machine without API keys"), "{said}");
    assert!(said.contains("greenroom keys create NAME") && said.contains("GREENROOM_API_KEYS"), "{said}");
    let setup = setup();
    let server = Server::start(setup.launch(&["serve", "--listen", "0.0.0.0:0"])).await;
    server.wait_for_stderr("is reached without TLS").await;
    let address = ([127, 0, 0, 1], server.address().port()).into();
    let get = async |headers: &[(&str, &str)]| {
        HttpConnection::connect(address).await.request("GET", "/api/sessions", headers, None).await.status
    };
    assert_eq!(get(&[]).await, 401);
    assert_eq!(get(&[("x-api-key", ANN)]).await, 200);
    assert_eq!(get(&[("x-api-key", ANN), ("host", "192.0.2.7:1")]).await, 200, "any address of the machine");
    assert_eq!(get(&[("x-api-key", ANN), ("host", "evil.example")]).await, 403);
}

/// Every answer has the headers that keep browsers from framing, guessing, keeping and leaking it, refusals too; and no page
/// of another origin may read one.
#[tokio::test]
async fn answers_have_security_headers() {
    let setup = setup();
    let server = setup.serve().await;
    for (path, headers, status) in [
        ("/", &[("x-api-key", ANN)][..], 200),
        ("/health", &[], 200),
        ("/metrics", &[("x-api-key", OPS)], 200),
        ("/api/sessions", &[("x-api-key", ANN)], 200),
        ("/api/sessions", &[], 401),
        ("/nothing", &[("x-api-key", ANN)], 404),
        ("/mcp", &[("x-api-key", ANN), ("host", "evil.example")], 403),
        ("/api/sessions", &[("x-api-key", ANN), ("origin", "https://app.example")], 403),
    ] {
        let reply = server.connection().await.request("GET", path, headers, None).await;
        assert_eq!(reply.status, status, "{path} {headers:?}");
        assert!(
            reply.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"),
            "{path}"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path} {status}: {name}");
        }
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
    }
}

/// A page of a configured origin may ask first, without a key, and use the server with one; no other page may.
#[tokio::test]
async fn configured_origins_use_the_server() {
    let setup = setup().set("server.allowed_origins", "https://app.example");
    let server = setup.serve().await;
    let ask = async |origin: &str, method: &str, headers: &[(&str, &str)]| {
        let headers: Vec<_> = [("origin", origin), ("sec-fetch-site", "cross-site")]
            .into_iter()
            .chain(headers.iter().copied())
            .collect();
        server.connection().await.request(method, "/api/sessions", &headers, None).await
    };
    let preflight =
        [("access-control-request-method", "GET"), ("access-control-request-headers", "x-api-key")];
    let reply = ask("https://app.example", "OPTIONS", &preflight).await;
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (204, Some("https://app.example"))
    );
    assert!(reply.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(reply.header("access-control-allow-credentials"), None);
    assert_eq!(ask("https://app.example", "GET", &[("x-api-key", ANN)]).await.status, 200);
    assert_eq!(ask("https://app.example", "GET", &[]).await.status, 401);
    assert_eq!(ask("https://evil.example", "OPTIONS", &preflight).await.status, 403);
    assert_eq!(ask("https://evil.example", "GET", &[("x-api-key", ANN)]).await.status, 403);
}

/// A head of a megabyte, and one with a thousand headers, get 431; the server goes on.
#[tokio::test]
async fn huge_heads_are_refused() {
    let setup = setup();
    let server = setup.serve().await;
    let long = "x".repeat(1024 * 1024);
    for header in [("x-api-key", &*long), ("x-other", &*long)] {
        let reply = server.connection().await.request_or_end("GET", "/api/sessions", &[header], None).await;
        // The server may close before it has read all of it.
        assert!(reply.is_none_or(|reply| reply.status == 431), "{}", header.0);
    }
    let many: Vec<_> = (0..1_000).map(|_| ("x-other", "a")).collect();
    let reply = server.connection().await.request("GET", "/api/sessions", &many, None).await;
    assert_eq!(reply.status, 431);
    let reply = server.connection().await.request("GET", "/api/sessions", &[("x-api-key", ANN)], None).await;
    assert_eq!(reply.status, 200);
}

/// A line break in a header is no way to a second header, in either direction: neither through a key nor through an id that
/// an answer repeats.
#[tokio::test]
async fn headers_cannot_be_injected() {
    let setup = setup();
    let server = setup.serve().await;
    let mut connection = server.connection().await;
    connection
        .send(format!("GET /api/sessions HTTP/1.1\r\nhost: localhost\r\nx-other: a\nx-api-key: {ANN}\r\n"))
        .await;
    connection.send("\r\n").await;
    // A lone line feed ends a header for some programs and not for others; here it is at most a header of its own.
    let reply = connection.reply().await;
    assert!(matches!(reply.status, 200 | 400 | 401), "{}", reply.status);
    for path in ["/api/sessions/a%0d%0ax-evil:%201", "/api/blobs/a%0d%0ax-evil:%201", "/%0d%0ax-evil:%201"] {
        let reply = server.connection().await.request("GET", path, &[("x-api-key", ANN)], None).await;
        assert!(reply.status >= 400 && reply.header("x-evil").is_none(), "{path}");
    }
    let mut smuggled = server.connection().await;
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-api-key: {ANN}\r\n");
    smuggled
        .send(format!(
            "{head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n"
        ))
        .await;
    assert!(smuggled.reply().await.status >= 400, "two lengths");
}

/// Clients that send half a request hold up no other client.
#[tokio::test]
async fn slow_clients_hold_up_no_other() {
    let setup = setup();
    let server = setup.serve().await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut connection = server.connection().await;
        connection.send("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-").await;
        slow.push(connection);
    }
    let reply = server.connection().await.request("GET", "/api/sessions", &[("x-api-key", ANN)], None).await;
    assert_eq!(reply.status, 200);
}

/// The public URL begins the links in answers, and its host is one of the server's names.
#[tokio::test]
async fn public_url_is_a_name_of_the_server() {
    let setup = setup().set("server.public_url", "https://browsers.example");
    let server = setup.serve().await;
    let headers = [("x-api-key", ANN), ("host", "browsers.example")];
    let mut reply = server.connection().await.request("GET", "/", &headers, None).await;
    assert_eq!(reply.status, 200);
    assert!(reply.body().await.contains("https://browsers.example/mcp"));
    assert_eq!(json!(server.url()).as_str().unwrap().find("https"), None);
}
