//! Operations as SQL: what each one writes. The writer calls this inside its transaction.
//!
//! An operation that finds no row to write to (an end without a beginning, a second end) writes nothing and returns
//! [`OpResult::Refused`]; that does not fail the batch.

use std::time::SystemTime;

use greenroom_core::{
    id::SessionUid,
    record::{Claim, ConsoleLine, Cursor, Level, RefId, Request, Response, SessionRef, SessionState},
    time::timestamp_ms,
};
use rusqlite::{Connection, params};

use super::find;
use crate::op::{BlobUse, Op, OpResult};

/// Writes an operation of the process with the tag `process_tag`.
pub(crate) fn apply(connection: &Connection, process_tag: &str, op: &Op) -> rusqlite::Result<OpResult> {
    match op {
        Op::Begin(request, _) => {
            match insert(connection, process_tag, request)? || set_session_of_claimed(connection, request)? {
                true => Ok(OpResult::Written),
                false => Ok(OpResult::Refused("a record of this name already exists")),
            }
        }
        Op::Claim(request, _) => claim(connection, process_tag, request),
        Op::End(response, _) => end(connection, process_tag, response),
        Op::SessionBegan(owner, session, at, _) => {
            session_used(connection, process_tag, session, owner.as_str(), *at)?;
            Ok(OpResult::Written)
        }
        Op::SessionEnded(uid, state, at) => session_ended(connection, uid, *state, *at),
        Op::SetCursor(id, cursor, at, _) => set_cursor(connection, id, cursor, *at),
        Op::UseBlob(used, _) => use_blob(connection, used),
    }
}

/// Inserts a request. Returns whether its `ref_id` is new.
fn insert(connection: &Connection, process_tag: &str, request: &Request) -> rusqlite::Result<bool> {
    if let Some(session) = &request.session {
        session_used(connection, process_tag, session, request.owner.as_str(), request.at)?;
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO requests (position, ref_id, session_id, tool_name, timestamp, owner, params)
         VALUES (coalesce((SELECT max(position) FROM requests), (SELECT position FROM last_position)) + 1,
         ?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (ref_id) DO NOTHING",
    )?;
    let rows = insert.execute(params![
        request.ref_id.as_str(),
        request.session.as_ref().map(|session| session.uid.as_str()),
        &*request.tool,
        timestamp_ms(request.at),
        request.owner.as_str(),
        request.params.get(),
    ])?;
    Ok(rows == 1)
}

fn claim(connection: &Connection, process_tag: &str, request: &Request) -> rusqlite::Result<OpResult> {
    let claim = if insert(connection, process_tag, request)? {
        Claim::New
    } else {
        match find::record(connection, &request.owner, &request.ref_id)? {
            Some(record) => Claim::Repeat(Box::new(record)),
            None => Claim::Taken,
        }
    };
    Ok(OpResult::Claimed(claim))
}

fn end(connection: &Connection, process_tag: &str, response: &Response) -> rusqlite::Result<OpResult> {
    let id = response.ref_id.as_str();
    let mut select =
        connection.prepare_cached("SELECT position, session_id, owner FROM requests WHERE ref_id = ?1")?;
    let mut rows = select.query([id])?;
    let Some(begun) = rows.next()? else {
        return Ok(OpResult::Refused("its beginning was not recorded"));
    };
    let position: i64 = begun.get(0)?;
    let errors = response.console.iter().filter(|line| line.level == Level::Error).count();
    let mut insert = connection.prepare_cached(
        "INSERT INTO responses (position, ref_id, status, timestamp, took_ms, has_snapshot, console_count,
         console_errors, url, title, error_message, console_logs, page_snapshot, result, owner)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT (position) DO NOTHING",
    )?;
    let inserted = insert.execute(params![
        position,
        id,
        response.status.as_str(),
        timestamp_ms(response.at),
        i64::try_from(response.took.as_millis()).unwrap_or(i64::MAX),
        response.snapshot.is_some(),
        response.console.len(),
        errors,
        response.url,
        response.title,
        response.error,
        (!response.console.is_empty()).then(|| console_json(&response.console)),
        response.snapshot.as_deref(),
        &*response.result,
        begun.get_ref(2)?.as_str()?,
    ])?;
    if inserted == 0 {
        return Ok(OpResult::Refused("it has already ended"));
    }
    let of_session = begun.get_ref(1)?.as_str_or_null()?;
    if let Some(session) = &response.session {
        session_used(connection, process_tag, session, begun.get_ref(2)?.as_str()?, response.at)?;
        if of_session != Some(session.uid.as_str()) {
            connection
                .prepare_cached("UPDATE requests SET session_id = ?2 WHERE position = ?1")?
                .execute(params![position, session.uid.as_str()])?;
        }
    } else if let Some(uid) = of_session {
        connection
            .prepare_cached(
                "UPDATE sessions SET last_activity = max(last_activity, ?2) WHERE session_id = ?1",
            )?
            .execute(params![uid, timestamp_ms(response.at)])?;
    }
    if !response.console.is_empty() {
        console(connection, response)?;
    }
    if !response.blobs.is_empty() {
        blob_refs(connection, position, begun.get_ref(2)?.as_str()?, response)?;
    }
    Ok(OpResult::Written)
}

