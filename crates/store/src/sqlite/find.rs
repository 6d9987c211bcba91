//! Queries of the records. Each query is for one owner, and finds no record of another.
//!
//! No query's cost grows with the number of all records: each goes through an index and stops at its limit.
//! No list looks at another owner's rows. The list of a session looks at the session's calls, whatever the
//! other filters; the list of a tool's failures looks at the owner's failures. The readers call this module,
//! and so does the writer when a caller claims a `ref_id` that already exists.

use greenroom_core::{
    Owner, Raw,
    id::SessionUid,
    raw,
    record::{
        BlobRef, ConsoleLine, ConsolePart, ConsoleRange, Cursor, Level, Listed, Record, RecordFilter, RefId,
        SessionRow, Status, Summary,
    },
};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use super::rows::{self, BLOB_REF, CONSOLE_LINE, JOINED, SESSION, SUMMARY};

pub(crate) fn record(connection: &Connection, owner: &Owner, id: &RefId) -> rusqlite::Result<Option<Record>> {
    let found = connection
        .prepare_cached(&record_sql())?
        .query_row(params![id.as_str(), owner.as_str()], |row| {
            Ok(Record {
                summary: rows::summary(row)?,
                params: kept_params(row, 16)?,
                result: row.get(17)?,
                snapshot: row.get(18)?,
                blobs: Vec::new(),
            })
        })
        .optional()?;
    let Some(mut record) = found else { return Ok(None) };
    record.blobs = blobs_of(connection, record.summary.position)?;
    Ok(Some(record))
}

pub(crate) fn record_sql() -> String {
    format!(
        "SELECT {SUMMARY}, q.params, r.result, r.page_snapshot FROM {JOINED} WHERE q.ref_id = ?1 AND q.owner = ?2"
    )
}

