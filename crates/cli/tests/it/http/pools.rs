//! Pools over REST: what there is, what can be changed, and refusals that programs understand.

use greenroom_testkit::http::Server;
use serde_json::{Value, json};

use super::remote;
use crate::front::stage::Stage;

const JSON: (&str, &str) = ("content-type", "application/json");

async fn get(server: &Server, path: &str) -> (u16, Value) {
    let mut reply = server.get(path).await;
    (reply.status, reply.json().await)
}

async fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut reply = server.wire().await.request("POST", path, headers, Some(body)).await;
    (reply.status, reply.json().await)
}

/// The pools are listed with their sums, one can be asked for alone, and its health too.
#[tokio::test]
async fn pools_are_shown() {
    let stage = Stage::new().set("pool.warm", "0");
    let server = stage.serve().await;
    remote(&server).await.call("echo", json!({"text": "a"})).await;
    let (status, all) = get(&server, "/api/pools").await;
    assert_eq!(status, 200);
    assert_eq!(all.as_object().unwrap().keys().collect::<Vec<_>>(), ["pools", "summary"]);
    let pool = &all["pools"][0];
    assert_eq!((&pool["name"], &pool["is_default"]), (&json!("DEFAULT"), &json!(true)));
    assert_eq!(
        (&pool["instances"][0]["id"], &pool["instances"][0]["leased_slots"]),
        (&json!("0"), &json!(1))
    );
    assert_eq!(all["summary"]["total_pools"], 1);
    let (status, one) = get(&server, "/api/pools/DEFAULT").await;
    assert_eq!((status, &one["name"], &one["total_instances"]), (200, &json!("DEFAULT"), &json!(1)));
    assert_eq!(get(&server, "/api/pools/DEFAULT/health").await, (200, json!({"status": "ok"})));
}

/// What cannot be done has the right status and names what is wrong.
#[tokio::test]
async fn refusals() {
    let stage = Stage::new();
    let server = stage.serve().await;
    for path in ["/api/pools/TESTING", "/api/pools/TESTING/health"] {
        let (status, said) = get(&server, path).await;
        assert_eq!((status, &said["error"]), (404, &json!("no_such_pool")));
        assert_eq!(said["message"], r#"no such pool: "TESTING"; there is "DEFAULT""#);
        assert_eq!(said["details"], json!({"pool": "TESTING", "known": ["DEFAULT"]}));
    }
    let scale = "/api/pools/DEFAULT/scale";
    for (path, headers, body, status, error) in [
        (scale, &[JSON][..], r#"{"instances":2}"#, 409, "not_fixed"),
        ("/api/pools/TESTING/scale", &[JSON], r#"{"instances":2}"#, 404, "no_such_pool"),
        (scale, &[], r#"{"instances":2}"#, 415, "unsupported_media_type"),
        (scale, &[JSON], "", 400, "bad_request"),
        (scale, &[JSON], "{", 400, "bad_request"),
        (scale, &[JSON], "{}", 400, "bad_request"),
        (scale, &[JSON], r#"{"instances":0}"#, 400, "bad_request"),
        (scale, &[JSON], r#"{"instances":1025}"#, 400, "bad_request"),
        (scale, &[JSON], r#"{"instances":-1}"#, 400, "bad_request"),
        (scale, &[JSON], r#"{"instances":2,"now":true}"#, 400, "bad_request"),
        ("/api/pools/DEFAULT/restart", &[JSON], r#"{"instance":[]}"#, 400, "bad_request"),
        ("/api/pools/DEFAULT/grow", &[JSON], "{}", 404, "no_route"),
        ("/api/pools", &[JSON], "{}", 405, "wrong_method"),
    ] {
        let (got, said) = post(&server, path, headers, body).await;
        assert_eq!((got, &said["error"]), (status, &json!(error)), "{path} {body}: {said}");
        assert!(said["message"].is_string() && said["details"].is_object(), "{said}");
    }
    let big = " ".repeat(70_000);
    assert_eq!(post(&server, scale, &[JSON], &big).await.0, 413);
    assert_eq!(get(&server, "/api/nothing").await.1["error"], "no_route");
}

/// Pools are behind the same checks as everything else at this door.
#[tokio::test]
async fn pages_may_not_command() {
    let stage = Stage::new();
    let server = stage.serve().await;
    for header in [("origin", "https://evil.example"), ("host", "evil.example")] {
        for (method, path) in
            [("GET", "/api/pools"), ("POST", "/api/pools/DEFAULT/restart"), ("GET", "/api/x")]
        {
            let reply = server.wire().await.request(method, path, &[header], None).await;
            assert_eq!(reply.status, 403, "{method} {path} {header:?}");
        }
    }
}
