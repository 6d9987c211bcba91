//! Backups: made while a store writes, checked, and restored into an empty folder.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use greenroom_core::{
    Owner, Records as _,
    record::{BlobRef, RecordFilter, Response},
};
use greenroom_store::{
    Store,
    backup::{BackupError, backup, restore},
};

use crate::kit::{folder, open, request, response, soon};

const KEYS: &str = "keys.json";

async fn write(store: &Store, data: &[u8]) {
    let id = soon(store.keep("A", data.to_vec())).await.unwrap();
    let begun = request(&Owner::local(), None);
    let blob = BlobRef { id, mime: "image/png".to_owned(), name: None, bytes: data.len() as u64 };
    let ended = Response { blobs: vec![blob], ..response(&begun.ref_id) };
    soon(store.begin(begun)).await.unwrap();
    soon(store.end(ended)).await.unwrap();
}

/// The records and the blobs' bytes of the owner `local`, newest first.
async fn contents(store: &Store) -> (Vec<String>, Vec<Vec<u8>>) {
    let owner = Owner::local();
    let list =
        soon(store.list(&owner, RecordFilter { limit: 100, ..RecordFilter::default() })).await.unwrap();
    let mut blobs = Vec::new();
    for blob in soon(store.blobs(&owner, 0, 100)).await.unwrap() {
        blobs.push(soon(store.blob(&owner, &blob.id)).await.unwrap().unwrap().data);
    }
    (list.summaries.iter().map(|record| record.ref_id.to_string()).collect(), blobs)
}

/// A backup of three records with three blobs and a file of keys, in `folder/backup`; and the records' names.
async fn made(folder: &Path) -> (PathBuf, Vec<String>) {
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join(KEYS), "[]").unwrap();
    let store = open(&data);
    for blob in [&b"one"[..], b"two", b"three"] {
        write(&store, blob).await;
    }
    let (names, _) = contents(&store).await;
    let target = folder.join("backup");
    let summary = backup(&data, &[data.join(KEYS), data.join("absent.json")], &target).unwrap();
    assert_eq!((summary.records, summary.blobs, summary.blob_bytes, summary.missing_blobs), (3, 3, 11, 0));
    assert_eq!((summary.folder, summary.files), (target.clone(), vec![KEYS.to_owned()]));
    soon(store.close()).await;
    (target, names)
}

fn restore_to(from: &Path, data: &Path) -> Result<u64, BackupError> {
    restore(from, data, &[data.join(KEYS)]).map(|summary| summary.records)
}

/// A backup that was made while a store is open is restored into a folder that does not exist yet; a new store there has
/// the same records and blobs.
#[tokio::test]
async fn a_backup_is_restored_into_an_empty_folder() {
    let folder = folder();
    let (target, names) = made(folder.path()).await;
    for (path, mode) in [("", 0o700), ("records.db", 0o600), (KEYS, 0o600), ("backup.json", 0o600)] {
        let found = fs::metadata(target.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path}");
    }
    let data = folder.path().join("new/data");
    assert_eq!(restore_to(&target, &data).unwrap(), 3);
    assert_eq!(fs::read_to_string(data.join(KEYS)).unwrap(), "[]");
    assert_eq!(fs::metadata(data.join(KEYS)).unwrap().permissions().mode() & 0o777, 0o600);
    let store = open(&data);
    let (found, mut blobs) = contents(&store).await;
    blobs.sort();
    assert_eq!((found, blobs), (names, vec![b"one".to_vec(), b"three".to_vec(), b"two".to_vec()]));
    write(&store, b"four").await;
    soon(store.close()).await;
}

/// While a store writes without a pause, every backup is a moment of it: each record that it has is whole, and so is each
/// of its blobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_one_moment_of_a_store_that_writes() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let store = std::sync::Arc::new(open(&data));
    write(&store, b"first").await;
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            let mut written = 1_u64;
            while ended.try_recv().is_err() {
                write(&store, &written.to_be_bytes()).await;
                written += 1;
            }
            written
        }
    });
    let mut records = Vec::new();
    for number in 0..3 {
        let target = folder.path().join(format!("backup-{number}"));
        let (from, to) = (data.clone(), target.clone());
        let summary = tokio::task::spawn_blocking(move || backup(&from, &[], &to)).await.unwrap().unwrap();
        assert_eq!(summary.missing_blobs, 0);
        let restored = folder.path().join(format!("restored-{number}"));
        let to = restored.clone();
        tokio::task::spawn_blocking(move || restore(&target, &to, &[])).await.unwrap().unwrap();
        records.push(summary.records);
        // The newest records are where an unfinished write would show. `contents` reads the bytes of each blob.
        let copy = open(&restored);
        let (names, blobs) = contents(&copy).await;
        let expected = usize::try_from(summary.records.min(100)).unwrap();
        // The last record may have begun without having ended: then it names no blob yet.
        assert_eq!(names.len(), expected);
        assert!((expected - 1..=expected).contains(&blobs.len()), "{} of {expected}", blobs.len());
        soon(copy.close()).await;
    }
    end.send(()).unwrap();
    let written = soon(writer).await.unwrap();
    assert!(records.is_sorted() && records[0] >= 1 && records[2] <= written, "{records:?} of {written}");
}

