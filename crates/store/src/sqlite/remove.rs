//! Removes rows and files in slices, each a transaction of about a millisecond.
//!
//! Together with a record SQLite removes its response, its console lines, its cursor and its references to
//! blobs (`ON DELETE CASCADE`). A blob's file is removed inside the transaction that removes its row: a
//! process that keeps the same bytes waits for that transaction, finds neither, and writes them again.

use std::{collections::HashSet, time::SystemTime};

use greenroom_core::{BlobId, time::timestamp_ms};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::Failure;
use crate::{
    blob_files::BlobFiles,
    retention::{IN_USE, Limits, Removed, UNREFERENCED_TTL},
};

/// Records in a slice. Each may have a snapshot of a dozen pages; removing this many takes about a millisecond.
const SLICE_RECORDS: usize = 32;

/// Sessions looked at in a slice: a look-up in an index each.
const SLICE_SESSIONS: usize = 128;

/// Blobs in a slice: a file is removed in some 20 µs.
const SLICE_BLOBS: usize = 32;

/// Pages given back in a slice: one MiB.
const SLICE_PAGES: usize = 256;

/// How far a walk over blobs in the order of their last use has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BlobCursor {
    last_used: String,
    sha256: String,
}

/// Removes the oldest records that are too old, or too many. `None` when there is none.
pub(crate) fn records(connection: &mut Connection, limits: &Limits<'_>) -> Result<Option<Removed>, Failure> {
    let cutoff = timestamp_ms(limits.before(limits.settings.max_age));
    if !is_too_big(connection, limits.settings.bytes_max)? && !has_older(connection, &cutoff)? {
        return Ok(None);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let oldest: Vec<(i64, Option<String>, String)> = transaction
        .prepare_cached("SELECT position, session_id, timestamp FROM requests ORDER BY position LIMIT ?1")?
        .query_map([SLICE_RECORDS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let mut removed = Removed::default();
    let mut sessions = HashSet::new();
    let mut last = 0;
    for (position, session, timestamp) in oldest {
        // This checks the size after each record: one can be as big as a thousand others.
        if timestamp >= cutoff && !is_too_big(&transaction, limits.settings.bytes_max)? {
            break;
        }
        removed.records +=
            transaction.prepare_cached("DELETE FROM requests WHERE position = ?1")?.execute([position])?;
        sessions.extend(session);
        last = position;
    }
    transaction
        .prepare_cached(
            "UPDATE last_position SET position = max(position, ?1) WHERE NOT EXISTS (SELECT 1 FROM requests)",
        )?
        .execute([last])?;
    for session in &sessions {
        removed.sessions += remove_session(&transaction, session)?;
    }
    transaction.commit()?;
    Ok((removed.records > 0).then_some(removed))
}

/// Whether the oldest record is too old. The order of records differs from that of their times by milliseconds at most.
fn has_older(connection: &Connection, cutoff: &str) -> rusqlite::Result<bool> {
    let oldest: Option<String> = connection
        .prepare_cached("SELECT (SELECT timestamp FROM requests ORDER BY position LIMIT 1)")?
        .query_row([], |row| row.get(0))?;
    Ok(oldest.is_some_and(|oldest| oldest.as_str() < cutoff))
}

fn is_too_big(connection: &Connection, bytes_max: u64) -> rusqlite::Result<bool> {
    let figure = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, u64>(0));
    let used = figure("PRAGMA page_count")?.saturating_sub(figure("PRAGMA freelist_count")?);
    Ok(used.saturating_mul(figure("PRAGMA page_size")?) > bytes_max)
}

/// Removes a session that is over and has no records left.
fn remove_session(connection: &Connection, session: &str) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM sessions WHERE session_id = ?1 AND state <> 'active'
             AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.session_id = ?1)",
        )?
        .execute([session])
}

