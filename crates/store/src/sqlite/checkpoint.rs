//! Checkpoints: a thread with a connection of its own copies the WAL into the database.
//!
//! A checkpoint waits for the disk. If the writer ran it in a commit, the calls in that commit would wait too; so the
//! writer only reports how much it has written. A passive checkpoint lets the writer go on meanwhile. If calls never
//! pause, the WAL grows; beyond [`PAGES_MAX`] a checkpoint holds the writer up for a moment to restart the WAL.
//!
//! Restarting takes the writer's lock, and SQLite keeps that lock while its busy handler waits for readers. A writer of
//! this or another process would meanwhile be refused: "database is locked". So connections that make checkpoints have no
//! busy handler; [`whole`] waits between its attempts, without any lock.

use std::{
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};

use super::{busy::BUSY_WITHIN, open};

/// How many bytes the writer commits between two checkpoints: few enough that the WAL stays in memory and the
/// next start reads it quickly, enough that checkpoints do not keep the disk busy.
const EVERY_BYTES: usize = 8 << 20;

/// How many pages the WAL may have before a checkpoint restarts it and makes the writer wait: 64 MiB, the
/// most that a start has to read after a crash.
const PAGES_MAX: i64 = 16_384;

/// What a commit writes in addition to its rows: some six pages of tables and indexes.
const COMMIT_BYTES: usize = 6 * 4096;

/// The pause between two checks whether another checkpoint has ended; a checkpoint takes some milliseconds.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

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
            .inspect_err(|error| tracing::error!(%error, "cannot start the thread that makes checkpoints"))
            .ok();
        Self { nudge: Some(nudge), thread, written: 0 }
    }

    /// Notes a commit of `bytes` bytes.
    pub(crate) fn written(&mut self, bytes: usize) {
        self.written += bytes + COMMIT_BYTES;
        if self.written >= EVERY_BYTES {
            self.written = 0;
            // If an earlier nudge is still in the channel, its checkpoint covers this commit too.
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
                .inspect_err(|error| tracing::debug!(%error, "cannot open a connection for a checkpoint"))
                .ok();
        }
        if let Some(Err(error)) = connection.as_ref().map(checkpoint) {
            // The writer meets the same fault and reports it. The next attempt uses a new connection, which
            // may not have it.
            tracing::debug!(%error, "the records' checkpoint failed");
            connection = None;
        }
        if nudges.recv().is_err() {
            return;
        }
    }
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    if passive(connection)?.wal_pages > PAGES_MAX {
        whole(connection)?;
    }
    Ok(())
}

/// The result of one checkpoint.
#[derive(Debug, Default, PartialEq, Eq)]
struct Attempt {
    /// Another checkpoint is under way, a reader needs the WAL, or the writer is about to commit.
    is_busy: bool,
    wal_pages: i64,
    /// How many of these pages the checkpoint has copied into the database.
    copied_pages: i64,
}

/// Copies as much of the WAL as it can without any lock that the writer needs.
fn passive(connection: &Connection) -> rusqlite::Result<Attempt> {
    run_pragma(connection, "PRAGMA wal_checkpoint(PASSIVE)")
}

fn run_pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<Attempt> {
    let attempt = connection.query_row(pragma, [], |row| {
        Ok(Attempt { is_busy: row.get(0)?, wal_pages: row.get(1)?, copied_pages: row.get(2)? })
    });
    match attempt {
        // Another connection held the checkpoint lock before this checkpoint began.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Ok(Attempt { is_busy: true, ..Attempt::default() })
        }
        attempt => attempt,
    }
}

/// Copies as much of the WAL as other connections allow, before this connection closes.
pub(crate) fn last(connection: &Connection) -> rusqlite::Result<()> {
    passive(connection).map(|_| ())
}

/// Copies everything and empties the WAL, unless a reader uses it for long. The connection must have no busy handler.
/// Waits for other checkpoints and for readers, and holds no lock meanwhile. The writer waits only while the WAL, all of
/// it copied but for the latest commits, is emptied.
pub(crate) fn whole(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let copied = passive(connection)?;
        if !copied.is_busy
            && copied.copied_pages == copied.wal_pages
            && !run_pragma(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?.is_busy
        {
            return Ok(());
        }
        if began.elapsed() >= BUSY_WITHIN {
            return Ok(());
        }
        thread::park_timeout(RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    /// While a reader keeps the WAL in use, checkpoints that would empty it refuse no commit: none of
    /// them holds the writer's lock while it waits.
    #[test]
    fn a_checkpoint_that_waits_for_a_reader_refuses_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        let writer = open::open(folder.path()).unwrap().connection;
        writer.execute_batch("CREATE TABLE written (value)").unwrap();
        let reader = open::reader(folder.path()).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM written").unwrap();
        let checkpointer = open::checkpointer(folder.path()).unwrap();
        let is_done = AtomicBool::new(false);
        let (committed, checkpointer) = thread::scope(|threads| {
            let is_done = &is_done;
            let checkpoints = threads.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    whole(&checkpointer).unwrap();
                }
                checkpointer
            });
            let committed =
                (0..20).try_for_each(|_| match writer.execute("INSERT INTO written VALUES (1)", []) {
                    Ok(_) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                });
            is_done.store(true, Ordering::Relaxed);
            (committed, checkpoints.join().unwrap())
        });
        assert_eq!(committed, ControlFlow::Continue(()));
        assert!(
            run_pragma(&checkpointer, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap().is_busy,
            "the reader stayed"
        );
        reader.execute_batch("COMMIT").unwrap();
        whole(&checkpointer).unwrap();
        assert_eq!(passive(&checkpointer).unwrap(), Attempt::default(), "the WAL is empty");
    }
}
