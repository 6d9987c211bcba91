//! Turns rows of the tables into the types of the port `Records`, and names the columns that each conversion
//! reads.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use greenroom_core::{
    excerpt::{FIELD_BYTES_MAX, excerpt_of},
    id::SessionUid,
    record::{
        BlobId, BlobRef, ConsoleLine, Level, Location, Outcome, RefId, SessionRef, SessionRow, SessionState,
        Status, Summary,
    },
    time,
};
use rusqlite::{Row, types::Type};
use serde::Deserialize;

/// The columns that [`summary`] reads, in its order, from the tables of [`JOINED`].
pub(crate) const SUMMARY: &str = "q.position, q.ref_id, q.tool_name, q.timestamp, s.session_id, s.name, s.pool, \
     r.status, r.timestamp, r.took_ms, r.has_snapshot, r.console_count, r.console_errors, r.url, r.title, \
     r.error_message";

/// The tables `requests q`, `responses r` and `sessions s`. A request without a response has not ended.
pub(crate) const JOINED: &str = "requests q LEFT JOIN responses r ON r.position = q.position \
     LEFT JOIN sessions s ON s.session_id = q.session_id";

pub(crate) fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    let uid: Option<String> = row.get(4)?;
    let session = match uid {
        Some(uid) => Some(session_ref(&uid, row.get(5)?, row.get(6)?, 4)?),
        None => None,
    };
    let status: Option<String> = row.get(7)?;
    let outcome = match status {
        None => None,
        Some(status) => Some(Outcome {
            status: if status == "success" { Status::Success } else { Status::Error },
            error: row.get(15)?,
            at: time_at(row, 8)?,
            took: Duration::from_millis(count(row, 9)?),
            url: row.get(13)?,
            title: row.get(14)?,
            has_snapshot: row.get(10)?,
            console: row.get(11)?,
            console_errors: row.get(12)?,
        }),
    };
    Ok(Summary {
        position: count(row, 0)?,
        ref_id: ref_id(row, 1)?,
        session,
        tool: row.get(2)?,
        at: time_at(row, 3)?,
        outcome,
    })
}

/// How many characters of a text SQLite reads for a list. A character has at least one byte, so this is never
/// less than a list shows.
pub(crate) const HEAD_CHARS: usize = FIELD_BYTES_MAX;

/// How a reader gets the whole of a text that a list shortens.
const WHOLE: &str = "read the call by its ref_id";

/// The columns that [`listed`] reads: those of [`SUMMARY`], but only the beginnings of long texts; then the
/// lengths of these texts.
pub(crate) fn listed_columns() -> String {
    let head = |column: &str| format!("substr({column}, 1, {HEAD_CHARS})");
    format!(
        "q.position, q.ref_id, {}, q.timestamp, s.session_id, s.name, s.pool, r.status, r.timestamp, r.took_ms, \
         r.has_snapshot, r.console_count, r.console_errors, {}, {}, {}, octet_length(q.tool_name), \
         octet_length(r.url), octet_length(r.title), octet_length(r.error_message)",
        head("q.tool_name"),
        head("r.url"),
        head("r.title"),
        head("r.error_message")
    )
}

/// A record as a list shows it, and how many bytes of text SQLite read for it.
pub(crate) fn listed(row: &Row<'_>) -> rusqlite::Result<(Summary, u64)> {
    let mut summary = summary(row)?;
    let bytes =
        |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.unwrap_or_default());
    let mut sum = 0;
    let mut cut = |text: &mut String, column: usize| {
        let bytes = bytes(column)?.cast_unsigned();
        sum += bytes;
        *text = shown(text, bytes);
        Ok::<_, rusqlite::Error>(())
    };
    cut(&mut summary.tool, 16)?;
    if let Some(outcome) = &mut summary.outcome {
        for (text, column) in [(&mut outcome.url, 17), (&mut outcome.title, 18), (&mut outcome.error, 19)] {
            if let Some(text) = text {
                cut(text, column)?;
            }
        }
    }
    Ok((summary, sum))
}

/// A text as lists show it: its beginning `head`, and how long the whole is.
pub(crate) fn shown(head: &str, bytes: u64) -> String {
    excerpt_of(head, bytes, FIELD_BYTES_MAX, WHOLE).into_owned()
}