/// Removes sessions that ended long ago and whose records are already gone. Returns where to go on, if there is more.
pub(crate) fn sessions(
    connection: &mut Connection,
    limits: &Limits<'_>,
    after: i64,
) -> Result<(Option<i64>, Removed), Failure> {
    let cutoff = timestamp_ms(limits.before(limits.settings.max_age));
    let looked_at: Vec<(i64, String, bool)> = connection
        .prepare_cached(
            "SELECT rowid, session_id, state <> 'active' AND last_activity < ?1 FROM sessions
             WHERE rowid > ?2 ORDER BY rowid LIMIT ?3",
        )?
        .query_map(params![cutoff, after, SLICE_SESSIONS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let mut removed = Removed::default();
    if looked_at.iter().any(|(_, _, over)| *over) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (_, session, _) in looked_at.iter().filter(|(_, _, over)| *over) {
            removed.sessions += remove_session(&transaction, session)?;
        }
        transaction.commit()?;
    }
    Ok((looked_at.last().map(|(rowid, _, _)| *rowid), removed))
}

/// Removes blobs that were not used for too long, and the longest unused ones while there are too many. `None` when there
/// is none to remove.
pub(crate) fn old_blobs(
    connection: &mut Connection,
    files: &BlobFiles,
    limits: &Limits<'_>,
) -> Result<Option<Removed>, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let bytes: u64 = transaction
        .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM blobs")?
        .query_row([], |row| row.get(0))?;
    let mut excess = bytes.saturating_sub(limits.settings.blobs_bytes_max);
    let expired = timestamp_ms(limits.before(limits.settings.blobs_ttl));
    let in_use = timestamp_ms(limits.before(IN_USE));
    let mut blobs = Vec::new();
    {
        let mut select = transaction
            .prepare_cached("SELECT sha256, pool, bytes, last_used FROM blobs ORDER BY last_used LIMIT ?1")?;
        let mut rows = select.query([SLICE_BLOBS])?;
        while let Some(row) = rows.next()? {
            let bytes: u64 = row.get(2)?;
            let last_used: String = row.get(3)?;
            if last_used >= expired && (excess == 0 || last_used >= in_use) {
                break;
            }
            excess = excess.saturating_sub(bytes);
            blobs.push(BlobToRemove { sha256: row.get(0)?, pool: row.get(1)?, bytes });
        }
    }
    let removed = remove_blobs(&transaction, files, &blobs)?;
    transaction.commit()?;
    Ok((removed.blobs > 0).then_some(removed))
}

/// Removes blobs that no record names. Returns where to go on, if there is more.
pub(crate) fn unnamed_blobs(
    connection: &mut Connection,
    files: &BlobFiles,
    limits: &Limits<'_>,
    after: &BlobCursor,
) -> Result<(Option<BlobCursor>, Removed), Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut blobs = Vec::new();
    let mut cursor = None;
    {
        let mut select = transaction.prepare_cached(
            "SELECT sha256, pool, bytes, last_used,
             EXISTS (SELECT 1 FROM blob_refs WHERE blob_refs.sha256 = blobs.sha256)
             FROM blobs WHERE (last_used, sha256) > (?1, ?2) AND last_used < ?3
             ORDER BY last_used, sha256 LIMIT ?4",
        )?;
        let cutoff = timestamp_ms(limits.before(UNREFERENCED_TTL));
        let mut rows = select.query(params![after.last_used, after.sha256, cutoff, SLICE_BLOBS])?;
        while let Some(row) = rows.next()? {
            let sha256: String = row.get(0)?;
            cursor = Some(BlobCursor { last_used: row.get(3)?, sha256: sha256.clone() });
            if !row.get::<_, bool>(4)? {
                blobs.push(BlobToRemove { sha256, pool: row.get(1)?, bytes: row.get(2)? });
            }
        }
    }
    let removed = remove_blobs(&transaction, files, &blobs)?;
    transaction.commit()?;
    Ok((cursor, removed))
}

struct BlobToRemove {
    sha256: String,
    pool: String,
    bytes: u64,
}

/// A file that cannot be removed keeps its row, and is tried again in the next round.
fn remove_blobs(
    transaction: &Transaction<'_>,
    files: &BlobFiles,
    blobs: &[BlobToRemove],
) -> Result<Removed, Failure> {
    let mut removed = Removed::default();
    for blob in blobs {
        if let Some(id) = BlobId::parse(&blob.sha256)
            && let Err(error) = files.remove(&blob.pool, &id)
        {
            tracing::warn!(%id, %error, "a blob cannot be removed");
            continue;
        }
        removed.blobs += transaction
            .prepare_cached("DELETE FROM blobs WHERE sha256 = ?1 AND pool = ?2")?
            .execute(params![blob.sha256, blob.pool])?;
        removed.blob_bytes += blob.bytes;
    }
    Ok(removed)
}

/// Gives free pages back to the file system. Returns whether there are more.
pub(crate) fn pages(connection: &Connection) -> Result<bool, Failure> {
    let free = || connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, usize>(0));
    let before = free()?;
    if before == 0 {
        return Ok(false);
    }
    // Each row of this pragma that is read gives one page back.
    let mut give_back = connection.prepare(&format!("PRAGMA incremental_vacuum({SLICE_PAGES})"))?;
    let mut rows = give_back.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    // A database that gives nothing back, because a user made it without `auto_vacuum`, is left as it is.
    let after = free()?;
    Ok(after > 0 && after < before)
}

/// Adds rows for blob files that have none, because their database was moved aside.
pub(crate) fn adopt(
    connection: &mut Connection,
    found: &[(BlobId, String, u64, SystemTime)],
) -> Result<usize, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut adopted = 0;
    for (id, pool, bytes, used) in found {
        adopted += transaction
            .prepare_cached(
                "INSERT INTO blobs (sha256, pool, bytes, created_at, last_used) VALUES (?1, ?2, ?3, ?4, ?4)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![id.as_str(), pool, bytes, timestamp_ms(*used)])?;
    }
    transaction.commit()?;
    Ok(adopted)
}
