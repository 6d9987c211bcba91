//! The writer: the one thread of this process that writes to the database.
//!
//! It takes all queued operations as one batch, writes it in one transaction, and answers all its operations
//! in order after the commit. If an operation cannot be written, the writer repeats the batch with a
//! savepoint for each operation, so that this one fails alone. A transaction that fails fails the whole
//! batch, and [`StoreShared::health`] says why until one succeeds again. If the database cannot be opened,
//! the writer tries again; it replaces a broken or missing database with a new one. Meanwhile calls run
//! without records.

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use greenroom_core::record::NotRecorded;

use super::{
    Failure,
    batch::{Outcomes, Savepoints, transaction},
    checkpoint::{self, Checkpointer},
    open::{self, Opened},
    remove,
    write::close_orphans,
};
use crate::{
    blob_files::BlobFiles,
    op::{Op, OpResult},
    retention::{Removed, Round},
    settings::StoreSettings,
    shared::{DatabasePhase, StoreShared},
};

/// The pause before a database that could not be opened is tried again. Long enough not to keep a failing disk busy, short
/// enough that recording resumes soon after the disk recovers.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// How often the writer checks whether something must be removed. Limits are days and gigabytes.
const RETAIN_EVERY: Duration = Duration::from_secs(60);

/// How soon after the start the writer first checks; the first calls should not wait for that.
const RETAIN_FIRST: Duration = Duration::from_secs(1);

/// How long removals wait until the writer is idle. After that the writer removes a slice, which takes about a
/// millisecond, between two batches: otherwise the database would grow without end if calls never pause.
const RETAIN_WITHIN: Duration = Duration::from_secs(1);

pub(crate) struct DatabaseWriter {
    shared: Arc<StoreShared>,
    settings: StoreSettings,
    folder: PathBuf,
    state: DatabaseState,
    openings: u64,
    files: Arc<BlobFiles>,
    /// The round of removals that is under way, if there is one.
    round: Option<Round>,
    /// When the round's next slice is due, or else the next round.
    retain_at: Instant,
}

enum DatabaseState {
    Open { opened: Opened, checkpointer: Checkpointer },
    Shut { why: Arc<str>, again: Instant },
}

/// Reports on drop that the writer has ended, for whatever reason.
struct EndReport(Arc<StoreShared>);

impl Drop for EndReport {
    fn drop(&mut self) {
        if thread::panicking() {
            let why: Arc<str> = Arc::from("the writer of records has ended unexpectedly");
            self.0.set_health(Err(why.clone()));
            self.0.queue.close_because(why);
        }
        self.0.queue.close();
        // This drops the operations that are still in the queue, so their waiters learn that the writer has
        // ended.
        drop(self.0.queue.take(Duration::ZERO));
        self.0.phase.send_replace(DatabasePhase::Ended);
    }
}

impl DatabaseWriter {
    /// Runs until the queue is closed and empty.
    pub(crate) fn run(shared: Arc<StoreShared>, settings: StoreSettings, files: Arc<BlobFiles>) {
        let end_report = EndReport(shared.clone());
        let mut writer = Self {
            folder: settings.folder.clone(),
            state: DatabaseState::Shut { why: Arc::from("not opened yet"), again: Instant::now() },
            shared,
            settings,
            openings: 0,
            files,
            round: None,
            retain_at: Instant::now() + RETAIN_FIRST,
        };
        if let Err(failure) = open::make_folder(&writer.folder) {
            tracing::error!(%failure, "cannot create the folder for the records");
        }
        writer.open();
        while let Some(batch) = writer.shared.queue.take(writer.time_until_due()) {
            let is_idle = batch.is_empty();
            writer.open_if_due();
            if !is_idle {
                writer.write(batch);
            }
            writer.retain_if_due(if is_idle { Duration::ZERO } else { RETAIN_WITHIN });
        }
        writer.finish();
        drop(end_report);
    }

