//! `/control/sessions`: lists, shows and closes every owner's sessions.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Json,
    extract::{Path, State},
};
use greenroom_core::Owner;
use greenroom_fleet::SessionStatus;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{Control, ControlProblem, OwnedSessionKey};
use greenroom_core::{excerpt::excerpt, time::timestamp};

use crate::tools::{first_within, state_name};

/// Tells the reader where the whole of a long title or URL is.
const WHOLE: &str = "ask the session's own tools";

/// The longest list, in bytes of JSON: some thousand sessions with usual titles.
const LIST_BYTES_MAX: usize = 4 << 20;

/// How long `close` waits for the browser to end before it answers. Seats close within 5 s; only a seat that is still
/// opening takes longer, and it ends by itself.
const CLOSE_WITHIN: Duration = Duration::from_secs(8);

/// A session, as the process's owner sees it. A field that another version does not send is empty here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenSession {
    /// Its name in URLs; see [`OwnedSessionKey`].
    pub key: String,
    /// `None` for a connection's own.
    pub id: Option<String>,
    /// The connection whose own session it is.
    pub connection: Option<u64>,
    /// What people call that connection, such as `Claude Code 1`.
    pub client: Option<String>,
    pub owner: String,
    pub pool: String,
    pub instance: Option<u32>,
    /// `starting`, `idle` or `busy`.
    pub state: String,
    pub url: String,
    pub title: String,
    pub created: String,
    pub age_seconds: u64,
    pub last_used: String,
    pub idle_seconds: u64,
    pub calls_in_flight: usize,
    /// `None` while a call is in flight: it cannot expire then.
    pub expires_in_seconds: Option<u64>,
}

impl OpenSession {
    /// The name that people see: its id, or its connection's name.
    pub fn label(&self) -> String {
        let connection = || self.connection.map(|connection| format!("connection {connection}"));
        let given = self.id.clone().or_else(|| self.client.clone());
        given.or_else(connection).unwrap_or_else(|| self.key.clone())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct OpenSessions {
    pub sessions: Vec<OpenSession>,
    /// How many sessions are missing because the list is full.
    #[serde(default)]
    pub left_out: usize,
}

impl OpenSessions {
    /// The first of these sessions, as many as fit into [`LIST_BYTES_MAX`].
    fn first_of(all: Vec<OpenSession>) -> Self {
        let count = all.len();
        let sessions = first_within(LIST_BYTES_MAX, all.into_iter());
        Self { left_out: count - sessions.len(), sessions }
    }
}

/// The result of closing a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClosedSession {
    pub key: String,
    pub owner: String,
    /// `false`: the session is closed, but its browser is still ending.
    pub gone: bool,
}

pub(super) async fn list(State(control): State<Arc<Control>>) -> Json<OpenSessions> {
    Json(OpenSessions::first_of(all(&control)))
}

pub(super) async fn show(
    State(control): State<Arc<Control>>,
    Path(key): Path<String>,
) -> Result<Json<OpenSession>, ControlProblem> {
    let found = all(&control).into_iter().find(|session| session.key == key);
    found.map(Json).ok_or_else(|| ControlProblem::no_session(&key))
}

pub(super) async fn close(
    State(control): State<Arc<Control>>,
    Path(text): Path<String>,
) -> Result<Json<ClosedSession>, ControlProblem> {
    let key: OwnedSessionKey = text.parse().map_err(|_| ControlProblem::no_session(&text))?;
    let (owner, session_key) = key.split();
    // The first step takes the session out of the fleet's list, so a timeout does not bring it back.
    let gone = match timeout(CLOSE_WITHIN, control.gateway.fleet.evict(owner, &session_key)).await {
        Ok(closed) => closed.map(|()| true)?,
        Err(_) => false,
    };
    Ok(Json(ClosedSession { key: text, owner: owner.to_string(), gone }))
}

fn all(control: &Control) -> Vec<OpenSession> {
    let list = control.gateway.fleet.list_all();
    let shown = |(owner, status): &(Owner, SessionStatus)| {
        let client = status.connection.map(|id| control.gateway.fleet.connections().name(id).to_string());
        Some(OpenSession { client, ..session(owner, status, SystemTime::now())? })
    };
    list.iter().filter_map(shown).collect()
}

fn session(owner: &Owner, status: &SessionStatus, now: SystemTime) -> Option<OpenSession> {
    let since = |then: SystemTime| now.duration_since(then).unwrap_or_default().as_secs();
    Some(OpenSession {
        key: OwnedSessionKey::from_status(owner, status)?.to_string(),
        id: status.id.as_ref().map(ToString::to_string),
        connection: status.connection.map(|connection| connection.0),
        client: None,
        owner: owner.to_string(),
        pool: status.pool.clone(),
        instance: status.instance.map(|instance| instance.0),
        state: state_name(status.state).to_owned(),
        url: excerpt(&status.view.url, WHOLE).into_owned(),
        title: excerpt(&status.view.title, WHOLE).into_owned(),
        created: timestamp(status.created),
        age_seconds: since(status.created),
        last_used: timestamp(status.last_used),
        idle_seconds: since(status.last_used),
        calls_in_flight: status.calls_in_flight,
        expires_in_seconds: status.expires_in.map(|left| left.as_secs()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of sessions with long titles is cut, and says how many are missing.
    #[test]
    fn long_lists_are_cut() {
        let all: Vec<_> = (0..5_000)
            .map(|key| OpenSession {
                key: key.to_string(),
                title: "x".repeat(2_000),
                ..OpenSession::default()
            })
            .collect();
        let list = OpenSessions::first_of(all.clone());
        assert_eq!(list.sessions.len() + list.left_out, all.len());
        assert!(list.left_out > 0 && list.sessions == all[..list.sessions.len()]);
        assert!(serde_json::to_vec(&list).unwrap().len() < LIST_BYTES_MAX + (64 << 10));
        assert_eq!(OpenSessions::first_of(all[..100].to_vec()).left_out, 0);
    }
}