/// The columns of `sessions s` that [`session`] reads.
pub(crate) const SESSION: &str = "s.session_id, s.name, s.pool, s.created_at, s.last_activity, s.state";

pub(crate) fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let uid: String = row.get(0)?;
    let state: String = row.get(5)?;
    Ok(SessionRow {
        session: session_ref(&uid, row.get(1)?, row.get(2)?, 0)?,
        created: time_at(row, 3)?,
        last_activity: time_at(row, 4)?,
        state: match state.as_str() {
            "active" => SessionState::Active,
            "closed" => SessionState::Closed,
            _ => SessionState::Error,
        },
    })
}

/// The columns of `console_logs` that [`console_line`] reads.
pub(crate) const CONSOLE_LINE: &str = "level, message, timestamp, location";

/// How much of each message a part of a console contains, in characters and in bytes. A stack trace of a big
/// application has some kilobytes.
const MESSAGE_MAX: usize = 16 * 1024;

/// A location is an address and two numbers. One with a `data:` URL of megabytes is of no use to a reader.
const LOCATION_BYTES_MAX: usize = 4096;

/// The columns of `console_logs` that [`console_head`] reads: the level and the time whole, the beginning of
/// the message, and a location if it is not too long.
pub(crate) fn console_heads() -> String {
    format!(
        "level, substr(message, 1, {MESSAGE_MAX}), timestamp, \
         CASE WHEN octet_length(location) <= {LOCATION_BYTES_MAX} THEN location END, octet_length(message)"
    )
}

/// A console line, its message cut to at most `message_max` bytes.
pub(crate) fn console_head(row: &Row<'_>, message_max: usize) -> rusqlite::Result<ConsoleLine> {
    let mut line = console_line(row)?;
    let bytes = count(row, 4)?;
    line.message = excerpt_of(&line.message, bytes, message_max.min(MESSAGE_MAX), WHOLE).into_owned();
    Ok(line)
}

pub(crate) fn console_line(row: &Row<'_>) -> rusqlite::Result<ConsoleLine> {
    let level: String = row.get(0)?;
    let at: Option<String> = row.get(2)?;
    let location: Option<String> = row.get(3)?;
    Ok(ConsoleLine {
        level: Level::from_word(&level),
        message: row.get(1)?,
        at: at.as_deref().and_then(time::parse),
        location: location.and_then(|text| serde_json::from_str::<StoredLocation>(&text).ok()).map(
            |stored| Location {
                url: stored.url,
                line_number: stored.line_number,
                column_number: stored.column_number,
            },
        ),
    })
}

/// The JSON of the column `location`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredLocation {
    url: String,
    line_number: Option<u32>,
    column_number: Option<u32>,
}

/// The columns of `blob_refs` that [`blob_ref`] reads.
pub(crate) const BLOB_REF: &str = "sha256, mime, name, bytes";

pub(crate) fn blob_ref(row: &Row<'_>) -> rusqlite::Result<BlobRef> {
    let id: String = row.get(0)?;
    Ok(BlobRef {
        id: BlobId::parse(&id).ok_or_else(|| odd(0, "no blob's name", &id))?,
        mime: row.get(1)?,
        name: row.get(2)?,
        bytes: count(row, 3)?,
    })
}

pub(crate) fn ref_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RefId> {
    let text = row.get_ref(column)?.as_str()?;
    RefId::parse(text).map_err(|error| odd(column, &error.to_string(), text))
}

pub(crate) fn time_at(row: &Row<'_>, column: usize) -> rusqlite::Result<SystemTime> {
    let text = row.get_ref(column)?.as_str()?;
    time::parse(text).ok_or_else(|| odd(column, "no time", text))
}

/// A number that is never negative, except in a row that another program has written.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

fn session_ref(uid: &str, name: String, pool: String, column: usize) -> rusqlite::Result<SessionRef> {
    Ok(SessionRef {
        uid: SessionUid::parse(uid).ok_or_else(|| odd(column, "no session's UUID", uid))?,
        name: Arc::from(name),
        pool: Arc::from(pool),
    })
}

fn odd(column: usize, what: &str, text: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, format!("{what}: `{text}`").into())
}
