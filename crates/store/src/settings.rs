//! The settings of a store.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// The data folder, with the database and the blobs.
    pub folder: PathBuf,
    /// The tag of this process.
    pub process_tag: String,
    /// The tags of all living processes: a session of any other process that is older than `processes_listed_after` is over.
    pub running_tags: Vec<String>,
    /// A moment before `running_tags` was determined: younger sessions may belong to processes that are not in it.
    pub processes_listed_after: SystemTime,
    /// Records older than this are removed.
    pub max_age: Duration,
    /// When the database is bigger than this, the oldest records are removed.
    pub bytes_max: u64,
    /// A blob that was not used for this long is removed.
    pub blobs_ttl: Duration,
    /// When all blobs together are bigger than this, those longest unused are removed.
    pub blobs_bytes_max: u64,
    /// Whether the blobs of each pool are kept in a folder of their own.
    pub blobs_per_pool: bool,
}
