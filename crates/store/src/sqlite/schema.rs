//! The tables, and how an older database is migrated.
//!
//! `PRAGMA user_version` counts the migrations that a database has had. Each runs in a transaction of its own, so a
//! database is always of one version or the next. A released migration is never changed; later changes are further
//! migrations. A database of a later version than this program knows is refused.

use rusqlite::{Connection, TransactionBehavior};

use super::Failure;

const MIGRATIONS: [&str; 1] = [include_str!("migrations/001_records.sql")];

/// The version that this program writes and reads.
pub(crate) const VERSION: usize = MIGRATIONS.len();

/// Migrates a database to [`VERSION`].
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = version(&transaction)?;
        if version > VERSION {
            return Err(Failure::Newer { version });
        }
        let Some(migration) = MIGRATIONS.get(version) else { return Ok(()) };
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", version + 1)?;
        transaction.commit()?;
    }
}

/// The version of a database; 0 for an empty one.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // No greenroom writes a negative version. It counts as a later one here, so that this program refuses the
    // database.
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}
