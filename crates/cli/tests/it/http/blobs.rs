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
        ("content-security-policy", "sandbox"),
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
