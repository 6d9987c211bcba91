//! Pictures and files of answers, fetched over HTTP.

use serde_json::json;

use super::{http_client, pools::get};
use crate::front::fixture::FakeEngineSetup;

/// A picture is stored once however often it comes, is fetched with its type, and is not sent again to a client that has it.
#[tokio::test]
async fn blob_is_stored_once_and_revalidated() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    for _ in 0..2 {
        client.call("echo", json!({"text": "a", "rich": true, "sessionId": "a"})).await;
    }
    let (_, listed) = get(&server, "/api/calls").await;
    let of = async |n: usize| {
        let id = listed["calls"][n]["ref_id"].as_str().unwrap().to_owned();
        get(&server, &format!("/api/calls/{id}")).await.1["blobs"].clone()
    };
    let newer = of(0).await;
    let older = of(1).await;
    assert_eq!(newer, older);
    let picture = newer.as_array().unwrap().iter().find(|blob| blob["mime_type"] == "image/png").unwrap();
    let path = picture["url"].as_str().unwrap();
    let reply = server.get(path).await;
    let tag = format!("\"{}\"", picture["sha256"].as_str().unwrap());
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-disposition", "inline"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        ("etag", &tag),
        ("content-length", &picture["bytes"].to_string()),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    let again = server.connection().await.request("GET", path, &[("if-none-match", &tag)], None).await;
    assert_eq!(again.status, 304);
    let (_, all) = get(&server, "/api/blobs").await;
    let blobs = all["blobs"].as_array().unwrap();
    assert!(blobs.contains(picture) && all["next_offset"].is_null(), "{all}");
    let (_, one) = get(&server, "/api/blobs?limit=1").await;
    assert_eq!((&one["blobs"][0], &one["next_offset"]), (&blobs[0], &json!(1)), "{one}");
    assert_eq!(get(&server, "/api/blobs?limit=0").await.0, 400);
    let (status, said) = get(&server, &format!("/api/blobs/{}", "0".repeat(64))).await;
    assert_eq!((status, &said["error"]), (404, &json!("no_such_blob")));
}

/// A file that a program uploads is kept with its name and type; bad names, empty and oversized files are refused by what is
/// wrong with them.
#[tokio::test]
async fn files_are_uploaded_within_limits() {
    let setup = FakeEngineSetup::new().set("blobs.upload_bytes_max", "2048");
    let server = setup.serve().await;
    let put = async |query: &str, mime: &str, body: &str| {
        let connection = server.connection().await;
        let path = format!("/api/blobs{query}");
        connection.request("PUT", &path, &[("content-type", mime)], Some(body)).await
    };
    let mut reply = put("?name=cv.txt", "text/plain", "my words").await;
    let uploaded = reply.json().await;
    assert_eq!(reply.status, 201, "{uploaded}");
    let id = uploaded["sha256"].as_str().unwrap();
    assert_eq!(uploaded["uri"], format!("greenroom://blobs/{id}"));
    assert_eq!((&uploaded["name"], &uploaded["bytes"]), (&json!("cv.txt"), &json!(8)));
    assert_eq!((&uploaded["mime_type"], &uploaded["ttl_seconds"]), (&json!("text/plain"), &json!(86400)));
    let mut fetched = server.get(uploaded["url"].as_str().unwrap()).await;
    assert_eq!(fetched.body().await, "my words");
    let (_, calls) = get(&server, "/api/calls").await;
    assert_eq!(calls["calls"][0]["metadata"]["tool"], "blob_upload", "{calls}");

    let long = format!("?name={}", "n".repeat(256));
    for (query, body, status, why) in [
        ("?name=a%2Fb", "x", 400, "must be a file's name"),
        ("?name=", "x", 400, "must be a file's name"),
        ("?name=a%0Ab", "x", 400, "must be a file's name"),
        (&long, "x", 400, "must be a file's name"),
        ("?nam=a", "x", 400, "unknown parameter `nam`"),
        ("", "", 400, "the body is empty"),
        ("", &"x".repeat(2049), 413, "at most 2048 bytes"),
    ] {
        let mut reply = put(query, "text/plain", body).await;
        let problem = reply.json().await;
        assert_eq!(reply.status, status, "{query}: {problem}");
        assert!(problem["message"].as_str().unwrap().contains(why), "{query}: {problem}");
    }
}
