//! Requests that are refused before they reach anything, and their errors.

use greenroom_testkit::{
    http::{HttpMcpClient, Server},
    text_of,
};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, NEWEST};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const LIMIT: usize = 16 * 1024 * 1024;

/// Method, path, headers and body of a request; then the expected status and message.
type RefusalCase<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

/// Sends a request and returns the status and the message.
async fn refused(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let body = (method == "POST").then_some(body);
    let mut reply = server.connection().await.request(method, path, headers, body).await;
    let text = reply.body().await;
    let response =
        serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{method} {path}: `{text}`"));
    (reply.status, response["error"]["message"].as_str().unwrap_or_default().to_owned())
}

/// A request whose arguments two programs could read differently is answered under its id, with their place: with 200 in
/// a session, which goes on, and with 400 alone. No engine sees it.
#[tokio::test]
async fn ambiguous_arguments_are_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let json = ("content-type", "application/json");
    let session = ("mcp-session-id", client.session.as_str());
    for (arguments, says) in [
        (r#"{"text":"\ud800"}"#, "`arguments.text` is not valid Unicode"),
        (r#"{"text":"a","te\u0078t":"b"}"#, r"`arguments.te\u0078t` is given twice"),
        (r#"{"__proto__":{"text":"a"}}"#, "`arguments.__proto__` is a name"),
    ] {
        let params = format!(r#"{{"name":"echo","arguments":{arguments}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{params}}}"#);
        for (headers, status) in [(&[json, session][..], 200), (&[json], 400)] {
            let mut reply = server.connection().await.request("POST", "/mcp", headers, Some(&body)).await;
            assert_eq!(reply.status, status, "{arguments}");
            let answer = reply.answer().await;
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(answer["id"] == "q" && message.contains(says), "{answer}");
        }
        let call = format!(r#"{{"tool":"echo","params":{arguments}}}"#);
        let mut reply = server.connection().await.request("POST", "/api/calls", &[json], Some(&call)).await;
        let status = reply.status;
        let response = reply.body().await;
        assert!(
            status == 400 && response.contains("the body cannot be used: `params."),
            "{status}: {response}"
        );
    }
    assert_eq!(setup.log().count("tools/call echo"), 0);
    assert_eq!(text_of(&client.call("echo", json!({ "text": "goes on" })).await), "goes on");
}

/// Every mistake has its status and a sentence that names it, and affects no other client.
#[tokio::test]
async fn invalid_http_requests_are_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let json = ("content-type", "application/json");
    let session = ("mcp-session-id", client.session.as_str());
    let cases: &[RefusalCase<'_>] = &[
        ("POST", "/mcp", &[json], PING, 400, "`Mcp-Session-Id` is missing"),
        ("GET", "/mcp", &[], "", 400, "`Mcp-Session-Id` is missing"),
        ("DELETE", "/mcp", &[], "", 400, "`Mcp-Session-Id` is missing"),
        (
            "POST",
            "/mcp",
            &[json, ("mcp-session-id", "nobody")],
            PING,
            404,
            "no such `Mcp-Session-Id`: `nobody`",
        ),
        ("GET", "/mcp", &[("mcp-session-id", "nobody")], "", 404, "no such `Mcp-Session-Id`"),
        ("DELETE", "/mcp", &[("mcp-session-id", "")], "", 404, "no such `Mcp-Session-Id`"),
        ("POST", "/mcp", &[json, ("mcp-session-id", "ä")], PING, 404, "no such `Mcp-Session-Id`"),
        ("POST", "/mcp", &[json, session, ("mcp-protocol-version", "1999-01-01")], PING, 400, "`1999-01-01`"),
        ("GET", "/mcp", &[session, ("mcp-protocol-version", "1999-01-01")], "", 400, "`1999-01-01`"),
        ("DELETE", "/mcp", &[session, ("mcp-protocol-version", "1999-01-01")], "", 400, "`1999-01-01`"),
        ("POST", "/mcp", &[session], PING, 415, "`application/json`"),
        ("POST", "/mcp", &[session, ("content-type", "text/plain")], PING, 415, "`application/json`"),
        ("POST", "/mcp", &[json, session, ("accept", "text/html")], PING, 406, "accept both"),
        ("GET", "/mcp", &[session, ("accept", "application/json")], "", 406, "`text/event-stream`"),
        ("POST", "/mcp", &[json, session], "{", 400, "not JSON"),
        ("POST", "/mcp", &[json, session], "", 400, "not JSON"),
        ("POST", "/mcp", &[json, session], "[]", 400, "an empty batch"),
        ("POST", "/mcp", &[json, session], "{}", 400, "not a JSON-RPC message"),
        ("GET", "/nowhere", &[], "", 404, "MCP is at /mcp"),
        ("POST", "/mcp/", &[json, session], PING, 404, "MCP is at /mcp"),
        ("GET", "/control/status", &[], "", 404, "MCP is at /mcp"),
        ("PUT", "/mcp", &[session], "", 405, "does not accept this method"),
        ("POST", "/health", &[json], PING, 405, "does not accept this method"),
        ("GET", "/front", &[], "", 426, "upgrade to `greenroom-front`"),
        ("GET", "/health", &[("host", "rebound.example")], "", 403, "`rebound.example`"),
        ("POST", "/mcp", &[json, session, ("host", "localhost.rebound.example")], PING, 403, "allowed_hosts"),
        ("POST", "/mcp", &[json, session, ("origin", "https://evil.example")], PING, 403, "another origin"),
        ("POST", "/mcp", &[json, session, ("origin", "null")], PING, 403, "another origin"),
        ("POST", "/mcp", &[json, session, ("origin", "http://localhost:3000")], PING, 403, "another origin"),
        (
            "GET",
            "/front",
            &[("upgrade", "greenroom-front"), ("connection", "upgrade"), ("origin", "http://a")],
            "",
            403,
            "another origin",
        ),
    ];
    for (method, path, headers, body, status, says) in cases {
        let (got, response) = refused(&server, method, path, headers, body).await;
        assert_eq!(got, *status, "{method} {path} {headers:?}: {response}");
        assert!(response.contains(says), "{method} {path} {headers:?}: {response}");
    }
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
}

/// The server accepts requests from its own pages, and with further host names from the settings.
#[tokio::test]
async fn own_origin_and_configured_hosts_are_allowed() {
    let setup = FakeEngineSetup::new().set("server.allowed_hosts", "browsers.example");
    let server = setup.serve().await;
    let host = server.address().to_string();
    let own = format!("http://{host}");
    for headers in [
        &[("origin", own.as_str())][..],
        &[("host", "localhost")],
        &[("host", "browsers.example:443")],
        &[("host", "browsers.example"), ("origin", "https://browsers.example")],
    ] {
        let reply = server.connection().await.request("GET", "/health", headers, None).await;
        assert_eq!(reply.status, 200, "{headers:?}");
    }
}

/// A body over the limit is refused with the limit: at once when its length is announced, else when it reaches the limit.
#[tokio::test]
async fn body_over_the_limit_is_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {}\r\n",
        client.session
    );
    let mut announced = server.connection().await;
    announced.send(format!("{head}content-length: {}\r\n\r\n", LIMIT + 1)).await;
    let mut chunked = server.connection().await;
    chunked.send(format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
    for _ in 0..LIMIT / 0x10_0000 {
        chunked.send(&chunk).await;
    }
    chunked.send("1\r\n \r\n").await;
    for connection in [announced, chunked] {
        let mut reply = connection.reply().await;
        assert_eq!(reply.status, 413);
        let response = reply.json().await;
        assert!(
            response["error"]["message"].as_str().unwrap().contains("at most 16777216 bytes"),
            "{response}"
        );
    }
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
}

/// An error repeats a name from a path, a header or a body, but not all of one that is very long.
#[tokio::test]
async fn errors_shorten_long_names() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    // As long as the head of a request may be, about.
    let long = "n".repeat(100_000);
    let long = long.as_str();
    let json = ("content-type", "application/json");
    let accept = ("accept", "text/event-stream");
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let session = ("mcp-session-id", client.session.as_str());
    let paths = ["calls", "blobs", "sessions", "pools", ""].map(|of| format!("/api/{of}/{long}"));
    let query = format!("/api/calls?{long}=1");
    let tool = json!({"tool": long, "session_id": "s"}).to_string();
    let pool = json!({"tool": "pid", "session_id": "s", "params": {"browser_pool": long}}).to_string();
    let field = json!({"tool": "pid", (long): 1}).to_string();
    let named = json!({"tool": "pid", "session_id": "s", "request_id": long}).to_string();
    let mut cases = vec![
        ("GET", query.as_str(), vec![], ""),
        ("POST", "/api/calls", vec![json], tool.as_str()),
        ("POST", "/api/calls", vec![json], pool.as_str()),
        ("POST", "/api/calls", vec![json], field.as_str()),
        ("POST", "/api/calls", vec![json], named.as_str()),
        ("POST", "/mcp", vec![json, ("mcp-session-id", long)], PING),
        ("POST", "/mcp", vec![json, session, ("mcp-protocol-version", long)], PING),
        ("GET", "/mcp", vec![accept, session, ("last-event-id", long)], ""),
        ("GET", "/health", vec![("host", long)], ""),
        ("GET", "/health", vec![("origin", long)], ""),
        ("GET", "/ready", vec![("sec-fetch-site", long)], ""),
    ];
    cases.extend(paths.iter().map(|path| ("GET", path.as_str(), vec![], "")));
    for (method, path, headers, body) in cases {
        let body = (method == "POST").then_some(body);
        let mut reply = server.connection().await.request(method, path, &headers, body).await;
        let status = reply.status;
        let response = reply.body().await;
        let what =
            format!("{method} {} {:?}", &path[..path.len().min(20)], headers.last().map(|(name, _)| name));
        assert!((400..500).contains(&status), "{what}: {status}");
        assert!(response.len() < 2_000, "{what}: {} bytes", response.len());
    }
}
