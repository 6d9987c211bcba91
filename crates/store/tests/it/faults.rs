//! Faults: a full disk, a locked, broken, newer or vanished database. Calls are refused with the reason, and recording
//! resumes by itself when the fault is gone.

use std::{
    fs::{self, File},
    os::unix::{fs::FileExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use greenroom_core::{
    Owner, Records as _,
    record::{RecordFilter, Response},
};
use greenroom_store::Store;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    kit::{folder, open, request, response, rows, settings, soon, sql},
    sharing::{is_rerun, rerun_this_test},
};

async fn write(store: &Store) -> Result<(), String> {
    soon(store.begin(request(&Owner::local(), None))).await.map_err(|refused| refused.to_string())
}

/// Waits until the store has recovered by itself.
async fn well(store: &Store) {
    soon(async {
        while store.health().is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn set_aside(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("records.db.corrupt-"))
        .collect();
    found.sort();
    found
}

/// A full disk fails the records that need room, with the reason, and the next ones succeed when there is room again. A
/// limit on the size of files plays the full disk: it stops root as well.
#[tokio::test]
async fn a_full_disk_is_told_and_recovered_from() {
    let Some(folder) = is_rerun() else {
        let folder = folder();
        // Files of at most 512 KiB; what goes beyond is an error, not a signal.
        let limited = "trap '' XFSZ; ulimit -S -f 1024; exec \"$0\" \"$@\"";
        rerun_this_test("faults::a_full_disk_is_told_and_recovered_from", folder.path(), Some(limited))
            .wait();
        return;
    };
    let store = open(&folder);
    let owner = Owner::local();
    let mut written = Vec::new();
    let why = loop {
        let begun = request(&owner, None);
        let ended = Response { snapshot: Some("x".repeat(20_000).into()), ..response(&begun.ref_id) };
        let id = begun.ref_id.clone();
        if let Err(why) = soon(store.begin(begun)).await {
            break why;
        }
        match soon(store.end(ended)).await {
            Ok(()) => written.push(id),
            Err(why) => break why,
        }
    };
    assert!(written.len() > 5, "{} were written", written.len());
    assert!(why.to_string().contains("disk"), "{why}");
    assert!(store.health().is_err());
    for id in &written {
        let record = soon(store.record(&owner, id)).await.unwrap().unwrap();
        assert_eq!(record.snapshot.unwrap().len(), 20_000);
    }
    let mut limit = getrlimit(Resource::Fsize);
    limit.current = limit.maximum;
    setrlimit(Resource::Fsize, limit).unwrap();
    write(&store).await.unwrap();
    assert_eq!(store.health(), Ok(()));
    soon(store.close()).await;
}

/// The store does not wait without end for a database that another process keeps locked, and uses it again when it is free.
#[tokio::test]
async fn a_locked_database_is_told_and_recovered_from() {
    let folder = folder();
    let store = open(folder.path());
    write(&store).await.unwrap();
    let other = sql(folder.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(write(&store).await, Err("database is locked".to_owned()));
    assert_eq!(store.health().unwrap_err().as_ref(), "database is locked");
    let listed = soon(store.list(&Owner::local(), RecordFilter { limit: 9, ..RecordFilter::default() }))
        .await
        .unwrap();
    assert_eq!(listed.len(), 1, "it can still be read");
    other.execute_batch("COMMIT").unwrap();
    write(&store).await.unwrap();
    assert_eq!(store.health(), Ok(()));
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "requests"), 2);
}

/// The store notices a vanished data folder with the next call, and uses it again when it is back.
#[tokio::test]
async fn a_vanished_folder_is_told_and_recovered_from() {
    let parent = folder();
    let here = parent.path().join("data");
    let away = parent.path().join("away");
    let store = open(&here);
    write(&store).await.unwrap();
    fs::rename(&here, &away).unwrap();
    let why = write(&store).await.unwrap_err();
    assert!(why.contains("No such file") && why.contains("records.db"), "{why}");
    assert!(!here.exists(), "nothing is made in its place");
    fs::rename(&away, &here).unwrap();
    well(&store).await;
    write(&store).await.unwrap();
    soon(store.close()).await;
    assert_eq!(rows(&here, "requests"), 2);
}

/// The end of a call whose beginning went away with its database is refused.
#[tokio::test]
async fn an_end_whose_beginning_vanished_is_refused() {
    let folder = folder();
    let store = open(folder.path());
    write(&store).await.unwrap();
    let call = request(&Owner::local(), None);
    soon(store.begin(call.clone())).await.unwrap();
    for name in ["records.db", "records.db-wal", "records.db-shm"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let refused = soon(store.end(response(&call.ref_id))).await.unwrap_err();
    assert_eq!(refused.to_string(), "its beginning was not recorded");
    // Calls that begin from now on are recorded as before.
    let call = request(&Owner::local(), None);
    soon(store.begin(call.clone())).await.unwrap();
    soon(store.end(response(&call.ref_id))).await.unwrap();
    soon(store.close()).await;
    assert_eq!(rows(folder.path(), "responses"), 1);
}

/// A database that cannot be opened at the start is opened by itself as soon as possible.
#[tokio::test]
async fn a_database_that_cannot_be_opened_is_tried_again() {
    let folder = folder();
    fs::create_dir(folder.path().join("records.db")).unwrap();
    let store = open(folder.path());
    let why = write(&store).await.unwrap_err();
    assert!(why.starts_with("cannot open "), "{why}");
    let unread = soon(store.list(&Owner::local(), RecordFilter::default())).await.unwrap_err();
    assert!(unread.to_string().starts_with("the records cannot be read: cannot open "), "{unread}");
    fs::remove_dir(folder.path().join("records.db")).unwrap();
    well(&store).await;
    write(&store).await.unwrap();
    soon(store.close()).await;
}

/// A file that is not a database is moved aside, whole, and a new database begins at once.
#[tokio::test]
async fn what_is_no_database_is_moved_aside() {
    let folder = folder();
    let garbage = "this is no database. ".repeat(1000);
    fs::write(folder.path().join("records.db"), &garbage).unwrap();
    let store = open(folder.path());
    write(&store).await.unwrap();
    soon(store.close()).await;
    let aside = set_aside(folder.path());
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(fs::read_to_string(&aside[0]).unwrap(), garbage);
    assert_eq!(rows(folder.path(), "requests"), 1);
}

/// A database that turns out to be broken under a call is moved aside, and that very call is recorded in the new one.
/// Blobs stay, and the new database adopts them.
#[tokio::test]
async fn a_broken_database_is_moved_aside() {
    let folder = folder();
    let store = open(folder.path());
    for _ in 0..200 {
        write(&store).await.unwrap();
    }
    soon(store.keep("A", b"blob".to_vec())).await.unwrap();
    soon(store.close()).await;
    let database = File::options().write(true).open(folder.path().join("records.db")).unwrap();
    let pages = database.metadata().unwrap().len() / 4096;
    // The first page has the tables' names: with it the file still opens.
    for page in 1..pages {
        database.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
    }
    drop(database);
    let store = open(folder.path());
    write(&store).await.unwrap();
    assert_eq!(store.health(), Ok(()));
    let listed = soon(store.list(&Owner::local(), RecordFilter { limit: 9, ..RecordFilter::default() }))
        .await
        .unwrap();
    assert_eq!(listed.len(), 1);
    soon(store.close()).await;
    assert!(!set_aside(folder.path()).is_empty());
    assert_eq!(rows(folder.path(), "blobs"), 1);
}

/// A database of a newer greenroom is left alone; calls go on without records, and get the reason.
#[tokio::test]
async fn a_newer_database_is_refused() {
    let folder = folder();
    let store = open(folder.path());
    write(&store).await.unwrap();
    soon(store.close()).await;
    sql(folder.path()).pragma_update(None, "user_version", 99).unwrap();
    let store = open(folder.path());
    let why = write(&store).await.unwrap_err();
    assert!(why.contains("written by a newer greenroom: its version is 99"), "{why}");
    assert!(soon(store.list(&Owner::local(), RecordFilter::default())).await.is_err());
    soon(store.close()).await;
    assert_eq!(set_aside(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(rows(folder.path(), "requests"), 1);
}

/// A store that is dropped without being closed still writes what is queued, without anything waiting for it.
#[tokio::test]
async fn a_dropped_store_writes_what_it_was_given() {
    let folder = folder();
    let store = open(folder.path());
    let waiting: Vec<_> = (0..100).map(|_| store.begin(request(&Owner::local(), None))).collect();
    drop(store);
    for one in waiting {
        soon(one).await.unwrap();
    }
    assert_eq!(rows(folder.path(), "requests"), 100);
}

/// A closed store refuses writes and reads, with the reason.
#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = folder();
    let store = open(folder.path());
    write(&store).await.unwrap();
    soon(store.close()).await;
    soon(store.close()).await;
    assert_eq!(write(&store).await, Err("greenroom is shutting down".to_owned()));
    let unread = soon(store.list(&Owner::local(), RecordFilter::default())).await.unwrap_err();
    assert_eq!(unread.to_string(), "the records cannot be read: greenroom is shutting down");
}

/// Other users cannot read the files, and the folder's mode stays as it was.
#[tokio::test]
async fn files_are_private() {
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = open(folder.path());
    write(&store).await.unwrap();
    for name in ["records.db", "records.db-wal", "records.db-shm", "records.lock"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o755);
    soon(store.close()).await;
}

/// Operations beyond the queue's bounds are refused with the reason, and accepted ones are written.
#[tokio::test]
async fn a_full_queue_refuses() {
    let folder = folder();
    let mut settings = settings(folder.path());
    settings.max_age = Duration::from_secs(3600);
    let store = Store::open(settings);
    write(&store).await.unwrap();
    let other = sql(folder.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = Vec::new();
    let mut written = 0;
    // Every two seconds the writer gives up on the operations that it has taken, and there is room again: so add more until
    // one is refused.
    let refused = soon(async {
        loop {
            let mut one = store.begin(request(&Owner::local(), None));
            let said = tokio::select! {
                biased;
                said = &mut one => Some(said),
                () = tokio::task::yield_now() => None,
            };
            match said {
                Some(Err(refused)) => break refused,
                Some(Ok(())) => written += 1,
                None => waiting.push(one),
            }
        }
    });
    let refused = refused.await;
    other.execute_batch("COMMIT").unwrap();
    assert!(refused.to_string().contains("no more are taken until the disk has caught up"), "{refused}");
    for one in waiting {
        written += usize::from(soon(one).await.is_ok());
    }
    soon(store.close()).await;
    assert!(written > 0, "none of those that were taken is written");
    assert_eq!(rows(folder.path(), "requests"), written + 1);
}