    fn time_until_due(&self) -> Duration {
        let until = match &self.state {
            DatabaseState::Open { .. } => self.retain_at,
            DatabaseState::Shut { again, .. } => *again,
        };
        until.saturating_duration_since(Instant::now())
    }

    fn open_if_due(&mut self) {
        if matches!(&self.state, DatabaseState::Shut { again, .. } if *again <= Instant::now()) {
            self.open();
        }
    }

    fn open(&mut self) {
        let outcome = match self.open_and_tidy() {
            // The first attempt has moved the broken database aside, so the second creates a new one.
            Err(failure) if failure.is_corrupt() => self.open_and_tidy(),
            outcome => outcome,
        };
        match outcome {
            Ok(opened) => {
                self.openings += 1;
                let checkpointer = Checkpointer::start(&self.folder);
                self.state = DatabaseState::Open { opened, checkpointer };
                self.shared.phase.send_replace(DatabasePhase::Open(self.openings));
                self.shared.set_health(Ok(()));
            }
            Err(failure) => self.shut(&failure),
        }
    }

    /// Opens the database and does what must be done before the first batch. Moves a broken database aside.
    fn open_and_tidy(&self) -> Result<Opened, Failure> {
        let mut opened = open::open(&self.folder)?;
        match self.tidy(&mut opened) {
            Ok(()) => Ok(opened),
            Err(failure) => {
                if failure.is_corrupt() {
                    open::abandon(opened, &self.folder, &failure)?;
                }
                Err(failure)
            }
        }
    }

    fn tidy(&self, opened: &mut Opened) -> Result<(), Failure> {
        let StoreSettings { process_tag, running_tags, processes_listed_after, .. } = &self.settings;
        let closed =
            close_orphans(&mut opened.connection, process_tag, running_tags, *processes_listed_after)?;
        if closed > 0 {
            tracing::info!(closed, "closed the sessions of greenrooms that have ended");
        }
        if opened.is_new {
            // The blobs of a database that was moved aside get rows here; without rows no round would ever
            // remove them.
            remove::adopt(&mut opened.connection, &self.files.all())?;
        }
        Ok(())
    }

    fn shut(&mut self, failure: &Failure) {
        let why: Arc<str> =
            Arc::from(format!("cannot open {}: {failure}", self.folder.join(open::FILE).display()));
        self.state = DatabaseState::Shut { why: why.clone(), again: Instant::now() + OPEN_AGAIN };
        self.shared.phase.send_replace(DatabasePhase::Shut(why.clone()));
        self.shared.set_health(Err(why));
    }

    /// Writes a batch and answers it.
    fn write(&mut self, batch: Vec<Op>) {
        match self.commit(&batch) {
            Ok(outcomes) => {
                // Ignore operations that found no row to write to: they do not show that the disk works.
                if outcomes
                    .iter()
                    .any(|outcome| matches!(outcome, Ok(OpResult::Written | OpResult::Claimed(_))))
                {
                    self.shared.set_health(Ok(()));
                }
                for (op, outcome) in batch.into_iter().zip(outcomes) {
                    op.answer(outcome);
                }
            }
            Err(why) => {
                self.shared.set_health(Err(why.clone()));
                for op in batch {
                    op.answer(Err(NotRecorded(why.clone())));
                }
            }
        }
    }

    /// Writes a batch. Tries again with savepoints if one operation is at fault, and with a new database if this one is
    /// broken.
    fn commit(&mut self, batch: &[Op]) -> Result<Outcomes, Arc<str>> {
        self.reopen_if_moved();
        let mut savepoints = Savepoints::None;
        let mut is_replaced = false;
        loop {
            let (opened, checkpointer) = match &mut self.state {
                DatabaseState::Open { opened, checkpointer } => (opened, checkpointer),
                DatabaseState::Shut { why, .. } => return Err(why.clone()),
            };
            match transaction(&opened.connection, &self.settings.process_tag, batch, savepoints) {
                Ok(outcomes) => {
                    checkpointer.written(batch.iter().map(Op::bytes).sum());
                    return Ok(outcomes);
                }
                Err(failure) if failure.is_of_one_row() && savepoints == Savepoints::None => {
                    savepoints = Savepoints::Each;
                }
                Err(failure) if failure.is_corrupt() && !is_replaced => {
                    is_replaced = true;
                    self.replace_broken_database(&failure);
                }
                Err(failure) => {
                    tracing::debug!(%failure, operations = batch.len(), "a batch of records failed");
                    return Err(Arc::from(failure.to_string()));
                }
            }
        }
    }

