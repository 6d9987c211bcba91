//! `session_list`: the agent's own sessions.

use greenroom_fleet::{SessionState, SessionStatus};
use serde_json::{Value, json};

use super::{BARE, Context, OwnTool, Said};
use greenroom_core::time::timestamp;

use crate::{browsers::index_of, rescue::Failure};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "session_list",
    description: "List browser sessions",
    read_only: true,
    run: |context| Box::pin(async move { run(&context) }),
    ..BARE
};

fn run(context: &Context<'_>) -> Result<Said, Failure> {
    let own = context.caller.connection.as_ref().map(|connection| connection.id);
    let sessions: Vec<_> = context
        .gateway
        .fleet
        .list(context.owner())
        .into_iter()
        // Another connection's own session is nobody else's business.
        .filter(|status| status.connection.is_none_or(|id| Some(id) == own))
        .map(|status| show(&status))
        .collect();
    Ok(json!({ "sessions": sessions }).into())
}

fn show(status: &SessionStatus) -> Value {
    let mut shown = json!({
        "id": status.id,
        "pool": status.pool,
        "instance": status.instance.map(|id| id.to_string()),
        "state": state_name(status.state),
        "url": status.view.url,
        "title": status.view.title,
        "created": timestamp(status.created),
        "lastUsed": timestamp(status.last_used),
        "callsInFlight": status.calls_in_flight,
        "expiresInSeconds": status.expires_in.map(|left| left.as_secs()),
    });
    if let Some(index) = index_of(&status.pool) {
        shown["browserIndex"] = json!(index);
    }
    if status.id.is_none() {
        shown["note"] = json!("used by calls without sessionId on this connection");
    }
    shown
}

/// A state as lists show it.
pub(crate) fn state_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Starting => "starting",
        SessionState::Idle => "idle",
        SessionState::Busy => "busy",
    }
}
