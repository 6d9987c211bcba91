//! Changes the owner of records, and removes all that an owner has, in slices of a few milliseconds.

use std::time::SystemTime;

use greenroom_core::{BlobId, Owner, time::timestamp_ms};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::Failure;
use crate::{
    blob_files::BlobFiles,
    retention::{IN_USE, Removed},
};

/// Records in a slice: see [`super::remove`].
const SLICE_RECORDS: usize = 32;

/// How much one owner got from another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Given {
    pub records: usize,
    pub sessions: usize,
}

/// Gives the next records of `from` to `to`, and in the end the sessions. `None` when there is nothing left to give.
///
/// The sessions come last: an owner's session with records of another owner is the state in which this is interrupted,
/// and the next call goes on from there.
pub(crate) fn give(connection: &mut Connection, from: &Owner, to: &Owner) -> Result<Option<Given>, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let positions = next_records(&transaction, from)?;
    let mut given = Given::default();
    for position in &positions {
        let owned = params![to.as_str(), position];
        for table in ["responses", "blob_refs"] {
            transaction
                .prepare_cached(&format!("UPDATE {table} SET owner = ?1 WHERE position = ?2"))?
                .execute(owned)?;
        }
        given.records += transaction
            .prepare_cached("UPDATE requests SET owner = ?1 WHERE position = ?2")?
            .execute(owned)?;
    }
    if positions.is_empty() {
        given.sessions = transaction
            .prepare_cached("UPDATE sessions SET owner = ?1 WHERE owner = ?2")?
            .execute([to.as_str(), from.as_str()])?;
    }
    transaction.commit()?;
    Ok((given != Given::default()).then_some(given))
}

/// Removes the next records of an owner with the blobs that no other owner's record names, and in the end the sessions.
/// `None` when there is nothing left to remove.
pub(crate) fn delete(
    connection: &mut Connection,
    files: &BlobFiles,
    owner: &Owner,
) -> Result<Option<Removed>, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let positions = next_records(&transaction, owner)?;
    let mut removed = Removed::default();
    let mut named = Vec::new();
    for position in &positions {
        named.extend(
            transaction
                .prepare_cached("SELECT sha256 FROM blob_refs WHERE position = ?1")?
                .query_map([position], |row| row.get::<_, String>(0))?
                .collect::<Result<Vec<_>, _>>()?,
        );
        removed.records +=
            transaction.prepare_cached("DELETE FROM requests WHERE position = ?1")?.execute([position])?;
    }
    if let Some(last) = positions.last() {
        // Positions are never given twice, also when no record is left.
        transaction
            .prepare_cached(
                "UPDATE last_position SET position = max(position, ?1) WHERE NOT EXISTS (SELECT 1 FROM requests)",
            )?
            .execute([last])?;
    } else {
        removed.sessions = transaction
            .prepare_cached(
                "DELETE FROM sessions WHERE owner = ?1
                 AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.session_id = sessions.session_id)",
            )?
            .execute([owner.as_str()])?;
    }
    for sha256 in named {
        remove_unnamed(&transaction, files, &sha256, &mut removed)?;
    }
    transaction.commit()?;
    Ok((removed != Removed::default()).then_some(removed))
}

/// Removes a blob that no record names any more. One that was used just now may be named by a record that is being
/// written: retention looks at it later.
fn remove_unnamed(
    transaction: &Transaction<'_>,
    files: &BlobFiles,
    sha256: &str,
    removed: &mut Removed,
) -> Result<(), Failure> {
    let in_use = timestamp_ms(SystemTime::now().checked_sub(IN_USE).unwrap_or(SystemTime::UNIX_EPOCH));
    let blobs: Vec<(String, u64)> = transaction
        .prepare_cached(
            "SELECT pool, bytes FROM blobs WHERE sha256 = ?1 AND last_used < ?2
             AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob_refs.sha256 = ?1)",
        )?
        .query_map([sha256, &in_use], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (pool, bytes) in blobs {
        if let Some(id) = BlobId::parse(sha256)
            && let Err(source) = files.remove(&pool, &id)
        {
            return Err(Failure::File { path: sha256.into(), source });
        }
        removed.blobs += transaction
            .prepare_cached("DELETE FROM blobs WHERE sha256 = ?1 AND pool = ?2")?
            .execute([sha256, &pool])?;
        removed.blob_bytes += bytes;
    }
    Ok(())
}

/// The positions of an owner's oldest records.
fn next_records(connection: &Connection, owner: &Owner) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT position FROM requests WHERE owner = ?1 ORDER BY position LIMIT ?2")?
        .query_map(params![owner.as_str(), SLICE_RECORDS], |row| row.get(0))?
        .collect()
}