    /// Opens the database anew if its file was removed or replaced: SQLite would go on writing to the old
    /// file, where no reader finds the rows.
    fn reopen_if_moved(&mut self) {
        if matches!(&self.state, DatabaseState::Open { opened, .. } if !opened.is_in_place(&self.folder)) {
            tracing::warn!(
                path = %self.folder.join(open::FILE).display(),
                "the database of records was moved or removed; opening it again"
            );
            self.open();
        }
    }

    fn replace_broken_database(&mut self, failure: &Failure) {
        let shut = DatabaseState::Shut { why: Arc::from(failure.to_string()), again: Instant::now() };
        if let DatabaseState::Open { opened, checkpointer } = std::mem::replace(&mut self.state, shut) {
            drop(checkpointer);
            match open::abandon(opened, &self.folder, failure) {
                Ok(()) => self.open(),
                Err(failure) => self.shut(&failure),
            }
        }
    }

    /// Removes a slice, if one has been due for at least `overdue`.
    fn retain_if_due(&mut self, overdue: Duration) {
        let now = Instant::now();
        if self.retain_at + overdue > now {
            return;
        }
        let DatabaseState::Open { opened, checkpointer } = &mut self.state else { return };
        let round = self.round.get_or_insert_default();
        let more = round.slice(&mut opened.connection, &self.files, &self.settings);
        checkpointer.written(0);
        match more {
            Ok(true) => self.retain_at = now,
            Ok(false) => {
                let removed = round.removed;
                if removed != Removed::default() {
                    tracing::info!(
                        records = removed.records,
                        sessions = removed.sessions,
                        blobs = removed.blobs,
                        "removed old records and blobs"
                    );
                }
                self.next_round(now);
            }
            Err(failure) => {
                tracing::warn!(%failure, "old records and blobs cannot be removed now");
                self.next_round(now);
            }
        }
    }

    fn next_round(&mut self, now: Instant) {
        self.round = None;
        self.retain_at = now + RETAIN_EVERY;
    }

    fn finish(&mut self) {
        if let DatabaseState::Open { opened, .. } = &self.state
            && let Err(error) = checkpoint::last(&opened.connection)
        {
            tracing::debug!(%error, "the records' last checkpoint failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use greenroom_core::{SessionUid, record::SessionState};

    use super::*;

    fn op() -> Op {
        let at = SystemTime::UNIX_EPOCH;
        Op::SessionEnded(SessionUid::new(at, [1; 16]), SessionState::Closed, at)
    }

    /// After a panic of the writer, the health and later refusals give its reason. A writer that ends
    /// normally leaves none.
    #[test]
    fn a_writer_that_panics_is_told_of() {
        for panics in [true, false] {
            let shared = Arc::new(StoreShared::new());
            let end_report = EndReport(shared.clone());
            let ended = thread::spawn(move || {
                let _end_report = end_report;
                assert!(!panics, "this is the panic");
            });
            assert_eq!(ended.join().is_err(), panics);
            let why = "the writer of records has ended unexpectedly";
            assert_eq!(shared.health().err().as_deref(), panics.then_some(why));
            let refused = shared.queue.push(op()).unwrap_err().to_string();
            assert_eq!(refused, if panics { why } else { "greenroom is shutting down" });
            assert_eq!(&*shared.ended().0, if panics { why } else { "the writer of records has ended" });
            assert_eq!(*shared.phase.borrow(), DatabasePhase::Ended);
        }
    }
}
