//! Which data is removed, and when: records by age and by size; blobs by their last use, by size, and when no record
//! names them.
//!
//! A round of removals consists of slices, each a short transaction, so that a call never waits for more than
//! one. The writer removes a slice whenever it is idle; `greenroom db vacuum` removes all slices.
//! [`crate::sqlite::remove`] selects the rows.

use std::time::{Duration, SystemTime};

use crate::{
    blob_files::BlobFiles,
    settings::StoreSettings,
    sqlite::{
        Failure,
        remove::{self, BlobCursor},
    },
};
use rusqlite::Connection;

/// A blob that no record names is removed when it has not been used for this long. A record names its blobs
/// milliseconds after they were kept.
pub(crate) const UNREFERENCED_TTL: Duration = Duration::from_secs(3600);

/// A blob used this recently is never removed to make room: a record that is being written may name it.
pub(crate) const IN_USE: Duration = Duration::from_secs(60);

/// The next step of a round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum RetentionStage {
    #[default]
    Records,
    Sessions(i64),
    OldBlobs,
    UnnamedBlobs(BlobCursor),
    Pages,
    Done,
}

/// How much a round has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Removed {
    pub records: usize,
    pub sessions: usize,
    pub blobs: usize,
    pub blob_bytes: u64,
}

impl Removed {
    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.sessions += other.sessions;
        self.blobs += other.blobs;
        self.blob_bytes += other.blob_bytes;
    }
}

/// One round through everything that may have to be removed.
#[derive(Default)]
pub(crate) struct Round {
    stage: RetentionStage,
    pub(crate) removed: Removed,
}

/// The settings and the time that decide what is too old.
pub(crate) struct Limits<'a> {
    pub(crate) settings: &'a StoreSettings,
    pub(crate) now: SystemTime,
}

impl Limits<'_> {
    /// The time that lies `ago` before now.
    pub(crate) fn before(&self, ago: Duration) -> SystemTime {
        self.now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl Round {
    /// Carries out one slice of the round. Returns whether the round has more to do.
    pub(crate) fn slice(
        &mut self,
        connection: &mut Connection,
        files: &BlobFiles,
        settings: &StoreSettings,
    ) -> Result<bool, Failure> {
        let limits = Limits { settings, now: SystemTime::now() };
        let removed;
        (self.stage, removed) = match std::mem::take(&mut self.stage) {
            RetentionStage::Records => match remove::records(connection, &limits)? {
                Some(removed) => (RetentionStage::Records, removed),
                None => (RetentionStage::Sessions(0), Removed::default()),
            },
            RetentionStage::Sessions(after) => match remove::sessions(connection, &limits, after)? {
                (Some(after), removed) => (RetentionStage::Sessions(after), removed),
                (None, removed) => (RetentionStage::OldBlobs, removed),
            },
            RetentionStage::OldBlobs => match remove::old_blobs(connection, files, &limits)? {
                Some(removed) => (RetentionStage::OldBlobs, removed),
                None => (RetentionStage::UnnamedBlobs(BlobCursor::default()), Removed::default()),
            },
            RetentionStage::UnnamedBlobs(after) => {
                match remove::unnamed_blobs(connection, files, &limits, &after)? {
                    (Some(after), removed) => (RetentionStage::UnnamedBlobs(after), removed),
                    (None, removed) => (RetentionStage::Pages, removed),
                }
            }
            RetentionStage::Pages => match remove::pages(connection)? {
                true => (RetentionStage::Pages, Removed::default()),
                false => {
                    files.remove_unfinished(limits.before(UNREFERENCED_TTL));
                    (RetentionStage::Done, Removed::default())
                }
            },
            RetentionStage::Done => (RetentionStage::Done, Removed::default()),
        };
        self.removed.add(removed);
        Ok(self.stage != RetentionStage::Done)
    }
}
