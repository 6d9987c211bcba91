//! What every test here needs: a store in a folder of its own, and records to put into it.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use greenroom_core::{
    Owner, RefId, SessionUid, raw,
    record::{Request, Response, SessionRef, Status},
};
use greenroom_store::{Store, StoreSettings};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A deadline for anything that a test waits for.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, what).await.expect("within TEST_TIMEOUT")
}

pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub fn settings(folder: &Path) -> StoreSettings {
    StoreSettings {
        folder: folder.to_owned(),
        process_tag: "1-1-a".to_owned(),
        running_tags: Vec::new(),
        processes_listed_after: SystemTime::now(),
        max_age: Duration::from_secs(7 * 24 * 3600),
        bytes_max: 1 << 30,
        blobs_ttl: Duration::from_secs(24 * 3600),
        blobs_bytes_max: 1 << 30,
        blobs_per_pool: false,
    }
}

pub fn open(folder: &Path) -> Store {
    Store::open(settings(folder))
}

/// The test's own connection to the database.
pub fn sql(folder: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(folder.join("records.db")).unwrap();
    connection.busy_timeout(TEST_TIMEOUT).unwrap();
    connection
}

/// How many rows a table has.
pub fn rows(folder: &Path, table: &str) -> usize {
    sql(folder).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Bytes that are different with each call.
pub fn fresh() -> [u8; 16] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&u64::from(std::process::id()).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Now, in the precision of the store.
pub fn now() -> SystemTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap())
}

pub fn name() -> RefId {
    RefId::new(now(), fresh())
}

pub fn session(name: &str) -> SessionRef {
    SessionRef { uid: SessionUid::new(now(), fresh()), name: Arc::from(name), pool: Arc::from("DEFAULT") }
}

pub fn request(owner: &Owner, session: Option<&SessionRef>) -> Request {
    Request {
        ref_id: name(),
        owner: owner.clone(),
        session: session.cloned(),
        tool: Arc::from("browser_click"),
        params: raw::parse(r#"{"target":"e7"}"#.to_owned()).unwrap(),
        at: now(),
    }
}

pub fn response(ref_id: &RefId) -> Response {
    Response {
        ref_id: ref_id.clone(),
        session: None,
        status: Status::Success,
        result: Arc::from(r#"{"content":[]}"#),
        snapshot: None,
        console: Vec::new(),
        error: None,
        blobs: Vec::new(),
        url: None,
        title: None,
        at: now(),
        took: Duration::from_millis(12),
    }
}
