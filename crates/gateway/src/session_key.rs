//! Finds the session that a call belongs to ([`resolve_session`]), and the notes about that session for its answer ([`notes`]),
//! such as that the session was restarted. The same for a single call and for a bulk.

use std::sync::atomic::Ordering;

use greenroom_core::{ConnectionId, SessionId, SessionUid, settings::Scope};
use greenroom_fleet::{EndReason, Note, SessionKey};

use crate::{Gateway, caller::Caller, connection::Connection, error_response::ErrorResponse};

/// The note when calls without `sessionId` overlap: probably two agents share a connection without knowing it.
const OVERLAP: &str = "hint: calls without sessionId overlapped on this connection and shared one browser; if several agents use it, each should give its own sessionId";

/// The session that a call with this `sessionId` is for.
pub(crate) async fn resolve_session(
    gateway: &Gateway,
    caller: &Caller,
    session: Option<SessionId>,
) -> Result<SessionKey, ErrorResponse> {
    match (session, gateway.scope, caller.connection()) {
        (Some(id), _, _) => named(gateway, caller, id).await,
        (None, Scope::Connection | Scope::Explicit, None) if caller.is_program => {
            Err(ErrorResponse::program_session_required())
        }
        (None, Scope::Connection, Some(connection)) => Ok(SessionKey::Connection(connection.id)),
        (None, Scope::Connection, None) => Err(ErrorResponse::stateless()),
        (None, Scope::Call, _) => Ok(SessionKey::Ephemeral),
        (None, Scope::Explicit, _) => Err(ErrorResponse::session_required()),
    }
}

/// Refuses a name of the form that records and lists give to a connection's own session: readers could not
/// tell the two apart.
pub(crate) fn check_name(id: &SessionId) -> Result<(), ErrorResponse> {
    if ConnectionId::is_session_name(id.as_str()) {
        Err(ErrorResponse::reserved_session_name(id))
    } else {
        Ok(())
    }
}

/// The session that an id means. Answers and lists also show a session's UUID; given as an id it means that session. A
/// UUID opens no new browser: an agent that repeats it wants the page that it had.
pub(crate) async fn named(
    gateway: &Gateway,
    caller: &Caller,
    id: SessionId,
) -> Result<SessionKey, ErrorResponse> {
    check_name(&id)?;
    let as_name = SessionKey::Named(id.clone());
    let Some(uid) = SessionUid::parse(id.as_str()) else { return Ok(as_name) };
    if gateway.fleet.session_pool(&caller.owner, &as_name).is_some() {
        return Ok(as_name);
    }
    let own = caller.connection().map(|connection| SessionKey::Connection(connection.id));
    match gateway.fleet.by_uid(&caller.owner, &uid) {
        Some(session_key @ SessionKey::Connection(_)) if own.as_ref() != Some(&session_key) => {
            return Err(ErrorResponse::session_of_a_connection(&id));
        }
        Some(session_key) => return Ok(session_key),
        None => {}
    }
    let Some(records) = &gateway.recall.records else { return Ok(as_name) };
    // If records cannot be read, the caller still gets a browser.
    match records.session(&caller.owner, uid.as_str()).await {
        Ok(Some(row)) if row.session.uid == uid => Err(ErrorResponse::session_over(&id, &row.session.name)),
        _ => Ok(as_name),
    }
}

/// The notes for a caller's answer.
pub(crate) fn notes(
    caller: &Caller,
    session_key: &SessionKey,
    mut notes: Vec<Note>,
    own_session_calls: Option<OwnSessionCall<'_>>,
) -> Vec<String> {
    // Another client of the same owner may have started the session anew; this client has not had the note yet.
    let lost = caller.connection().is_some_and(|connection| connection.take_lost_note(session_key));
    if lost && !notes.iter().any(|note| note.restarted().is_some()) {
        notes.push(Note::Restarted(EndReason::Server));
    }
    let mut notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    if own_session_calls.is_some_and(|own_session_calls| own_session_calls.overlapped()) {
        notes.push(OVERLAP.to_owned());
    }
    notes
}

/// A call without `sessionId` in a connection's own session, which the connection counts. Tells whether the call
/// overlapped another.
pub(crate) struct OwnSessionCall<'a> {
    connection: &'a Connection,
    overlaps_before: usize,
}

impl<'a> OwnSessionCall<'a> {
    /// Counts the call until the returned value is dropped: the caller holds it until the call has its answer.
    pub(crate) fn begin(caller: &'a Caller, session_key: &SessionKey) -> Option<Self> {
        let (Some(connection), SessionKey::Connection(_)) = (caller.connection(), session_key) else {
            return None;
        };
        let overlaps_before = connection.overlaps.load(Ordering::Relaxed);
        if connection.own_session_calls.fetch_add(1, Ordering::Relaxed) > 0 {
            // The earlier call gets the note too.
            connection.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        Some(Self { connection, overlaps_before })
    }

    fn overlapped(&self) -> bool {
        self.connection.overlaps.load(Ordering::Relaxed) != self.overlaps_before
    }
}

impl Drop for OwnSessionCall<'_> {
    fn drop(&mut self) {
        self.connection.own_session_calls.fetch_sub(1, Ordering::Relaxed);
    }
}
