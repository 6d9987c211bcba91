//! Pools over REST: listing, changes, and errors for programs.

use greenroom_testkit::{http::Server, text_of, until_some};
use serde_json::{Value, json};

use super::http_client;
use crate::front::{fixture::FakeEngineSetup, pools::two_pools};

pub const JSON: (&str, &str) = ("content-type", "application/json");

pub async fn get(server: &Server, path: &str) -> (u16, Value) {
    let mut reply = server.get(path).await;
    (reply.status, reply.json().await)
}

pub async fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut reply = server.connection().await.request("POST", path, headers, Some(body)).await;
    (reply.status, reply.json().await)
}

/// The pools are listed with their sums, each alone too, and its health.
#[tokio::test]
async fn pools_are_listed_with_health() {
    let setup = FakeEngineSetup::new().set("pool.warm", "0");
    let server = setup.serve().await;
    http_client(&server).await.call("echo", json!({"text": "a"})).await;
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

/// An impossible request has the right status, and the error names the mistake.
#[tokio::test]
async fn invalid_pool_requests_are_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
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

/// The pools' routes have the same checks as all others of this server.
#[tokio::test]
async fn web_pages_cannot_use_the_pools_api() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    for header in [("origin", "https://evil.example"), ("host", "evil.example")] {
        for (method, path) in
            [("GET", "/api/pools"), ("POST", "/api/pools/DEFAULT/restart"), ("GET", "/api/x")]
        {
            let reply = server.connection().await.request(method, path, &[header], None).await;
            assert_eq!(reply.status, 403, "{method} {path} {header:?}");
        }
    }
}

/// Asks again until `wanted` accepts the pool: no message announces the effect of a command.
pub async fn until(server: &Server, pool: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/api/pools/{pool}");
    until_some("the pool as it should be", async || Some(get(server, &path).await.1).filter(&wanted)).await
}

pub fn healthy(count: usize) -> impl Fn(&Value) -> bool {
    move |pool| pool["healthy_instances"] == count && pool["total_instances"] == count
}

/// A pool grows at once and shrinks without cutting a lease short.
#[tokio::test]
async fn pool_scales_without_ending_leases() {
    let setup = two_pools(FakeEngineSetup::new());
    let server = setup.serve().await;
    let client = http_client(&server).await;
    until(&server, "SIDE_JOBS", healthy(1)).await;
    let scale = "/api/pools/SIDE_JOBS/scale";
    let grown = post(&server, scale, &[JSON], r#"{"instances":3}"#).await;
    assert_eq!(grown, (200, json!({"pool": "SIDE_JOBS", "from": 1, "to": 3, "draining": []})));
    until(&server, "SIDE_JOBS", healthy(3)).await;
    let gate = setup.gate("gate");
    let arguments = json!({"file": gate.path(), "browser_pool": "SIDE_JOBS", "browser_instance": "2"});
    let held = client.send(&client.call_message("wait", arguments)).await;
    gate.arrived(1).await;
    let (status, shrunk) = post(&server, scale, &[JSON], r#"{"instances":1}"#).await;
    assert_eq!((status, &shrunk["from"], &shrunk["to"]), (200, &json!(3), &json!(1)));
    assert_eq!(shrunk["draining"], json!(["2", "1"]));
    until(&server, "SIDE_JOBS", |pool| pool["total_instances"] == 2).await;
    gate.open();
    assert_eq!(text_of(&held.reply().await.answer().await), "released");
    until(&server, "SIDE_JOBS", healthy(1)).await;
}

/// An instance is drained, and brought back by a restart; by number, by alias, or all of a pool.
#[tokio::test]
async fn instances_can_be_drained_and_restarted() {
    let setup = two_pools(FakeEngineSetup::new());
    let server = setup.serve().await;
    let ids = |pool: &Value| -> Vec<Value> {
        pool["instances"].as_array().unwrap().iter().map(|one| one["process_id"].clone()).collect()
    };
    let before = ids(&until(&server, "MAIN", healthy(3)).await);
    let drain = "/api/pools/MAIN/drain";
    let drained = post(&server, drain, &[JSON], r#"{"instance":"main_browser"}"#).await;
    assert_eq!(drained, (200, json!({"pool": "MAIN", "instances": ["2"]})));
    until(&server, "MAIN", |pool| pool["available_instances"] == 2).await;
    let restart = "/api/pools/MAIN/restart";
    assert_eq!(post(&server, restart, &[JSON], r#"{"instance":2}"#).await.1["instances"], json!(["2"]));
    let after = until(&server, "MAIN", |pool| pool["available_instances"] == 3).await;
    assert_eq!(ids(&after)[..2], before[..2]);
    assert_ne!(ids(&after)[2], before[2]);
    assert_eq!(post(&server, restart, &[], "").await.1["instances"], json!(["0", "1", "2"]));
    let all_new = |pool: &Value| {
        pool["healthy_instances"] == 3 && ids(pool).iter().zip(&before).all(|(now, then)| now != then)
    };
    until(&server, "MAIN", all_new).await;
    let (status, said) = post(&server, drain, &[JSON], r#"{"instance":"9"}"#).await;
    assert_eq!(
        (status, &said["error"], &said["details"]["instance"]),
        (404, &json!("no_such_instance"), &json!("9"))
    );
}

/// A pool without a healthy instance is unavailable, with the documented error, in its health; so is the server if it is
/// the default pool, until a restart repairs it.
#[tokio::test]
async fn pool_without_a_healthy_instance_is_unavailable() {
    let setup = two_pools(FakeEngineSetup::new())
        .script(r#"if test -e "$0/mended" || ! test -e "$0/broken"; then exec "$@"; fi; exit 3"#)
        .pools("MAIN_RESTARTS", "0");
    setup.gate("broken").open();
    let server = setup.serve().await;
    let words =
        "Default pool 'MAIN' has no healthy instances. Specify explicit pool or restart failed instances.";
    until(&server, "MAIN", |pool| {
        pool["instances"].as_array().unwrap().iter().all(|one| one["status"] == "failed")
    })
    .await;
    let (status, said) = get(&server, "/api/pools/MAIN/health").await;
    assert_eq!(
        (status, &said["error"], &said["message"]),
        (503, &json!("no_healthy_instance"), &json!(words))
    );
    let (status, said) = get(&server, "/ready").await;
    assert_eq!((status, &said["message"]), (503, &json!(words)));
    setup.gate("mended").open();
    post(&server, "/api/pools/MAIN/restart", &[JSON], "{}").await;
    until(&server, "MAIN", healthy(3)).await;
    assert_eq!(get(&server, "/api/pools/MAIN/health").await, (200, json!({"status": "ok"})));
    assert_eq!(get(&server, "/ready").await.0, 200);
}
