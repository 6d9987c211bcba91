//! An owner's records are given to another owner, or removed, and nobody else's change.

use std::time::Duration;

use greenroom_core::{
    Owner, Records as _,
    record::{BlobRef, RecordFilter, Response},
};
use greenroom_store::{
    Store,
    maintenance::{self, Given, Removed},
};

use crate::kit::{folder, open, request, response, rows, session, soon, sql};

/// More than a slice.
const CALLS: usize = 70;

async fn write(store: &Store, owner: &Owner, calls: usize, blob: &[u8]) {
    let session = session("shop");
    let id = soon(store.keep("A", blob.to_vec())).await.unwrap();
    for _ in 0..calls {
        let begun = request(owner, Some(&session));
        let blob = BlobRef { id: id.clone(), mime: "image/png".to_owned(), name: None, bytes: 5 };
        let ended = Response {
            blobs: vec![blob],
            session: Some(session.clone()),
            took: Duration::ZERO,
            ..response(&begun.ref_id)
        };
        soon(store.begin(begun)).await.unwrap();
        soon(store.end(ended)).await.unwrap();
    }
}

async fn count(store: &Store, owner: &Owner) -> (usize, usize) {
    let filter = RecordFilter { limit: 1000, ..RecordFilter::default() };
    let records = soon(store.list(owner, filter)).await.unwrap().summaries.len();
    (records, soon(store.blobs(owner, 0, 10)).await.unwrap().len())
}

/// Makes every blob look as if it was last used long ago, as an owner's blobs are when an operator removes them.
fn age_blobs(folder: &std::path::Path) {
    sql(folder).execute("UPDATE blobs SET last_used = '2026-01-01T00:00:00.000Z'", []).unwrap();
}

/// All of one owner becomes another's, and the first has nothing left.
#[tokio::test]
async fn records_are_given_to_another_owner() {
    let folder = folder();
    let (local, ann, bob) = (Owner::local(), Owner::new("ann"), Owner::new("bob"));
    let store = open(folder.path());
    write(&store, &local, CALLS, b"first").await;
    write(&store, &bob, 1, b"other").await;
    let given = maintenance::give(folder.path(), &local, &ann).unwrap();
    assert_eq!(given, Given { records: CALLS, sessions: 1 });
    assert_eq!(count(&store, &local).await, (0, 0));
    assert_eq!(count(&store, &ann).await, (CALLS, 1));
    assert_eq!(count(&store, &bob).await, (1, 1));
    assert_eq!(maintenance::give(folder.path(), &local, &ann).unwrap(), Given::default(), "nothing is left");
    soon(store.close()).await;
}

/// Removing an owner removes its records, its sessions and the blobs that are its alone.
#[tokio::test]
async fn an_owner_is_removed_with_all_that_is_its_own() {
    let folder = folder();
    let (ann, bob) = (Owner::new("ann"), Owner::new("bob"));
    let store = open(folder.path());
    write(&store, &ann, CALLS, b"only ann's").await;
    write(&store, &ann, 1, b"of both").await;
    write(&store, &bob, 1, b"of both").await;
    age_blobs(folder.path());
    let removed = maintenance::delete_owner(folder.path(), &ann).unwrap();
    assert_eq!(removed, Removed { records: CALLS + 1, sessions: 2, blobs: 1, blob_bytes: 10 });
    assert_eq!(count(&store, &ann).await, (0, 0));
    assert_eq!(count(&store, &bob).await, (1, 1));
    let tables = ["requests", "responses", "sessions", "blobs", "blob_refs"];
    assert_eq!(tables.map(|table| rows(folder.path(), table)), [1, 1, 1, 1, 1]);
    assert_eq!(maintenance::delete_owner(folder.path(), &ann).unwrap(), Removed::default());
    soon(store.close()).await;
}

/// A blob that was used just now stays, because a record that is being written may name it.
#[tokio::test]
async fn a_blob_in_use_stays() {
    let folder = folder();
    let ann = Owner::new("ann");
    let store = open(folder.path());
    write(&store, &ann, 1, b"fresh").await;
    let removed = maintenance::delete_owner(folder.path(), &ann).unwrap();
    assert_eq!((removed.records, removed.blobs, rows(folder.path(), "blobs")), (1, 0, 1));
    soon(store.close()).await;
}
