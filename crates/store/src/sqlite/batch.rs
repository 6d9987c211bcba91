//! A batch: many operations in one transaction.
//!
//! The writer commits it as a whole or not at all. With [`Savepoints`] each operation has a savepoint, so
//! that an operation that fails by its own fault leaves no rows and the others succeed.

use std::sync::Arc;

use greenroom_core::record::NotRecorded;
use rusqlite::Connection;

use super::{Failure, write};
use crate::op::{Op, OpResult};

/// Whether each operation of a batch gets a savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Savepoints {
    None,
    Each,
}

/// The result of each operation of a batch.
pub(crate) type Outcomes = Vec<Result<OpResult, NotRecorded>>;

/// Writes the whole batch in one transaction, for the process with the tag `process_tag`. An error means that nothing
/// of the batch is written.
pub(crate) fn transaction(
    connection: &Connection,
    process_tag: &str,
    batch: &[Op],
    savepoints: Savepoints,
) -> Result<Outcomes, Failure> {
    execute(connection, "BEGIN IMMEDIATE")?;
    let outcomes = fill(connection, process_tag, batch, savepoints)
        .and_then(|outcomes| execute(connection, "COMMIT").map(|()| outcomes));
    if outcomes.is_err() && !connection.is_autocommit() {
        // After some failures SQLite has rolled back already, hence the check. If this statement fails too,
        // SQLite rolls the transaction back when it next opens the file.
        let _ = execute(connection, "ROLLBACK");
    }
    outcomes
}

fn fill(
    connection: &Connection,
    process_tag: &str,
    batch: &[Op],
    savepoints: Savepoints,
) -> Result<Outcomes, Failure> {
    let mut outcomes = Vec::with_capacity(batch.len());
    for op in batch {
        if savepoints == Savepoints::None {
            outcomes.push(Ok(write::apply(connection, process_tag, op)?));
            continue;
        }
        execute(connection, "SAVEPOINT one")?;
        match write::apply(connection, process_tag, op).map_err(Failure::from) {
            Ok(done) => outcomes.push(Ok(done)),
            Err(failure) if failure.is_of_one_row() => {
                execute(connection, "ROLLBACK TO one")?;
                tracing::error!(%failure, "a record could not be written");
                outcomes.push(Err(NotRecorded(Arc::from(failure.to_string()))));
            }
            Err(failure) => return Err(failure),
        }
        execute(connection, "RELEASE one")?;
    }
    Ok(outcomes)
}

fn execute(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
