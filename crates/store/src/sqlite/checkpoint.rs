//! Checkpoints: a thread with a connection of its own copies the WAL into the database.
//!
//! A checkpoint waits for the disk, and so would every call whose commit ran one. Here the writer only reports how much it
//! has written. A passive checkpoint lets the writer go on meanwhile; only when the WAL has grown far beyond that, since
//! calls never paused, does a checkpoint hold the writer up for a moment to restart the WAL.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{busy::BUSY_WITHIN, open};

/// After so many bytes written there is a checkpoint. Few enough that the WAL stays in memory and the next start reads it
/// quickly, enough that the disk is not kept busy.
const EVERY_BYTES: usize = 8 << 20;

/// A WAL of so many pages is restarted, whatever waits: 64 MiB, the most that a start has to read after a crash.
const PAGES_MAX: i64 = 16_384;

/// What a commit writes in addition to its rows: some six pages of tables and indexes.
const COMMIT_BYTES: usize = 6 * 4096;

/// The pause between two checks whether another checkpoint has ended; one takes some milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The thread that makes checkpoints. Dropping this ends the thread and waits for it.
pub(crate) struct Checkpointer {
    nudge: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    written: usize,
}

impl Checkpointer {
    pub(crate) fn start(folder: &Path) -> Self {
        let (nudge, nudges) = sync_channel(1);
        let folder = folder.to_owned();
        let thread = thread::Builder::new()
            .name("greenroom-wal".to_owned())
            .spawn(move || run(&folder, &nudges))
            .inspect_err(|error| tracing::error!(%error, "no thread for the records' checkpoints"))
            .ok();
        Self { nudge: Some(nudge), thread, written: 0 }
    }

    /// Notes a commit of so many bytes.
    pub(crate) fn written(&mut self, bytes: usize) {
        self.written += bytes + COMMIT_BYTES;
        if self.written >= EVERY_BYTES {
            self.written = 0;
            // A nudge that still waits covers both.
            if let Some(nudge) = &self.nudge {
                let _ = nudge.try_send(());
            }
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.nudge = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first checkpoint is made at once: it copies what a crash has left behind, and opens the files that stay open from
/// then on.
fn run(folder: &Path, nudges: &Receiver<()>) {
    let mut connection = None;
    loop {
        if connection.is_none() {
            connection = open::checkpointer(folder)
                .inspect_err(|error| tracing::debug!(%error, "no connection for a checkpoint"))
                .ok();
        }
        if let Some(Err(error)) = connection.as_ref().map(checkpoint) {
            // The writer meets the same fault and reports it; a new connection may not have it.
            tracing::debug!(%error, "the records' checkpoint failed");
            connection = None;
        }
        if nudges.recv().is_err() {
            return;
        }
    }
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    let pages = run_pragma(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
    if pages > PAGES_MAX {
        run_pragma(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
    }
    Ok(())
}

/// How many pages the WAL has.
fn run_pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(pragma, [], |row| row.get(1))
}

/// The last checkpoint of a connection that ends: as much as other connections allow.
pub(crate) fn last(connection: &Connection) -> rusqlite::Result<()> {
    run_pragma(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(|_| ())
}

/// Copies everything and empties the WAL, unless a reader uses it for long. Waits for a checkpoint of another greenroom
/// that is under way: SQLite does not.
pub(crate) fn whole(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !is_busy || began.elapsed() >= BUSY_WITHIN {
            return Ok(());
        }
        thread::park_timeout(LOOK_AGAIN);
    }
}