/// Makes sure that a session has a row, with the time of its last activity.
fn session_used(
    connection: &Connection,
    process_tag: &str,
    session: &SessionRef,
    owner: &str,
    at: SystemTime,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO sessions (session_id, created_at, last_activity, state, owner, name, pool, run)
             VALUES (?1, ?2, ?2, 'active', ?3, ?4, ?5, ?6)
             ON CONFLICT (session_id) DO UPDATE SET last_activity = max(last_activity, excluded.last_activity)",
        )?
        .execute(params![
            session.uid.as_str(),
            timestamp_ms(at),
            owner,
            &*session.name,
            &*session.pool,
            process_tag,
        ])?;
    Ok(())
}

fn console(connection: &Connection, response: &Response) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO console_logs (ref_id, level, timestamp, location, message) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for line in &response.console {
        insert.execute(params![
            response.ref_id.as_str(),
            line.level.as_str(),
            line.at.map(timestamp_ms),
            line.location.as_ref().map(|location| serde_json::to_string(location).unwrap_or_default()),
            line.message,
        ])?;
    }
    Ok(())
}

/// The console lines as one JSON text, which the response's row has in addition to the lines' own rows.
fn console_json(lines: &[ConsoleLine]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| {
            serde_json::json!({
                "level": line.level,
                "message": line.message,
                "timestamp": line.at.map(timestamp_ms),
                "location": line.location,
            })
        })
        .collect();
    serde_json::Value::Array(lines).to_string()
}

fn blob_refs(
    connection: &Connection,
    position: i64,
    owner: &str,
    response: &Response,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO blob_refs (position, place, sha256, owner, bytes, mime, name)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (place, blob) in response.blobs.iter().enumerate() {
        insert.execute(params![
            position,
            place,
            blob.id.as_str(),
            owner,
            i64::try_from(blob.bytes).unwrap_or(i64::MAX),
            blob.mime,
            blob.name,
        ])?;
    }
    Ok(())
}

/// Sets the session of a record that was claimed before its session was known, and still runs. Returns whether it did.
fn set_session_of_claimed(connection: &Connection, request: &Request) -> rusqlite::Result<bool> {
    let Some(session) = &request.session else { return Ok(false) };
    let mut update = connection.prepare_cached(
        "UPDATE requests SET session_id = ?2 WHERE ref_id = ?1 AND owner = ?3 AND session_id IS NULL
         AND NOT EXISTS (SELECT 1 FROM responses WHERE responses.position = requests.position)",
    )?;
    let rows =
        update.execute(params![request.ref_id.as_str(), session.uid.as_str(), request.owner.as_str()])?;
    Ok(rows == 1)
}

fn session_ended(
    connection: &Connection,
    uid: &SessionUid,
    state: SessionState,
    at: SystemTime,
) -> rusqlite::Result<OpResult> {
    connection
        .prepare_cached(
            "UPDATE sessions SET state = ?2, last_activity = max(last_activity, ?3) WHERE session_id = ?1",
        )?
        .execute(params![uid.as_str(), state.as_str(), timestamp_ms(at)])?;
    Ok(OpResult::Written)
}

fn set_cursor(
    connection: &Connection,
    id: &RefId,
    cursor: &Cursor,
    at: SystemTime,
) -> rusqlite::Result<OpResult> {
    let rows = connection
        .prepare_cached(
            "INSERT INTO diff_cursors (ref_id, cursor_position, last_snapshot_hash, last_read)
             SELECT ref_id, ?2, ?3, ?4 FROM requests WHERE ref_id = ?1
             ON CONFLICT (ref_id) DO UPDATE SET cursor_position = excluded.cursor_position,
             last_snapshot_hash = excluded.last_snapshot_hash, last_read = excluded.last_read",
        )?
        .execute(params![
            id.as_str(),
            i64::try_from(cursor.position).unwrap_or(i64::MAX),
            cursor.hash,
            timestamp_ms(at),
        ])?;
    Ok(if rows == 0 { OpResult::Refused("there is no such record") } else { OpResult::Written })
}

fn use_blob(connection: &Connection, used: &BlobUse) -> rusqlite::Result<OpResult> {
    connection
        .prepare_cached(
            "INSERT INTO blobs (sha256, pool, bytes, created_at, last_used) VALUES (?1, ?2, ?3, ?4, ?4)
             ON CONFLICT (sha256, pool) DO UPDATE SET last_used = max(last_used, excluded.last_used)",
        )?
        .execute(params![
            used.id.as_str(),
            &*used.pool,
            i64::try_from(used.bytes).unwrap_or(i64::MAX),
            timestamp_ms(used.at),
        ])?;
    Ok(OpResult::Written)
}

/// Closes the sessions of dead processes that began before `listed_after`, a moment before the living
/// processes were determined.
/// Returns their number.
pub(crate) fn close_orphans(
    connection: &mut Connection,
    process_tag: &str,
    running_tags: &[String],
    listed_after: SystemTime,
) -> rusqlite::Result<usize> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let runs: Vec<String> = transaction
        .prepare("SELECT DISTINCT run FROM sessions WHERE state = 'active'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut closed = 0;
    for dead in runs.iter().filter(|one| *one != process_tag && !running_tags.contains(one)) {
        closed += transaction.execute(
            "UPDATE sessions SET state = 'closed' WHERE state = 'active' AND run = ?1 AND created_at < ?2",
            [dead, &timestamp_ms(listed_after)],
        )?;
    }
    transaction.commit()?;
    Ok(closed)
}
