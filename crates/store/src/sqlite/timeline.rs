//! A session's timeline: calls, the pages they led to, console lines and errors, in one order.
//!
//! Calls are in the order in which they began. Each is followed by the page that it led to, the page's
//! console lines, and its error.
//!
//! A client that follows a session reads on from `next`. `next` stops at a call that is under way, so that the client
//! later reads its outcome; the events after such a call are in this part and again in the next.

use greenroom_core::{
    Owner,
    excerpt::FIELD_BYTES_MAX,
    id::SessionUid,
    plural::count,
    record::{Level, SessionEvent, Summary, Timeline, What},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{find::READ_BYTES_MAX, rows};

/// How many events a part may have: the part ends with the call that exceeds this. A page can write thousands of
/// console lines in a call; as lines of some hundred bytes these are a few MiB of answer.
const EVENTS_MAX: usize = 20_000;

/// How many bytes the texts of a part may have: it ends with the call that exceeds this.
const PART_BYTES_MAX: usize = 4 << 20;

/// How many console lines of a call are events. The rest are in the call's own console.
const LINES_MAX: usize = 1_000;

pub(crate) fn timeline(
    connection: &Connection,
    owner: &Owner,
    session: &SessionUid,
    from: u64,
    calls_max: usize,
) -> rusqlite::Result<Timeline> {
    let start = i64::try_from(from).unwrap_or(i64::MAX);
    let limit = i64::try_from(calls_max).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(&calls_sql())?;
    let mut found = select.query(params![session.as_str(), start, owner.as_str(), limit])?;
    let (mut calls, mut read): (Vec<Summary>, u64) = Default::default();
    while let Some(row) = found.next()? {
        let (call, bytes) = rows::listed(row)?;
        calls.push(call);
        read += bytes;
        if read > READ_BYTES_MAX {
            break;
        }
    }
    drop(found);
    let mut timeline = Timeline { events: Vec::new(), next: from };
    let mut bytes = 0;
    let Some(first) = calls.first().map(|call| call.position) else { return Ok(timeline) };
    let mut is_full = calls.len() >= calls_max || read > READ_BYTES_MAX;
    let mut pending = None;
    let mut url = url_before(connection, owner, session, start)?;
    for call in calls {
        if call.outcome.is_none() {
            pending.get_or_insert(call.position);
        }
        timeline.next = call.position + 1;
        let before = timeline.events.len();
        add(connection, &mut timeline.events, &mut url, call)?;
        bytes += timeline.events.iter().skip(before).map(text_bytes).sum::<usize>();
        if timeline.events.len() >= EVENTS_MAX || bytes >= PART_BYTES_MAX {
            is_full = true;
            break;
        }
    }
    // If the part is full and its first call has not ended, the next part still starts after that call: a
    // call that never ends must not hide the rest.
    if let Some(pending) = pending.filter(|pending| !(is_full && *pending == first))
        && is_active(connection, session)?
    {
        timeline.next = pending;
    }
    Ok(timeline)
}

fn text_bytes(event: &SessionEvent) -> usize {
    match &event.what {
        What::Call { tool, .. } => tool.len(),
        What::Navigation { url, title } => url.len() + title.as_ref().map_or(0, String::len),
        What::Console { message, .. } | What::Error { message } => message.len(),
    }
}

/// Whether calls of the session may still end.
fn is_active(connection: &Connection, session: &SessionUid) -> rusqlite::Result<bool> {
    let state = connection
        .prepare_cached("SELECT state = 'active' FROM sessions WHERE session_id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    Ok(state.unwrap_or(false))
}

pub(crate) fn calls_sql() -> String {
    let columns = rows::listed_columns();
    format!(
        "SELECT {columns} FROM requests q INDEXED BY requests_by_session
         LEFT JOIN responses r ON r.position = q.position
         LEFT JOIN sessions s ON s.session_id = q.session_id
         WHERE q.session_id = ?1 AND q.position >= ?2 AND q.owner = ?3 ORDER BY q.position LIMIT ?4"
    )
}

/// The session's page before this part of its timeline.
fn url_before(
    connection: &Connection,
    owner: &Owner,
    session: &SessionUid,
    start: i64,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached(&url_before_sql())?
        .query_row(params![session.as_str(), start, owner.as_str()], |row| {
            Ok(rows::shown(row.get_ref(0)?.as_str()?, rows::count(row, 1)?))
        })
        .optional()
}

/// The SQL of [`url_before`]. It selects only as much of the URL as the events show, because the caller
/// compares the two.
pub(crate) fn url_before_sql() -> String {
    format!(
        "SELECT substr(r.url, 1, {HEAD_CHARS}), octet_length(r.url)
         FROM requests q INDEXED BY requests_by_session CROSS JOIN responses r ON r.position = q.position
         WHERE q.session_id = ?1 AND q.position < ?2 AND q.owner = ?3 AND r.url IS NOT NULL
         ORDER BY q.position DESC LIMIT 1",
        HEAD_CHARS = rows::HEAD_CHARS
    )
}

fn add(
    connection: &Connection,
    events: &mut Vec<SessionEvent>,
    url: &mut Option<String>,
    call: Summary,
) -> rusqlite::Result<()> {
    let ref_id = call.ref_id;
    let (status, took) = call.outcome.as_ref().map(|outcome| (outcome.status, outcome.took)).unzip();
    events.push(SessionEvent {
        at: call.at,
        ref_id: ref_id.clone(),
        what: What::Call { tool: call.tool, status, took },
    });
    let Some(outcome) = call.outcome else { return Ok(()) };
    if outcome.url.is_some() && outcome.url != *url {
        *url = outcome.url;
        if let Some(url) = url.clone() {
            let what = What::Navigation { url, title: outcome.title };
            events.push(SessionEvent { at: outcome.at, ref_id: ref_id.clone(), what });
        }
    }
    if outcome.console > 0 {
        let heads = rows::console_heads();
        let mut select = connection.prepare_cached(&format!(
            "SELECT {heads} FROM console_logs WHERE ref_id = ?1 ORDER BY id LIMIT {LINES_MAX}"
        ))?;
        let lines = select.query_map([ref_id.as_str()], |row| rows::console_head(row, FIELD_BYTES_MAX))?;
        for line in lines {
            let line = line?;
            events.push(SessionEvent {
                at: line.at.unwrap_or(outcome.at),
                ref_id: ref_id.clone(),
                what: What::Console { level: line.level, message: line.message },
            });
        }
    }
    if let Some(more) = outcome.console.checked_sub(LINES_MAX).filter(|more| *more > 0) {
        let message = format!("… {}: read the console of the call", count(more, "more line"));
        let what = What::Console { level: Level::Info, message };
        events.push(SessionEvent { at: outcome.at, ref_id: ref_id.clone(), what });
    }
    if let Some(message) = outcome.error {
        events.push(SessionEvent { at: outcome.at, ref_id, what: What::Error { message } });
    }
    Ok(())
}
