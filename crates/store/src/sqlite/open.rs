//! Opens the database: creates it if there is none, migrates an old one, moves a broken one aside.
//!
//! A broken database is never deleted, and never opened again: it stays as `records.db.corrupt-<time>`. Only SQLite
//! opens the database file: POSIX drops all locks of a process on a file when any descriptor of it is closed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use greenroom_core::time::timestamp_ms;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::{Failure, busy, schema};

pub(crate) const FILE: &str = "records.db";
const LOCK: &str = "records.lock";

/// How long one process waits for another to open the database. The other may have to migrate a big one.
const LOCK_WITHIN: Duration = Duration::from_secs(30);

/// The pause between two attempts: the kernel does not report when a file lock becomes free.
const LOCK_AGAIN: Duration = Duration::from_millis(5);

/// How large the WAL file may stay after a checkpoint, in bytes: as large as a busy second makes it.
const WAL_KEPT_BYTES: i64 = 16 << 20;

/// How many prepared statements a connection keeps: more than there are in this crate.
const STATEMENTS: usize = 64;

/// An open database.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// The identity of the open file: by now another file may be at its path.
    file: Identity,
    /// Whether opening has created the database.
    pub(crate) is_new: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Opened {
    /// Whether the file is still the one at its path. SQLite writes to a removed file without an error, and
    /// the rows are lost.
    pub(crate) fn is_in_place(&self, folder: &Path) -> bool {
        identity(&folder.join(FILE)).is_ok_and(|found| found == self.file)
    }
}

/// Opens the database in `folder` for writing.
pub(crate) fn open(folder: &Path) -> Result<Opened, Failure> {
    let _lock = lock(&folder.join(LOCK))?;
    let path = folder.join(FILE);
    match attempt(&path) {
        Err(failure) if failure.is_corrupt() => {
            set_aside(&path, &failure)?;
            attempt(&path)
        }
        outcome => outcome,
    }
}

/// Creates the data folder, if there is none. The writer calls this at the start only: a folder that vanishes
/// later is a fault to report.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| Failure::File { path: folder.to_owned(), source })
}

/// Moves the open database, which turned out to be broken, aside, unless another process has done so.
pub(crate) fn abandon(opened: Opened, folder: &Path, failure: &Failure) -> Result<(), Failure> {
    let _lock = lock(&folder.join(LOCK))?;
    let in_place = opened.is_in_place(folder);
    drop(opened);
    if in_place { set_aside(&folder.join(FILE), failure) } else { Ok(()) }
}

fn attempt(path: &Path) -> Result<Opened, Failure> {
    let file_failed = |source| Failure::File { path: path.to_owned(), source };
    // SQLite gives its other files the mode of this one.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(file_failed(error)),
        _ => {}
    }
    let file = identity(path).map_err(file_failed)?;
    let mut connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // SQLite opens a file that it may not write for reading. Nothing could be recorded in it, and it would stay read-only
    // for as long as it is open, even if the file becomes writable.
    if connection.is_readonly(MAIN_DB)? {
        return Err(Failure::ReadOnly { path: path.to_owned() });
    }
    busy::install(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // This check comes before any statement that might write, so that a newer greenroom's database stays as
    // it is.
    let version = schema::version(&connection)?;
    if version > schema::VERSION {
        return Err(Failure::Newer { version });
    }
    let is_new = version == 0;
    if is_new {
        // SQLite applies this only to a database without tables, and only before WAL mode is on.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        tracing::warn!(
            mode,
            "the records' file system cannot share memory: SQLite works without WAL, and slower"
        );
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    // The checkpointer makes all checkpoints, so that no commit waits for one.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    schema::migrate(&mut connection)?;
    Ok(Opened { connection, file, is_new })
}

/// Whether there is a database.
pub(crate) fn exists(folder: &Path) -> bool {
    folder.join(FILE).is_file()
}

/// A connection that reads. It fails where there is no database.
pub(crate) fn reader(folder: &Path) -> Result<Connection, Failure> {
    let mut connection = Connection::open_with_flags(
        folder.join(FILE),
        // A connection that may not write at all could not read a WAL that the last process left behind.
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    busy::install(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    let version = schema::version(&connection)?;
    if version > schema::VERSION { Err(Failure::Newer { version }) } else { Ok(connection) }
}

/// A connection that makes checkpoints. It has no busy handler: see [`super::checkpoint`].
pub(crate) fn checkpointer(folder: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open_with_flags(
        folder.join(FILE),
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // rusqlite gives every new connection a busy handler of its own.
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    Ok(connection)
}

fn set_aside(path: &Path, failure: &Failure) -> Result<(), Failure> {
    // Some file systems do not allow a colon in a file's name.
    let time = timestamp_ms(SystemTime::now()).replace(':', "");
    let aside = with_suffix(path, &format!(".corrupt-{time}"));
    tracing::error!(
        error = %failure,
        aside = %aside.display(),
        "the database of records is broken; it was moved aside, and a new one begins"
    );
    // The database moves last: until then, another process finds it broken and moves the rest too.
    for suffix in ["-wal", "-shm", ""] {
        let from = with_suffix(path, suffix);
        match fs::rename(&from, with_suffix(&aside, suffix)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::File { path: from, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// SQLite's other files have the database's name and a suffix.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Keeps every other process from opening the database in `folder`, for as long as the file is open.
pub(crate) fn lock_folder(folder: &Path) -> Result<File, Failure> {
    lock(&folder.join(LOCK))
}

/// Takes the lock; it is free again when the file is dropped, and when its process ends.
fn lock(path: &Path) -> Result<File, Failure> {
    let failed = |source| Failure::File { path: path.to_owned(), source };
    let file =
        greenroom_files::private().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WITHIN => {
                thread::park_timeout(LOCK_AGAIN);
            }
            Err(TryLockError::WouldBlock) => return Err(Failure::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let metadata = fs::metadata(path)?;
    Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
}
