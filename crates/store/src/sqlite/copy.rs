//! Copies the database for a backup while others write, and checks such a copy.

use std::path::Path;

use greenroom_core::BlobId;
use rusqlite::{Connection, OpenFlags};

use super::{Failure, open, schema};

/// What a copy has.
pub(crate) struct Copied {
    /// The version of its tables.
    pub(crate) version: usize,
    pub(crate) records: u64,
    pub(crate) blobs: Vec<CopiedBlob>,
}

/// A row of a blob.
pub(crate) struct CopiedBlob {
    pub(crate) id: BlobId,
    /// Empty where all pools share blobs.
    pub(crate) pool: String,
    /// Whether a record names it. The file of one that none names yet may still be being written.
    pub(crate) is_named: bool,
}

/// Writes the database, as it is at one moment, to the new file `to`. Writers go on meanwhile.
pub(crate) fn snapshot(folder: &Path, to: &Path) -> Result<Copied, Failure> {
    let connection = open::reader(folder)?;
    // SQLite applies `query_only` to the file that it writes here too.
    connection.pragma_update(None, "query_only", false)?;
    let failed = |source| Failure::File { path: to.to_owned(), source };
    // SQLite would create the file with the mode of any other file.
    drop(greenroom_files::private().create_new(true).write(true).open(to).map_err(failed)?);
    let Some(path) = to.to_str() else {
        return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path is not UTF-8")));
    };
    connection.execute("VACUUM INTO ?1", [path])?;
    drop(connection);
    std::fs::File::open(to).and_then(|file| file.sync_all()).map_err(failed)?;
    check(to)
}

/// Reads a copy, after SQLite has checked its structure.
pub(crate) fn check(path: &Path) -> Result<Copied, Failure> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    let version = schema::version(&connection)?;
    if version > schema::VERSION {
        return Err(Failure::Newer { version });
    }
    let finding: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if finding != "ok" {
        return Err(Failure::Damaged { finding });
    }
    let records = connection.query_row("SELECT count(*) FROM requests", [], |row| row.get(0))?;
    let blobs = connection
        .prepare(
            "SELECT sha256, pool, EXISTS (SELECT 1 FROM blob_refs WHERE blob_refs.sha256 = blobs.sha256)
             FROM blobs ORDER BY sha256, pool",
        )?
        .query_map([], |row| {
            let id = BlobId::parse(&row.get::<_, String>(0)?);
            let (pool, is_named) = (row.get(1)?, row.get(2)?);
            Ok(id.map(|id| CopiedBlob { id, pool, is_named }))
        })?
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    Ok(Copied { version, records, blobs })
}
