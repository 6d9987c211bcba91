//! The records in SQLite: the only part of this crate that knows SQL.
//!
//! One thread writes ([`writer`]), a few connections read meanwhile ([`readers`]). The database is in WAL mode with
//! `synchronous=NORMAL`: a committed row is in the hands of the file system, so it survives the sudden end of this process
//! and of every other. A power cut may cost what was committed since the last checkpoint, never the database.
//!
//! Several processes may share a database. A process holds the file lock `records.lock` while it opens the database,
//! migrates it or moves it aside; SQLite's own locks do the rest.

pub(crate) mod batch;
pub(crate) mod blob_rows;
pub(crate) mod busy;
pub(crate) mod checkpoint;
pub(crate) mod copy;
pub(crate) mod export;
pub(crate) mod figures;
pub(crate) mod find;
pub(crate) mod open;
pub(crate) mod owners;
#[cfg(test)]
mod plans;
pub(crate) mod readers;
pub(crate) mod remove;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod timeline;
pub(crate) mod vacuum;
pub(crate) mod write;
pub(crate) mod writer;

use std::{io, path::PathBuf};

use rusqlite::ErrorCode;

use self::schema::VERSION;

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "it was written by a newer greenroom: its version is {version}, this greenroom knows versions up to {VERSION}"
    )]
    Newer { version: usize },
    #[error("`{}` is read-only", .path.display())]
    ReadOnly { path: PathBuf },
    #[error("another process keeps `{}` locked", .path.display())]
    Locked { path: PathBuf },
    #[error("it is damaged: {finding}")]
    Damaged { finding: String },
    #[error("{0}")]
    Sql(#[from] rusqlite::Error),
}

impl Failure {
    /// Whether the file is not a database, or a broken one.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(
            self,
            Self::Sql(error) if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
        )
    }

    /// Whether one operation is at fault, so that its neighbours may succeed without it.
    pub(crate) fn is_of_one_row(&self) -> bool {
        match self {
            Self::Sql(rusqlite::Error::SqliteFailure(error, _)) => matches!(
                error.code,
                ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
            ),
            // Errors of rusqlite itself: a text with a NUL, a column of another type.
            Self::Sql(_) => true,
            Self::File { .. }
            | Self::Newer { .. }
            | Self::ReadOnly { .. }
            | Self::Locked { .. }
            | Self::Damaged { .. } => false,
        }
    }
}
