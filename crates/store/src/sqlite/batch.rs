//! A batch: many operations in one transaction.
//!
//! It is all written or not at all, but for operations that fail by their own fault: with care, each has a savepoint, and
//! one that fails leaves nothing behind and does not touch its neighbours.

use std::sync::Arc;

use greenroom_core::record::NotRecorded;
use rusqlite::Connection;

use super::{Failure, write};
use crate::op::{Done, Op};

/// Whether each operation of a batch gets a savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    None,
    Each,
}

/// One transaction with all of a batch of the process `run` in it. Every error is the whole batch's.
pub(crate) fn transaction(
    connection: &Connection,
    run: &str,
    batch: &[Op],
    done: &mut Vec<Result<Done, NotRecorded>>,
    care: Care,
) -> Result<(), Failure> {
    execute(connection, "BEGIN IMMEDIATE")?;
    let outcome = fill(connection, run, batch, done, care).and_then(|()| execute(connection, "COMMIT"));
    if outcome.is_err() && !connection.is_autocommit() {
        // SQLite has rolled some failures back itself. One that it cannot roll back, it will find at the next start.
        let _ = execute(connection, "ROLLBACK");
    }
    outcome
}

fn fill(
    connection: &Connection,
    run: &str,
    batch: &[Op],
    done: &mut Vec<Result<Done, NotRecorded>>,
    care: Care,
) -> Result<(), Failure> {
    for op in batch {
        if care == Care::None {
            done.push(Ok(write::apply(connection, run, op)?));
            continue;
        }
        execute(connection, "SAVEPOINT one")?;
        match write::apply(connection, run, op).map_err(Failure::from) {
            Ok(outcome) => done.push(Ok(outcome)),
            Err(failure) if failure.is_of_one_row() => {
                execute(connection, "ROLLBACK TO one")?;
                tracing::error!(%failure, "a record could not be written");
                done.push(Err(NotRecorded(Arc::from(failure.to_string()))));
            }
            Err(failure) => return Err(failure),
        }
        execute(connection, "RELEASE one")?;
    }
    Ok(())
}

fn execute(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
