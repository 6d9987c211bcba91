//! `session_list`: the agent's own sessions.

use greenroom_core::{excerpt::excerpt, raw::encode, time::timestamp};
use greenroom_fleet::{SessionActivity, SessionStatus};
use serde::Serialize;
use serde_json::{Value, json};

use super::{OwnTool, ToolContext, ToolOutput};
use crate::{browser_json::index_of, error_response::ErrorResponse};

/// Tells the agent where the whole of a long title or URL is.
pub(crate) const WHOLE_TEXT: &str = "evaluate it in the session";

/// The longest list, in bytes of JSON: some hundred sessions with the longest titles, a thousand with usual ones.
const LIST_BYTES_MAX: usize = 512 * 1024;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "session_list",
    description: "List browser sessions",
    read_only: true,
    run: |context| Box::pin(async move { run(&context) }),
    ..OwnTool::DEFAULTS
};

fn run(context: &ToolContext<'_>) -> Result<ToolOutput, ErrorResponse> {
    let own = context.caller.connection().map(|connection| connection.id);
    let mut all = context.gateway.fleet.list(context.owner());
    // Do not show other connections' own sessions.
    all.retain(|status| status.connection.is_none_or(|id| Some(id) == own));
    let sessions = first_within(LIST_BYTES_MAX, all.iter().map(show));
    let left_out = all.len() - sessions.len();
    let mut list = json!({ "sessions": sessions });
    if left_out > 0 {
        list["leftOut"] = json!(left_out);
    }
    Ok(list.into())
}

/// The first items, as many as fit into `bytes_max` bytes of JSON.
pub(crate) fn first_within<T: Serialize>(bytes_max: usize, all: impl Iterator<Item = T>) -> Vec<T> {
    let mut bytes = 0;
    let fits = |shown: &T| {
        bytes += encode(shown).get().len();
        bytes <= bytes_max
    };
    all.take_while(fits).collect()
}

fn show(status: &SessionStatus) -> Value {
    let mut shown = json!({
        "id": status.id,
        "pool": status.pool,
        "instance": status.instance.map(|id| id.to_string()),
        "state": state_name(status.state),
        "url": excerpt(&status.view.url, WHOLE_TEXT),
        "title": excerpt(&status.view.title, WHOLE_TEXT),
        "created": timestamp(status.created),
        "lastUsed": timestamp(status.last_used),
        "callsInFlight": status.calls_in_flight,
        "expiresInSeconds": status.expires_in.map(|left| left.as_secs()),
    });
    if let Some(index) = index_of(&status.pool) {
        shown["browserIndex"] = json!(index);
    }
    if let Some(network) = &status.network {
        shown["network"] = json!(network);
    }
    if status.id.is_none() {
        shown["note"] = json!("used by calls without sessionId on this connection");
    }
    shown
}

/// A state as lists show it.
pub(crate) fn state_name(state: SessionActivity) -> &'static str {
    match state {
        SessionActivity::Starting => "starting",
        SessionActivity::Idle => "idle",
        SessionActivity::Busy => "busy",
    }
}
