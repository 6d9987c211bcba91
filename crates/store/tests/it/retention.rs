//! Retention removes old, excess and unnamed rows and files, with everything that depends on them.

use std::{path::Path, time::Duration};

use greenroom_core::{
    BlobId, Owner, Records as _,
    record::{BlobRef, ConsoleLine, Cursor, Level, RecordFilter, RefId, SessionState},
};
use greenroom_store::{Store, StoreSettings, maintenance};

use crate::{
    blobs::name_in_record,
    kit::{self, folder, request, response, rows, session, settings, soon, sql},
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A store that removes nothing by itself, however long a test takes.
fn open(folder: &Path) -> Store {
    let mut settings = settings(folder);
    settings.max_age = 365 * DAY;
    settings.blobs_ttl = 365 * DAY;
    Store::open(settings)
}

/// A whole record of this age, with a console line, a cursor and a blob.
async fn write(store: &Store, owner: &Owner, age: Duration, bytes: usize) -> RefId {
    let session = session("shop");
    let mut begun = request(owner, Some(&session));
    begun.at -= age;
    let mut ended = response(&begun.ref_id);
    ended.snapshot = Some("x".repeat(bytes).into());
    ended.console =
        vec![ConsoleLine { level: Level::Info, message: "hi".to_owned(), at: None, location: None }];
    let id = soon(store.keep("A", b"blob".to_vec())).await.unwrap();
    ended.blobs = vec![BlobRef { id, mime: "text/plain".to_owned(), name: None, bytes: 4 }];
    let ref_id = begun.ref_id.clone();
    soon(store.begin(begun)).await.unwrap();
    soon(store.end(ended)).await.unwrap();
    soon(store.set_cursor(&ref_id, Cursor { position: 1, hash: String::new() })).await.unwrap();
    store.session_ended(&session.uid, SessionState::Closed);
    ref_id
}

fn vacuum(settings: &StoreSettings) -> maintenance::Removed {
    maintenance::vacuum(settings, true).unwrap().removed
}

/// Records past the maximum age are removed, with everything that depends on them; younger records stay whole.
#[tokio::test]
async fn old_records_go_with_all_that_hangs_on_them() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    for _ in 0..40 {
        write(&store, &owner, 8 * DAY, 10).await;
    }
    let young = write(&store, &owner, 6 * DAY, 10).await;
    soon(store.close()).await;
    let removed = vacuum(&settings(folder.path()));
    assert_eq!((removed.records, removed.sessions, removed.blobs), (40, 40, 0));
    for table in ["sessions", "requests", "responses", "console_logs", "diff_cursors", "blobs", "blob_refs"] {
        assert_eq!(rows(folder.path(), table), 1, "{table}");
    }
    let store = open(folder.path());
    assert!(soon(store.record(&owner, &young)).await.unwrap().unwrap().snapshot.is_some());
    soon(store.close()).await;
}

/// The writer removes what is too old by itself, while it is idle.
#[tokio::test]
async fn the_writer_removes_by_itself() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    for _ in 0..40 {
        write(&store, &owner, 8 * DAY, 10).await;
    }
    soon(store.close()).await;
    // Everything is written before the writer's first check: later records would wait for the next one, a minute later.
    let store = kit::open(folder.path());
    let all = RecordFilter { limit: 1, ..RecordFilter::default() };
    soon(async { while !store.list(&owner, all.clone()).await.unwrap().is_empty() {} }).await;
    // The store goes on as before.
    let young = write(&store, &owner, Duration::ZERO, 10).await;
    assert!(soon(store.record(&owner, &young)).await.unwrap().is_some());
    soon(store.close()).await;
}

/// A database that is too big loses its oldest records, the file shrinks, and no position is given twice.
#[tokio::test]
async fn too_many_records_go_oldest_first() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let mut names = Vec::new();
    for _ in 0..100 {
        names.push(write(&store, &owner, Duration::ZERO, 40_000).await);
    }
    soon(store.close()).await;
    let mut small = settings(folder.path());
    small.bytes_max = 1 << 20;
    let vacuumed = maintenance::vacuum(&small, true).unwrap();
    assert!(vacuumed.bytes_before > 4 << 20 && vacuumed.bytes_after <= 1 << 20, "{vacuumed:?}");
    let store = open(folder.path());
    let kept =
        soon(store.list(&owner, RecordFilter { limit: 1000, ..RecordFilter::default() })).await.unwrap();
    let kept: Vec<_> = kept.summaries.into_iter().rev().map(|summary| summary.ref_id).collect();
    assert!(kept.len() > 10 && kept == names[100 - kept.len()..], "{} are kept", kept.len());
    soon(store.close()).await;

    small.bytes_max = 0;
    vacuum(&small);
    assert_eq!(rows(folder.path(), "requests"), 0);
    let store = open(folder.path());
    write(&store, &owner, Duration::ZERO, 1).await;
    let next = soon(store.list(&owner, RecordFilter { limit: 1, ..RecordFilter::default() })).await.unwrap();
    assert_eq!(next[0].position, 101);
    soon(store.close()).await;
}