/// A record's parameters. The writer got them as JSON, so only another program can have put anything else
/// there.
pub(crate) fn kept_params(row: &Row<'_>, column: usize) -> rusqlite::Result<Raw> {
    let text: String = row.get(column)?;
    raw::parse(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

pub(crate) fn blobs_of(connection: &Connection, position: u64) -> rusqlite::Result<Vec<BlobRef>> {
    connection
        .prepare_cached(&format!("SELECT {BLOB_REF} FROM blob_refs WHERE position = ?1 ORDER BY place"))?
        .query_map([position.cast_signed()], rows::blob_ref)?
        .collect()
}

/// How many bytes of texts SQLite may read for one list: a thousand calls with long errors, or a few with errors of
/// megabytes. The list ends with the call that exceeds this, and says that there may be more.
pub(super) const READ_BYTES_MAX: u64 = 16 << 20;

/// How many bytes the texts of one list may have as shown. A thousand usual calls have a third of that; as JSON, in the
/// worst case of escaping, it is six times as much.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// How many bytes a part of a console may have: messages, locations and [`LINE_BYTES`].
const CONSOLE_BYTES_MAX: usize = 1 << 20;

/// What a line takes in addition to its texts: the names of its members in JSON, its level, time and two numbers.
const LINE_BYTES: usize = 128;

/// The owner's records that match the filter, newest first.
pub(crate) fn list(
    connection: &Connection,
    owner: &Owner,
    filter: &RecordFilter,
) -> rusqlite::Result<Listed> {
    let before = filter.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let mut values: Vec<&dyn ToSql> = vec![&before, &limit];
    let owner = owner.as_str();
    values.push(&owner);
    let session = filter.session.as_ref().map(SessionUid::as_str);
    if filter.session.is_some() {
        values.push(&session);
    }
    if filter.tool.is_some() {
        values.push(&filter.tool);
    }
    let mut select = connection.prepare_cached(&list_sql(filter))?;
    let mut found = select.query(values.as_slice())?;
    let mut listed = Listed::default();
    let mut read = 0;
    let mut shown = 0;
    while let Some(row) = found.next()? {
        let (summary, bytes) = rows::listed(row)?;
        read += bytes;
        shown += shown_bytes(&summary);
        listed.summaries.push(summary);
        if read > READ_BYTES_MAX || shown > SHOWN_BYTES_MAX {
            listed.is_cut = true;
            break;
        }
    }
    Ok(listed)
}

fn shown_bytes(summary: &Summary) -> usize {
    let outcome = summary.outcome.iter().flat_map(|outcome| [&outcome.error, &outcome.url, &outcome.title]);
    let texts: usize = outcome.flatten().map(String::len).sum();
    texts + summary.tool.len() + summary.session.as_ref().map_or(0, |session| session.name.len())
}

/// The SQL of [`list`]. `CROSS JOIN` makes SQLite read the first table first: it has no statistics about the
/// rows, and would often choose worse.
pub(crate) fn list_sql(filter: &RecordFilter) -> String {
    let of_tool = |number| format!(" AND q.tool_name = ?{number}");
    let wheres = match (&filter.session, &filter.tool) {
        (None, None) => String::new(),
        (None, Some(_)) => of_tool(4),
        (Some(_), None) => " AND q.session_id = ?4".to_owned(),
        (Some(_), Some(_)) => format!(" AND q.session_id = ?4{}", of_tool(5)),
    };
    let index = match (&filter.session, &filter.tool) {
        (Some(_), _) => "requests_by_session",
        (None, Some(_)) => "requests_by_tool",
        (None, None) => "requests_by_owner",
    };
    let (from, driving) = match filter.status {
        // Failures are few, and an index has them by owner.
        Some(Status::Error) if filter.session.is_none() => (
            "responses r INDEXED BY responses_failed CROSS JOIN requests q ON q.position = r.position"
                .to_owned(),
            "r",
        ),
        Some(_) => {
            (format!("requests q INDEXED BY {index} CROSS JOIN responses r ON r.position = q.position"), "q")
        }
        None => {
            (format!("requests q INDEXED BY {index} LEFT JOIN responses r ON r.position = q.position"), "q")
        }
    };
    let of_status =
        filter.status.map(|status| format!(" AND r.status = '{}'", status.as_str())).unwrap_or_default();
    // Both tables have position and owner. The query names those of the first table, so that SQLite uses the
    // order of its index.
    let columns = rows::listed_columns();
    format!(
        "SELECT {columns} FROM {from} LEFT JOIN sessions s ON s.session_id = q.session_id
         WHERE {driving}.position < ?1 AND {driving}.owner = ?3{of_status}{wheres}
         ORDER BY {driving}.position DESC LIMIT ?2"
    )
}

/// A part of a record's console; `None` when there is no such record.
pub(crate) fn console_part(
    connection: &Connection,
    owner: &Owner,
    id: &RefId,
    range: ConsoleRange,
) -> rusqlite::Result<Option<ConsolePart>> {
    if position(connection, owner, id)?.is_none() {
        return Ok(None);
    }
    let level = range.level.map(Level::as_str);
    let mut select = connection.prepare_cached(&format!(
        "SELECT {} FROM console_logs WHERE ref_id = ?1 AND (?2 IS NULL OR level = ?2) ORDER BY id LIMIT -1 OFFSET ?3",
        rows::console_heads()
    ))?;
    let mut found =
        select.query(params![id.as_str(), level, i64::try_from(range.offset).unwrap_or(i64::MAX)])?;
    let mut part = ConsolePart::default();
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        if bytes > CONSOLE_BYTES_MAX {
            part.next = Some(range.offset + part.lines.len());
            break;
        }
        let line = rows::console_head(row, usize::MAX)?;
        let location = line.location.as_ref().map_or(0, |location| location.url.len());
        bytes += line.message.len() + location + LINE_BYTES;
        part.lines.push(line);
    }
    Ok(Some(part))
}

/// `None` when there is no such record.
pub(crate) fn console(
    connection: &Connection,
    owner: &Owner,
    id: &RefId,
    level: Option<Level>,
) -> rusqlite::Result<Option<Vec<ConsoleLine>>> {
    if position(connection, owner, id)?.is_none() {
        return Ok(None);
    }
    let lines = connection
        .prepare_cached(&format!("SELECT {CONSOLE_LINE} FROM console_logs WHERE ref_id = ?1 ORDER BY id"))?
        .query_map([id.as_str()], rows::console_line)?
        .filter(|line| line.as_ref().map_or(true, |line| level.is_none_or(|level| line.level == level)))
        .collect::<Result<_, _>>()?;
    Ok(Some(lines))
}

/// The position and session of a record of this owner.
fn position(
    connection: &Connection,
    owner: &Owner,
    id: &RefId,
) -> rusqlite::Result<Option<(i64, Option<String>)>> {
    connection
        .prepare_cached("SELECT position, session_id FROM requests WHERE ref_id = ?1 AND owner = ?2")?
        .query_row(params![id.as_str(), owner.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

pub(crate) const SNAPSHOT_BEFORE: &str = "SELECT q.ref_id, r.page_snapshot
     FROM requests q INDEXED BY requests_by_session CROSS JOIN responses r ON r.position = q.position
     WHERE q.session_id = ?1 AND q.position < ?2 AND q.owner = ?3 AND r.has_snapshot
     ORDER BY q.position DESC LIMIT 1";

pub(crate) fn snapshot_before(
    connection: &Connection,
    owner: &Owner,
    id: &RefId,
) -> rusqlite::Result<Option<(RefId, String)>> {
    let Some((position, Some(session))) = position(connection, owner, id)? else { return Ok(None) };
    connection
        .prepare_cached(SNAPSHOT_BEFORE)?
        .query_row(params![session, position, owner.as_str()], |row| Ok((rows::ref_id(row, 0)?, row.get(1)?)))
        .optional()
}

/// The session with this UUID, or else the newest session with this name.
pub(crate) fn session(
    connection: &Connection,
    owner: &Owner,
    name: &str,
) -> rusqlite::Result<Option<SessionRow>> {
    if let Some(uid) = SessionUid::parse(name) {
        let found = connection
            .prepare_cached(&format!(
                "SELECT {SESSION} FROM sessions s WHERE s.session_id = ?1 AND s.owner = ?2"
            ))?
            .query_row(params![uid.as_str(), owner.as_str()], rows::session)
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    connection
        .prepare_cached(&youngest_sql())?
        .query_row(params![owner.as_str(), name], rows::session)
        .optional()
}

pub(crate) fn youngest_sql() -> String {
    format!(
        "SELECT {SESSION} FROM sessions s WHERE s.owner = ?1 AND s.name = ?2 ORDER BY s.created_at DESC LIMIT 1"
    )
}

pub(crate) fn cursor(connection: &Connection, id: &RefId) -> rusqlite::Result<Option<Cursor>> {
    connection
        .prepare_cached("SELECT cursor_position, last_snapshot_hash FROM diff_cursors WHERE ref_id = ?1")?
        .query_row([id.as_str()], |row| Ok(Cursor { position: rows::count(row, 0)?, hash: row.get(1)? }))
        .optional()
}
