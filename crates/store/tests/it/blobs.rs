//! Blobs: kept once, read by the owners whose records name them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use greenroom_core::{
    BlobId, Owner, Records as _,
    record::{BlobRef, Response},
};
use greenroom_store::Store;

use crate::kit::{folder, open, request, response, rows, settings, soon};

fn named(id: &BlobId, bytes: u64) -> BlobRef {
    BlobRef { id: id.clone(), mime: "image/png".to_owned(), name: Some("a.png".to_owned()), bytes }
}

/// Records a call of this owner that names these blobs.
pub async fn name_in_record(store: &Store, owner: &Owner, blobs: Vec<BlobRef>) {
    let begun = request(owner, None);
    let ended = Response { blobs, ..response(&begun.ref_id) };
    soon(store.begin(begun)).await.unwrap();
    soon(store.end(ended)).await.unwrap();
}

fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("blobs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Equal bytes are kept once, under their SHA-256, unreadable for other users of the machine.
#[tokio::test]
async fn equal_bytes_are_kept_once() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let one = soon(store.keep("A", b"hello".to_vec())).await.unwrap();
    let same = soon(store.keep("B", b"hello".to_vec())).await.unwrap();
    let other = soon(store.keep("A", b"world".to_vec())).await.unwrap();
    assert_eq!(one.as_str(), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    assert_eq!(one, same);
    let path = folder.path().join("blobs/2c/f2").join(one.as_str());
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(files(folder.path()).len(), 2, "and nothing unfinished");

    name_in_record(&store, &owner, vec![named(&one, 5), named(&other, 5)]).await;
    name_in_record(&store, &owner, vec![named(&one, 5)]).await;
    let blob = soon(store.blob(&owner, &one)).await.unwrap().unwrap();
    assert_eq!((blob.about, blob.data), (named(&one, 5), b"hello".to_vec()));
    let listed = soon(store.blobs(&owner, 0, 10)).await.unwrap();
    assert_eq!(listed, [named(&one, 5), named(&other, 5)], "newest first, each once");
    assert_eq!(soon(store.blobs(&owner, 1, 10)).await.unwrap(), [named(&other, 5)]);
    assert_eq!(soon(store.blobs(&owner, 0, 1)).await.unwrap(), [named(&one, 5)]);
    let record =
        soon(store.list(&owner, greenroom_core::record::RecordFilter { limit: 1, ..Default::default() }));
    let newest = record.await.unwrap().summaries.remove(0).ref_id;
    let record = soon(store.record(&owner, &newest)).await.unwrap().unwrap();
    assert_eq!(record.blobs, [named(&one, 5)]);
    soon(store.close()).await;
}

/// A blob is there for owners whose records name it, and for no other.
#[tokio::test]
async fn a_blob_is_read_by_owner() {
    let folder = folder();
    let owner = Owner::local();
    let other = Owner::new("other");
    let store = open(folder.path());
    let id = soon(store.keep("A", b"secret".to_vec())).await.unwrap();
    assert!(soon(store.blob(&owner, &id)).await.unwrap().is_none(), "no record names it yet");
    name_in_record(&store, &owner, vec![named(&id, 6)]).await;
    assert!(soon(store.blob(&owner, &id)).await.unwrap().is_some());
    assert!(soon(store.blob(&other, &id)).await.unwrap().is_none());
    assert!(soon(store.blobs(&other, 0, 9)).await.unwrap().is_empty());
    soon(store.close()).await;
}

/// With a folder per pool, each pool has its own file, and the blob is read from whichever is there.
#[tokio::test]
async fn pools_can_have_folders_of_their_own() {
    let folder = folder();
    let owner = Owner::local();
    let mut settings = settings(folder.path());
    settings.blobs_per_pool = true;
    let store = Store::open(settings);
    let id = soon(store.keep("MOBILE", b"x".to_vec())).await.unwrap();
    soon(store.keep("DESKTOP", b"x".to_vec())).await.unwrap();
    soon(store.keep("../..", b"x".to_vec())).await.unwrap();
    name_in_record(&store, &owner, vec![named(&id, 1)]).await;
    let hex = id.as_str();
    let of = |pool: &str| folder.path().join("blobs").join(pool).join(&hex[..2]).join(&hex[2..4]).join(hex);
    assert!(of("MOBILE").exists() && of("DESKTOP").exists() && of("%2e%2e%2f%2e%2e").exists());
    fs::remove_file(of("MOBILE")).unwrap();
    assert_eq!(soon(store.blob(&owner, &id)).await.unwrap().unwrap().data, b"x");
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "blobs"), 3);
}

/// A blob whose file is gone is not there, and is whole again when the same bytes are kept again.
#[tokio::test]
async fn a_lost_file_is_written_again() {
    let folder = folder();
    let owner = Owner::local();
    let store = open(folder.path());
    let id = soon(store.keep("A", b"again".to_vec())).await.unwrap();
    name_in_record(&store, &owner, vec![named(&id, 5)]).await;
    fs::remove_dir_all(folder.path().join("blobs")).unwrap();
    assert!(soon(store.blob(&owner, &id)).await.unwrap().is_none());
    soon(store.keep("A", b"again".to_vec())).await.unwrap();
    assert_eq!(soon(store.blob(&owner, &id)).await.unwrap().unwrap().data, b"again");
    soon(store.close()).await;
}

/// The error for a blob that cannot be written names the blob.
#[tokio::test]
async fn a_blob_that_cannot_be_written_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("blobs"), "in the way").unwrap();
    let store = open(folder.path());
    let refused = soon(store.keep("A", b"x".to_vec())).await.unwrap_err();
    assert!(refused.to_string().starts_with("cannot write the blob 2d711642"), "{refused}");
    soon(store.close()).await;
}
