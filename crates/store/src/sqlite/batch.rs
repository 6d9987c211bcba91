//! A batch: many operations in one transaction.
//!
//! It is all written or not at all, but for operations that fail by their own fault: with care, each has a savepoint, and
//! one that fails leaves nothing behind and does not touch its neighbours.

use std::sync::Arc;

use greenroom_core::record::NotRecorded;
use rusqlite::Connection;

use super::{Failure, write::Writing};
use crate::op::{Done, Op};

/// Whether each operation of a batch gets a savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    None,
    Each,
}

/// One transaction with all of a batch in it. Every error is the whole batch's.
pub(crate) fn transaction(
    connection: &Connection,
    writing: &mut Writing,
    batch: &[Op],
    done: &mut Vec<Result<Done, NotRecorded>>,
    care: Care,
) -> Result<(), Failure> {
    run(connection, "BEGIN IMMEDIATE")?;
    let outcome = fill(connection, writing, batch, done, care).and_then(|()| run(connection, "COMMIT"));
    if outcome.is_err() && !connection.is_autocommit() {
        // SQLite has rolled some failures back itself. One that it cannot roll back, it will find at the next start.
        let _ = run(connection, "ROLLBACK");
    }
    outcome
}

fn fill(
    connection: &Connection,
    writing: &mut Writing,
    batch: &[Op],
    done: &mut Vec<Result<Done, NotRecorded>>,
    care: Care,
) -> Result<(), Failure> {
    for op in batch {
        if care == Care::None {
            done.push(Ok(writing.apply(connection, op)?));
            continue;
        }
        run(connection, "SAVEPOINT one")?;
        match writing.apply(connection, op).map_err(Failure::from) {
            Ok(outcome) => done.push(Ok(outcome)),
            Err(failure) if failure.is_of_one_row() => {
                run(connection, "ROLLBACK TO one")?;
                writing.forget();
                tracing::error!(%failure, "a record could not be written");
                done.push(Err(NotRecorded(Arc::from(failure.to_string()))));
            }
            Err(failure) => return Err(failure),
        }
        run(connection, "RELEASE one")?;
    }
    if batch.is_empty() {
        writing.catch_up(connection)?;
    }
    Ok(())
}

fn run(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