/// Nothing that exists is written over: no other backup, no records, no keys.
#[tokio::test]
async fn nothing_is_written_over() {
    let folder = folder();
    let (target, _) = made(folder.path()).await;
    let data = folder.path().join("data");
    assert!(matches!(backup(&data, &[], &target), Err(BackupError::TargetExists(path)) if path == target));
    assert!(matches!(
        restore_to(&target, &data),
        Err(BackupError::TargetExists(path)) if path == data.join("records.db")
    ));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(KEYS), "mine").unwrap();
    assert!(matches!(
        restore_to(&target, &other),
        Err(BackupError::TargetExists(path)) if path == other.join(KEYS)
    ));
    assert_eq!(fs::read_to_string(other.join(KEYS)).unwrap(), "mine");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "nothing was written");
    let empty = folder.path().join("empty");
    assert!(matches!(backup(&empty, &[], &folder.path().join("b")), Err(BackupError::NoRecords(_))));
    assert!(!folder.path().join("b").exists());
}

/// A damaged or foreign backup is refused by the name of the file, before anything is written.
#[tokio::test]
async fn a_damaged_backup_is_refused() {
    let folder = folder();
    let (good, _) = made(folder.path()).await;
    let blob = "blobs/76/92/7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    assert_eq!(fs::read(good.join(blob)).unwrap(), b"one");
    let manifest = fs::read_to_string(good.join("backup.json")).unwrap();
    let renamed = manifest.replace(KEYS, "../../evil");
    let later = manifest.replace("\"format\": 1", "\"format\": 2, \"more\": true");
    let schema = manifest.replace("\"schema\": 1", "\"schema\": 9");
    type Damage<'a> = (&'a str, Box<dyn Fn(&Path) + 'a>, &'a str);
    let write = |name: &'static str, bytes: &'static [u8]| -> Box<dyn Fn(&Path)> {
        Box::new(move |backup| fs::write(backup.join(name), bytes).unwrap())
    };
    let damages: Vec<Damage<'_>> = vec![
        (
            "no list",
            Box::new(|backup| fs::remove_file(backup.join("backup.json")).unwrap()),
            "is not a backup",
        ),
        ("no JSON", write("backup.json", b"{"), "is not a backup"),
        (
            "later format",
            Box::new(|backup| fs::write(backup.join("backup.json"), &later).unwrap()),
            "format is 2",
        ),
        (
            "later tables",
            Box::new(|backup| fs::write(backup.join("backup.json"), &schema).unwrap()),
            "version is 9",
        ),
        (
            "a path",
            Box::new(|backup| fs::write(backup.join("backup.json"), &renamed).unwrap()),
            "unknown file",
        ),
        ("database", write("records.db", b"SQLite format 3\0"), "records.db"),
        ("keys", write(KEYS, b"[1]"), "keys.json"),
        ("no keys", Box::new(|backup| fs::remove_file(backup.join(KEYS)).unwrap()), "is missing"),
        ("blob", Box::new(move |backup| fs::write(backup.join(blob), "ONE").unwrap()), "other bytes"),
        ("no blob", Box::new(move |backup| fs::remove_file(backup.join(blob)).unwrap()), "2 of 3 blobs"),
    ];
    for (number, (what, damage, expected)) in damages.into_iter().enumerate() {
        let backup = folder.path().join(format!("damaged-{number}"));
        copy(&good, &backup);
        damage(&backup);
        let data = folder.path().join(format!("data-{number}"));
        let error = restore_to(&backup, &data).unwrap_err().to_string();
        assert!(error.contains(expected), "{what}: {error}");
        assert!(!data.exists(), "{what}: nothing was written");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A backup that fails leaves no folder of that name, and none that is unfinished.
#[tokio::test]
async fn a_failed_backup_leaves_nothing() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let store = open(&data);
    write(&store, b"one").await;
    // An operator's "file" that is a folder cannot be copied.
    fs::create_dir(data.join(KEYS)).unwrap();
    let error = backup(&data, &[data.join(KEYS)], &folder.path().join("backup")).unwrap_err();
    assert!(matches!(&error, BackupError::File { path, .. } if *path == data.join(KEYS)), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only `data` is there");
    soon(store.close()).await;
}
