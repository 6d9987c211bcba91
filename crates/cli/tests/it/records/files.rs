//! Blobs: stored once, found again, separate per pool where configured.

use std::{fs, path::Path};

use greenroom_testkit::{Client, eventually};
use serde_json::json;

use super::database::RecordsDb;
use crate::{
    front::fixture::{FakeEngineSetup, failure},
    http::http_client,
};

/// How many files there are below a folder.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let entries: Vec<_> = entries.unwrap_or_default();
    entries.iter().map(|path| if path.is_dir() { files(path) } else { 1 }).sum()
}

fn two_pools(setup: FakeEngineSetup) -> FakeEngineSetup {
    setup.pools("MAIN_INSTANCES", "1").pools("MAIN_IS_DEFAULT", "true").pools("SIDE_INSTANCES", "1")
}

/// Equal pictures are one file, whatever session took them and however often; another picture is another file.
#[tokio::test]
async fn equal_pictures_share_one_blob() {
    let setup = two_pools(FakeEngineSetup::new());
    let client = setup.client().await;
    let blobs = setup.data().join("blobs");
    for pool in ["MAIN", "SIDE", "MAIN"] {
        let answer = client.call("picture", json!({"number": 1, "bytes": 3_000, "browser_pool": pool})).await;
        assert_eq!(answer["result"]["content"][1]["type"], "image", "{answer}");
        assert_eq!(files(&blobs), 1);
    }
    client.call("picture", json!({"number": 2, "bytes": 3_000})).await;
    assert_eq!(files(&blobs), 2);
    let db = RecordsDb::at(&setup.data());
    assert_eq!(db.all::<i64>("SELECT bytes FROM blobs"), [3_024, 3_024]);
    assert_eq!(db.one::<i64>("SELECT count(*) FROM blob_refs"), 4);
}

/// With `blobs.per_pool` the pictures of each pool are in a folder of its own.
#[tokio::test]
async fn per_pool_blobs_have_their_own_folders() {
    let setup = two_pools(FakeEngineSetup::new()).set("blobs.per_pool", "true");
    let client = setup.client().await;
    for pool in ["MAIN", "SIDE", "SIDE"] {
        client.call("picture", json!({"number": 1, "bytes": 3_000, "browser_pool": pool})).await;
    }
    for pool in ["MAIN", "SIDE"] {
        assert_eq!(files(&setup.data().join("blobs").join(pool)), 1, "{pool}");
    }
    assert_eq!(files(&setup.data().join("blobs")), 2);
}

/// Takes this many different pictures, each of half a megabyte.
async fn pictures(client: &Client, count: usize) {
    for number in 0..count {
        client.call("picture", json!({"number": number, "bytes": 500_000})).await;
    }
}

async fn end(client: Client) {
    client.close_stdin().await;
    assert!(client.wait().await.success());
}

/// A blob unused for `blobs.ttl` is gone at the next start, a used one is not, and records stay.
#[tokio::test]
async fn unused_blobs_are_removed_at_start() {
    let setup = FakeEngineSetup::new().set("blobs.ttl", "1h");
    let client = setup.client().await;
    pictures(&client, 2).await;
    end(client).await;
    let db = RecordsDb::at(&setup.data());
    db.run("UPDATE blobs SET last_used = '2020-01-01T00:00:00.000Z' WHERE sha256 = (SELECT min(sha256) FROM blobs)");
    let used: String = db.one("SELECT max(sha256) FROM blobs");
    let _client = setup.client().await;
    let left = eventually("the removal of a blob", || {
        let left: Vec<String> = db.all("SELECT sha256 FROM blobs");
        (left.len() == 1).then_some(left)
    })
    .await;
    assert_eq!(left, [used]);
    eventually("the removal of its file", || (files(&setup.data().join("blobs")) == 1).then_some(())).await;
    assert_eq!(db.one::<i64>("SELECT count(*) FROM responses"), 2);
    assert_eq!(db.one::<i64>("SELECT count(*) FROM blob_refs"), 2, "the records still say what there was");
}

/// When all blobs together exceed `blobs.bytes_max`, those unused for longest are removed until they do not.
#[tokio::test]
async fn oldest_blobs_are_removed_over_the_limit() {
    let setup = FakeEngineSetup::new().set("blobs.bytes_max", "1MiB");
    let client = setup.client().await;
    pictures(&client, 5).await;
    end(client).await;
    let db = RecordsDb::at(&setup.data());
    assert_eq!(db.one::<i64>("SELECT count(*) FROM blobs"), 5);
    // Used an hour ago and more, in the order of their names: a blob used just now is never removed.
    db.run(
        "UPDATE blobs SET last_used = strftime('%Y-%m-%dT%H:%M:%S.000Z', 'now', '-2 hours', '+' ||
         (SELECT count(*) FROM blobs older WHERE older.sha256 < blobs.sha256) || ' minutes')",
    );
    let youngest: Vec<String> = db.all("SELECT sha256 FROM blobs ORDER BY last_used DESC LIMIT 2");
    let _client = setup.client().await;
    let left = eventually("room", || {
        let left: Vec<String> = db.all("SELECT sha256 FROM blobs ORDER BY last_used DESC");
        (left.len() <= 2).then_some(left)
    })
    .await;
    assert_eq!(left, youngest);
    eventually("the removal of their files", || (files(&setup.data().join("blobs")) == 2).then_some(()))
        .await;
}

/// A picture can be fetched over HTTP by its blob's name and as a resource; the error for a removed one says so.
#[tokio::test]
async fn picture_is_served_over_http_and_as_a_resource() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    client.call("picture", json!({"number": 1, "bytes": 30})).await;
    let name: String = RecordsDb::at(&setup.data()).one("SELECT sha256 FROM blobs");
    let reply = server.get(&format!("/api/blobs/{name}")).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("image/png")));
    assert_eq!(reply.header("content-length"), Some("54"));
    let read = client.request("resources/read", json!({"uri": format!("greenroom://blobs/{name}")})).await;
    assert!(read["result"]["contents"][0]["blob"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{read}");
    fs::remove_dir_all(setup.data().join("blobs")).unwrap();
    assert_eq!(server.get(&format!("/api/blobs/{name}")).await.status, 404);
    let read = client.request("resources/read", json!({"uri": format!("greenroom://blobs/{name}")})).await;
    assert!(read.get("error").is_some(), "{read}");
    // The next one is stored again, even without the folder.
    let answer = client.call("picture", json!({"number": 2})).await;
    assert!(answer["result"]["_meta"]["greenroom/ref_id"].is_string(), "{answer}");
    assert_eq!(failure(&client.call("get_content", json!({"ref_id": name})).await).0, "no_record");
}
