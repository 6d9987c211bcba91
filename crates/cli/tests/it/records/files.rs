//! Blobs: kept once, found again, apart where that is wanted.

use std::{fs, path::Path};

use serde_json::json;

use super::look::Look;
use crate::front::stage::Stage;

/// How many files stand below a folder.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let entries: Vec<_> = entries.unwrap_or_default();
    entries.iter().map(|path| if path.is_dir() { files(path) } else { 1 }).sum()
}

fn two_pools(stage: Stage) -> Stage {
    stage.pools("MAIN_INSTANCES", "1").pools("MAIN_IS_DEFAULT", "true").pools("SIDE_INSTANCES", "1")
}

/// Equal pictures are one file, whoever took them and however often; another picture is another file.
#[tokio::test]
async fn equal_pictures_are_one_file() {
    let stage = two_pools(Stage::new());
    let client = stage.client().await;
    let blobs = stage.data().join("blobs");
    for pool in ["MAIN", "SIDE", "MAIN"] {
        let answer = client.call("picture", json!({"number": 1, "bytes": 3_000, "browser_pool": pool})).await;
        assert_eq!(answer["result"]["content"][1]["type"], "image", "{answer}");
        assert_eq!(files(&blobs), 1);
    }
    client.call("picture", json!({"number": 2, "bytes": 3_000})).await;
    assert_eq!(files(&blobs), 2);
    let look = Look::at(&stage.data());
    assert_eq!(look.all::<i64>("SELECT bytes FROM blobs"), [3_024, 3_024]);
    assert_eq!(look.one::<i64>("SELECT count(*) FROM blob_refs"), 4);
}

/// With `blobs.per_pool` the pictures of each pool stand in a folder of its own.
#[tokio::test]
async fn apart_per_pool() {
    let stage = two_pools(Stage::new()).set("blobs.per_pool", "true");
    let client = stage.client().await;
    for pool in ["MAIN", "SIDE", "SIDE"] {
        client.call("picture", json!({"number": 1, "bytes": 3_000, "browser_pool": pool})).await;
    }
    for pool in ["MAIN", "SIDE"] {
        assert_eq!(files(&stage.data().join("blobs").join(pool)), 1, "{pool}");
    }
    assert_eq!(files(&stage.data().join("blobs")), 2);
}
