//! Exports records as they are, one after the other.
//!
//! The exporter reads them in parts, each with a query of its own, so that a slow consumer keeps no read
//! transaction open: an open one would keep checkpoints from emptying the WAL.

use greenroom_core::{Raw, raw, time::timestamp_ms};
use rusqlite::{Connection, Row, ToSql};
use serde::Serialize;

use super::{
    find,
    rows::{self, CONSOLE_LINE, JOINED, SUMMARY},
};
use crate::maintenance::Wanted;

/// Records in a part.
const PART: usize = 16;

/// A part ends with the record that exceeds this: a record may have tens of megabytes.
const PART_BYTES_MAX: usize = 16 << 20;

/// An exported record. Its JSON has no line breaks.
#[derive(Debug, Serialize)]
pub struct Exported {
    pub position: u64,
    pub ref_id: String,
    pub owner: String,
    pub session: Option<ExportedSession>,
    pub tool: String,
    pub params: Raw,
    pub timestamp: String,
    /// `None` for a call that has not ended.
    pub outcome: Option<ExportedOutcome>,
}

#[derive(Debug, Serialize)]
pub struct ExportedSession {
    pub session_id: String,
    pub name: String,
    pub pool: String,
}

#[derive(Debug, Serialize)]
pub struct ExportedOutcome {
    pub status: &'static str,
    pub error: Option<String>,
    pub timestamp: String,
    pub took_ms: u64,
    pub url: Option<String>,
    pub title: Option<String>,
    pub result: Raw,
    pub snapshot: Option<String>,
    pub console: Vec<ExportedLine>,
    pub blobs: Vec<ExportedBlob>,
}

#[derive(Debug, Serialize)]
pub struct ExportedLine {
    pub level: &'static str,
    pub message: String,
    pub timestamp: Option<String>,
    pub location: Option<greenroom_core::record::Location>,
}

#[derive(Debug, Serialize)]
pub struct ExportedBlob {
    pub sha256: String,
    pub mime: String,
    pub name: Option<String>,
    pub bytes: u64,
}

/// What is still to be exported.
pub(crate) struct Parts {
    after: i64,
    /// The UUIDs of the sessions that are wanted, as a JSON array.
    sessions: Option<String>,
    since: String,
}

impl Parts {
    pub(crate) fn new(connection: &Connection, wanted: &Wanted) -> rusqlite::Result<Self> {
        let sessions = match &wanted.session {
            None => None,
            Some(session) => {
                let uids: Vec<String> = connection
                    .prepare("SELECT session_id FROM sessions WHERE session_id = ?1 OR name = ?2")?
                    .query_map([&session.to_lowercase(), session], |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                Some(raw::encode(&uids).get().to_owned())
            }
        };
        Ok(Self { after: 0, sessions, since: wanted.since.map(timestamp_ms).unwrap_or_default() })
    }

    /// Whether no session has the wanted name.
    pub(crate) fn matches_no_session(&self) -> bool {
        self.sessions.as_deref() == Some("[]")
    }

    pub(crate) fn next(&mut self, connection: &Connection) -> rusqlite::Result<Vec<Exported>> {
        let mut values: Vec<&dyn ToSql> = vec![&self.after, &self.since, &PART];
        let mut of_sessions = "";
        if self.sessions.is_some() {
            of_sessions = "AND q.session_id IN (SELECT value FROM json_each(?4))";
            values.push(&self.sessions);
        }
        let sql = format!(
            "SELECT {SUMMARY}, q.owner, q.params, r.result, r.page_snapshot FROM {JOINED}
             WHERE q.position > ?1 AND q.timestamp >= ?2 {of_sessions} ORDER BY q.position LIMIT ?3"
        );
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query(values.as_slice())?;
        let mut part = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let record = exported(connection, row)?;
            bytes += record.bytes();
            part.push(record);
            if bytes > PART_BYTES_MAX {
                break;
            }
        }
        if let Some(last) = part.last() {
            self.after = last.position.cast_signed();
        }
        Ok(part)
    }
}

impl Exported {
    /// How many bytes the big parts of the record take in memory.
    fn bytes(&self) -> usize {
        let of = |outcome: &ExportedOutcome| {
            let console: usize = outcome.console.iter().map(|line| line.message.len()).sum();
            let texts = [&outcome.error, &outcome.url, &outcome.title, &outcome.snapshot];
            let texts: usize = texts.into_iter().flatten().map(String::len).sum();
            outcome.result.get().len() + texts + console
        };
        self.params.get().len() + self.outcome.as_ref().map_or(0, of)
    }
}

fn exported(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Exported> {
    let summary = rows::summary(row)?;
    let outcome = match summary.outcome {
        None => None,
        Some(outcome) => Some(ExportedOutcome {
            status: outcome.status.as_str(),
            error: outcome.error,
            timestamp: timestamp_ms(outcome.at),
            took_ms: u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
            url: outcome.url,
            title: outcome.title,
            result: on_one_line(row.get(18)?),
            snapshot: row.get(19)?,
            console: console(connection, summary.ref_id.as_str())?,
            blobs: find::blobs_of(connection, summary.position)?
                .into_iter()
                .map(|blob| ExportedBlob {
                    sha256: blob.id.to_string(),
                    mime: blob.mime,
                    name: blob.name,
                    bytes: blob.bytes,
                })
                .collect(),
        }),
    };
    Ok(Exported {
        position: summary.position,
        ref_id: summary.ref_id.to_string(),
        owner: row.get(16)?,
        session: summary.session.map(|session| ExportedSession {
            session_id: session.uid.to_string(),
            name: session.name.to_string(),
            pool: session.pool.to_string(),
        }),
        tool: summary.tool,
        params: on_one_line(row.get(17)?),
        timestamp: timestamp_ms(summary.at),
        outcome,
    })
}

/// JSON as it was written, but on one line: a line break can only be between its tokens, where a space does as well. A
/// text that is not JSON becomes a string.
fn on_one_line(text: String) -> Raw {
    let text = if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text };
    raw::parse(text.clone()).unwrap_or_else(|_| raw::encode(&text))
}

fn console(connection: &Connection, ref_id: &str) -> rusqlite::Result<Vec<ExportedLine>> {
    connection
        .prepare_cached(&format!("SELECT {CONSOLE_LINE} FROM console_logs WHERE ref_id = ?1 ORDER BY id"))?
        .query_map([ref_id], rows::console_line)?
        .map(|line| {
            line.map(|line| ExportedLine {
                level: line.level.as_str(),
                message: line.message,
                timestamp: line.at.map(timestamp_ms),
                location: line.location,
            })
        })
        .collect()
}
