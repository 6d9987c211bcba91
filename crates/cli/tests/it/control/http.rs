//! The control socket for programs: HTTP, JSON, and errors that say what is wrong.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use greenroom_testkit::{TEST_TIMEOUT, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::run_verb::{run_verb, socket};
use crate::front::fixture::FakeEngineSetup;

/// Sends a request and returns the status and the body.
async fn request(socket: &Path, line: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: greenroom\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(TEST_TIMEOUT, stream.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Refusals have the right status and a code, and disturb nothing else.
#[tokio::test]
async fn control_api_refusals_have_status_and_code() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let socket = socket(&setup, &client);
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    for (line, status, code) in [
        ("GET /control/sessions/local:b", 404, "no_session"),
        ("GET /control/sessions/a", 404, "no_session"),
        ("GET /control/sessions/other:a", 404, "no_session"),
        ("DELETE /control/sessions/local:b", 404, "no_session"),
        ("DELETE /control/sessions/local%2399", 404, "no_session"),
        ("DELETE /control/sessions/%00", 404, "no_session"),
        ("GET /control/logs?follow=perhaps", 400, "bad_query"),
        ("GET /control/logs?folow=true", 400, "bad_query"),
        ("GET /control", 404, "no_route"),
        ("GET /", 404, "no_route"),
    ] {
        let (got, body) = request(&socket, line).await;
        let body: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{line}: {body}"));
        assert_eq!((got, &body["error"]["code"]), (status, &json!(code)), "{line}: {body}");
        assert!(body["error"]["message"].is_string() && body["error"].get("hint").is_some(), "{body}");
    }
    assert_eq!(request(&socket, "POST /control/sessions").await.0, 405);
    assert_eq!(request(&socket, "GET /control/sessions/%ff").await.0, 400);
    assert_eq!(request(&socket, "NONSENSE").await.0, 400);
    let (status, body) = request(&socket, "GET /control/sessions/local%3Aa").await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()["id"].clone()), (200, json!("a")));
}

/// Only its user may connect to the socket.
#[tokio::test]
async fn control_socket_admits_its_user_only() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let socket = socket(&setup, &client);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
}

/// A follower that never reads, and a client that sends nothing, keep greenroom neither from working nor from ending.
#[tokio::test]
async fn idle_control_clients_block_nothing() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let socket = socket(&setup, &client);
    let mut follower = UnixStream::connect(&socket).await.unwrap();
    follower.write_all(b"GET /control/logs?follow=true HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut slow = UnixStream::connect(&socket).await.unwrap();
    slow.write_all(b"GET /control/st").await.unwrap();
    let silent = UnixStream::connect(&socket).await.unwrap();
    for n in 0..20 {
        client.call("echo", json!({"sessionId": n.to_string(), "text": "a"})).await;
        client.call("session_close", json!({"sessionId": n.to_string()})).await;
    }
    assert_eq!(run_verb(&setup, &["status"]).await.code, 0);
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert!(!socket.exists());
    drop((follower, slow, silent));
}
