//! A batch: many operations in one transaction.
//!
//! It is written as a whole or not at all, except for operations that fail by their own fault: with [`Savepoints`] each has a
//! savepoint, and one that fails leaves nothing behind and does not affect its neighbours.

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

/// One transaction with the whole batch of the process `run`. Every error is the whole batch's.
pub(crate) fn transaction(
    connection: &Connection,
    run: &str,
    batch: &[Op],
    savepoints: Savepoints,
) -> Result<Outcomes, Failure> {
    execute(connection, "BEGIN IMMEDIATE")?;
    let outcomes = fill(connection, run, batch, savepoints)
        .and_then(|outcomes| execute(connection, "COMMIT").map(|()| outcomes));
    if outcomes.is_err() && !connection.is_autocommit() {
        // SQLite has rolled some failures back itself. One that it cannot roll back, it will find at the next start.
        let _ = execute(connection, "ROLLBACK");
    }
    outcomes
}

fn fill(
    connection: &Connection,
    run: &str,
    batch: &[Op],
    savepoints: Savepoints,
) -> Result<Outcomes, Failure> {
    let mut outcomes = Vec::with_capacity(batch.len());
    for op in batch {
        if savepoints == Savepoints::None {
            outcomes.push(Ok(write::apply(connection, run, op)?));
            continue;
        }
        execute(connection, "SAVEPOINT one")?;
        match write::apply(connection, run, op).map_err(Failure::from) {
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
