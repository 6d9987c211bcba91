//! Counts the rows and bytes of the database, in all and by owner, for `greenroom db stats`.

use std::{fs, path::Path};

use rusqlite::Connection;

use super::{open, schema};
use crate::maintenance::{OwnerStats, Stats};

const TABLES: [&str; 7] =
    ["sessions", "requests", "responses", "console_logs", "diff_cursors", "blobs", "blob_refs"];

pub(crate) fn stats(connection: &Connection, folder: &Path) -> rusqlite::Result<Stats> {
    // One transaction, so that all figures show the same state of the database.
    let snapshot_tx = connection.unchecked_transaction()?;
    let number = |sql: &str| snapshot_tx.query_row(sql, [], |row| row.get::<_, u64>(0));
    let mut rows = std::collections::BTreeMap::new();
    for table in TABLES {
        rows.insert(table, number(&format!("SELECT count(*) FROM {table}"))?);
    }
    let end = |order: &str| {
        snapshot_tx.query_row(
            &format!("SELECT (SELECT timestamp FROM requests ORDER BY position {order} LIMIT 1)"),
            [],
            |row| row.get(0),
        )
    };
    let owners = snapshot_tx
        .prepare(
            "SELECT owner, count(*), (SELECT count(*) FROM sessions WHERE sessions.owner = requests.owner)
             FROM requests GROUP BY owner ORDER BY count(*) DESC, owner",
        )?
        .query_map([], |row| {
            Ok(OwnerStats { owner: row.get(0)?, records: row.get(1)?, sessions: row.get(2)? })
        })?
        .collect::<Result<_, _>>()?;
    Ok(Stats {
        database: folder.join(open::FILE),
        version: schema::version(&snapshot_tx)?,
        bytes: bytes(folder),
        rows,
        blob_bytes: number("SELECT coalesce(sum(bytes), 0) FROM blobs")?,
        oldest: end("ASC")?,
        newest: end("DESC")?,
        owners,
    })
}

/// The size of the database and its WAL on disk.
pub(crate) fn bytes(folder: &Path) -> u64 {
    [open::FILE.to_owned(), format!("{}-wal", open::FILE)]
        .iter()
        .filter_map(|name| fs::metadata(folder.join(name)).ok())
        .map(|metadata| metadata.len())
        .sum()
}