/// While greenrooms run, vacuuming does not rewrite the file, which shrinks nevertheless.
#[tokio::test]
async fn room_is_made_while_a_store_is_open() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    for _ in 0..50 {
        write(&store, &owner, 8 * DAY, 40_000).await;
    }
    let young = write(&store, &owner, Duration::ZERO, 10).await;
    let vacuumed = maintenance::vacuum(&settings(folder.path()), false).unwrap();
    assert!(!vacuumed.whole);
    assert!(vacuumed.bytes_after < 1 << 20, "{vacuumed:?}");
    assert!(soon(store.record(&owner, &young)).await.unwrap().is_some());
    write(&store, &owner, Duration::ZERO, 10).await;
    soon(store.close()).await;
}

/// Sets when a blob was last used.
fn used(folder: &Path, id: &BlobId, ago: Duration) {
    let at = greenroom_core::time::timestamp_ms(std::time::SystemTime::now() - ago);
    let rows = sql(folder)
        .execute("UPDATE blobs SET last_used = ?2 WHERE sha256 = ?1", [id.as_str(), at.as_str()])
        .unwrap();
    assert_eq!(rows, 1);
}

async fn kept(store: &Store, owner: &Owner, data: &[u8]) -> BlobId {
    let id = soon(store.keep("A", data.to_vec())).await.unwrap();
    let bytes = u64::try_from(data.len()).unwrap();
    name_in_record(
        store,
        owner,
        vec![BlobRef { id: id.clone(), mime: "text/plain".to_owned(), name: None, bytes }],
    )
    .await;
    id
}

/// A blob that was not used for `blobs_ttl` is removed; reading it counts as use.
#[tokio::test]
async fn unused_blobs_go() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let old = kept(&store, &owner, b"old").await;
    let read = kept(&store, &owner, b"read").await;
    used(folder.path(), &old, 2 * DAY);
    used(folder.path(), &read, 2 * DAY);
    assert!(soon(store.blob(&owner, &read)).await.unwrap().is_some());
    soon(store.close()).await;
    let removed = vacuum(&settings(folder.path()));
    assert_eq!((removed.blobs, removed.blob_bytes), (1, 3));
    let store = open(folder.path());
    assert!(soon(store.blob(&owner, &old)).await.unwrap().is_none());
    assert!(soon(store.blob(&owner, &read)).await.unwrap().is_some());
    assert_eq!(soon(store.blobs(&owner, 0, 9)).await.unwrap().len(), 1);
    soon(store.close()).await;
}

/// When blobs take too much room, the longest unused are removed, and none that was used just now.
#[tokio::test]
async fn too_many_blobs_go_longest_unused_first() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let mut ids = Vec::new();
    for number in 0..10_u8 {
        let id = kept(&store, &owner, &[number; 100]).await;
        used(folder.path(), &id, Duration::from_secs(600 - u64::from(number)));
        ids.push(id);
    }
    // The first one is used again, just now.
    kept(&store, &owner, &[0; 100]).await;
    soon(store.close()).await;
    let mut small = settings(folder.path());
    small.blobs_bytes_max = 350;
    assert_eq!(vacuum(&small).blobs, 7);
    small.blobs_bytes_max = 0;
    assert_eq!(vacuum(&small).blobs, 2, "the one in use stays");
    let store = open(folder.path());
    assert!(soon(store.blob(&owner, &ids[0])).await.unwrap().is_some());
    soon(store.close()).await;
}

/// A blob that no record names is removed after an hour, not before.
#[tokio::test]
async fn unnamed_blobs_go_after_an_hour() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let named = kept(&store, &owner, b"named").await;
    let mut unnamed = Vec::new();
    for number in 0..50_u8 {
        unnamed.push(soon(store.keep("A", vec![number])).await.unwrap());
    }
    soon(store.close()).await;
    used(folder.path(), &named, Duration::from_secs(7200));
    for (number, id) in unnamed.iter().enumerate() {
        used(folder.path(), id, Duration::from_secs(if number == 49 { 3000 } else { 4000 }));
    }
    assert_eq!(vacuum(&settings(folder.path())).blobs, 49);
    assert_eq!(rows(folder.path(), "blobs"), 2);
}
