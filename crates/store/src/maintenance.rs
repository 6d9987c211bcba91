//! The functions of `greenroom db` and `greenroom owners`: show figures, make room, export records, change or remove an
//! owner's.
//!
//! Each function opens the database for itself, and may be called while greenroom processes use it. It sees all owners:
//! a user who can read the data folder could read the file as well.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::SystemTime,
};

use greenroom_core::Owner;
use serde::Serialize;

use crate::{
    blob_files::BlobFiles,
    settings::StoreSettings,
    sqlite::{Failure, export, figures, open, owners, schema, vacuum},
};
pub use crate::{
    retention::Removed,
    sqlite::{export::Exported, owners::Given, vacuum::Vacuumed},
};

/// Why maintenance of the records fails.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    #[error("cannot use {}", .path.display())]
    Database { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "{} was written by a newer greenroom: its version is {version}, this greenroom knows versions up to {known}",
        .path.display()
    )]
    Newer { path: PathBuf, version: usize, known: usize },
    #[error("no records of a session \"{0}\"")]
    NoSession(String),
}

/// The store in figures.
#[derive(Debug, Serialize)]
pub struct Stats {
    pub database: PathBuf,
    pub version: usize,
    /// The database with its WAL.
    pub bytes: u64,
    /// Rows of each table.
    pub rows: BTreeMap<&'static str, u64>,
    pub blob_bytes: u64,
    /// When the oldest and the newest record began.
    pub oldest: Option<String>,
    pub newest: Option<String>,
    pub owners: Vec<OwnerStats>,
}

#[derive(Debug, Serialize)]
pub struct OwnerStats {
    pub owner: String,
    pub records: u64,
    pub sessions: u64,
}

/// Which records to export.
#[derive(Debug, Default)]
pub struct Wanted {
    /// A session, by its UUID or its name.
    pub session: Option<String>,
    pub since: Option<SystemTime>,
}

/// Whether the folder has a database of records.
pub fn exists(folder: &Path) -> bool {
    folder.join(open::FILE).exists()
}

pub fn stats(folder: &Path) -> Result<Stats, MaintenanceError> {
    open::reader(folder)
        .and_then(|connection| Ok(figures::stats(&connection, folder)?))
        .map_err(|failure| database(folder, failure))
}

/// Removes records and blobs beyond the limits in the settings, and makes the file as small as it can be.
/// `alone` says that no greenroom process uses the database: then SQLite rewrites the whole file. Otherwise
/// it only gives back free pages at the end of the file, in small steps, for which no call waits.
pub fn vacuum(settings: &StoreSettings, alone: bool) -> Result<Vacuumed, MaintenanceError> {
    vacuum::vacuum(settings, alone).map_err(|failure| database(&settings.folder, failure))
}

/// Calls `each` with one record after the other, oldest first, until it fails.
pub fn export<E: From<MaintenanceError>>(
    folder: &Path,
    wanted: &Wanted,
    mut each: impl FnMut(&Exported) -> Result<(), E>,
) -> Result<(), E> {
    let connection = open::reader(folder).map_err(|failure| database(folder, failure))?;
    let failed = |error: rusqlite::Error| database(folder, error.into());
    let mut parts = export::Parts::new(&connection, wanted).map_err(failed)?;
    if let (Some(session), true) = (&wanted.session, parts.matches_no_session()) {
        return Err(MaintenanceError::NoSession(session.clone()).into());
    }
    loop {
        let part = parts.next(&connection).map_err(failed)?;
        if part.is_empty() {
            return Ok(());
        }
        for exported in &part {
            each(exported)?;
        }
    }
}

/// Gives all records, blobs and past sessions of one owner to another. The caller makes sure that `from` has no open
/// session: a call that runs meanwhile would not be recorded.
pub fn give(folder: &Path, from: &Owner, to: &Owner) -> Result<Given, MaintenanceError> {
    let mut given = Given::default();
    let mut opened = open::open(folder).map_err(|failure| database(folder, failure))?;
    loop {
        match owners::give(&mut opened.connection, from, to) {
            Ok(None) => return Ok(given),
            Ok(Some(part)) => {
                given.records += part.records;
                given.sessions += part.sessions;
            }
            Err(failure) => return Err(database(folder, failure)),
        }
    }
}

/// Removes all records and past sessions of an owner, and the blobs that no other owner's record names. As with [`give`],
/// the owner must have no open session.
pub fn delete_owner(folder: &Path, owner: &Owner) -> Result<Removed, MaintenanceError> {
    let mut removed = Removed::default();
    let mut opened = open::open(folder).map_err(|failure| database(folder, failure))?;
    let files = BlobFiles::new(folder, "owners-delete");
    loop {
        match owners::delete(&mut opened.connection, &files, owner) {
            Ok(None) => return Ok(removed),
            Ok(Some(part)) => removed.add(part),
            Err(failure) => return Err(database(folder, failure)),
        }
    }
}

fn database(folder: &Path, failure: Failure) -> MaintenanceError {
    let path = folder.join(open::FILE);
    match failure {
        Failure::Newer { version } => MaintenanceError::Newer { path, version, known: schema::VERSION },
        failure => MaintenanceError::Database { path, source: Box::new(failure) },
    }
}
