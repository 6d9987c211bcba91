//! Which session a call belongs to ([`whose`]), and the notes about that session that its answer carries ([`notes`]),
//! such as that the session was restarted. The same for a single call and for several at once.

use std::sync::atomic::Ordering;

use greenroom_core::{SessionId, SessionUid, settings::Scope};
use greenroom_fleet::{Ended, Note, Whose};

use crate::{Gateway, caller::Caller, connection::Connection, error_response::Failure};

/// What to say when calls without `sessionId` overlap: probably two agents share a connection unawares.
const OVERLAP: &str = "hint: calls without sessionId overlapped on this connection and shared one browser; if several agents use it, each should give its own sessionId";

/// The session that a call with this `sessionId` is for.
pub(crate) async fn whose(
    gateway: &Gateway,
    caller: &Caller,
    session: Option<SessionId>,
) -> Result<Whose, Failure> {
    match (session, gateway.scope, &caller.connection) {
        (Some(id), _, _) => named(gateway, caller, id).await,
        (None, Scope::Connection | Scope::Explicit, None) if caller.is_program => {
            Err(Failure::program_session_required())
        }
        (None, Scope::Connection, Some(connection)) => Ok(Whose::Connection(connection.id)),
        (None, Scope::Connection, None) => Err(Failure::stateless()),
        (None, Scope::Call, _) => Ok(Whose::NoOne),
        (None, Scope::Explicit, _) => Err(Failure::session_required()),
    }
}

/// The session that an id means. Answers and lists also show the UUID by which a session is recorded; given as an id it means
/// that session. It opens no new browser: whoever repeats what it was shown wants the page that it had.
pub(crate) async fn named(gateway: &Gateway, caller: &Caller, id: SessionId) -> Result<Whose, Failure> {
    let as_name = Whose::Named(id.clone());
    let Some(uid) = SessionUid::parse(id.as_str()) else { return Ok(as_name) };
    if gateway.fleet.home(&caller.owner, &as_name).is_some() {
        return Ok(as_name);
    }
    let own = caller.connection.as_ref().map(|connection| Whose::Connection(connection.id));
    match gateway.fleet.by_uid(&caller.owner, &uid) {
        Some(whose @ Whose::Connection(_)) if own.as_ref() != Some(&whose) => {
            return Err(Failure::session_of_a_connection(&id));
        }
        Some(whose) => return Ok(whose),
        None => {}
    }
    let Some(records) = &gateway.recall.records else { return Ok(as_name) };
    // Records that cannot be read keep nobody from a browser.
    match records.session(&caller.owner, uid.as_str()).await {
        Ok(Some(row)) if row.session.uid == uid => Err(Failure::session_over(&id, &row.session.name)),
        _ => Ok(as_name),
    }
}

/// What a caller must hear with its answer.
pub(crate) fn notes(
    caller: &Caller,
    whose: &Whose,
    mut notes: Vec<Note>,
    unnamed: Option<Unnamed<'_>>,
) -> Vec<String> {
    // Another of its owner's windows may have begun the session anew; this client has not heard of it.
    let lost = caller.connection.as_ref().is_some_and(|connection| connection.takes_leave_of(whose));
    if lost && !notes.iter().any(|note| note.restarted().is_some()) {
        notes.push(Note::Restarted(Ended::Server));
    }
    let mut notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    if unnamed.is_some_and(|unnamed| unnamed.overlapped()) {
        notes.push(OVERLAP.to_owned());
    }
    notes
}

/// Counts a call without `sessionId` in a connection's own session, and knows whether it met another.
pub(crate) struct Unnamed<'a> {
    connection: &'a Connection,
    meetings_before: usize,
}

impl<'a> Unnamed<'a> {
    /// To be held until the call has its answer.
    pub(crate) fn begin(caller: &'a Caller, whose: &Whose) -> Option<Self> {
        let (Some(connection), Whose::Connection(_)) = (&caller.connection, whose) else { return None };
        let meetings_before = connection.meetings.load(Ordering::Relaxed);
        if connection.unnamed.fetch_add(1, Ordering::Relaxed) > 0 {
            // The one that came first shall hear of it too.
            connection.meetings.fetch_add(1, Ordering::Relaxed);
        }
        Some(Self { connection, meetings_before })
    }

    fn overlapped(&self) -> bool {
        self.connection.meetings.load(Ordering::Relaxed) != self.meetings_before
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        self.connection.unnamed.fetch_sub(1, Ordering::Relaxed);
    }
}
