//! `session_list`: the agent's own sessions.

use std::time::SystemTime;

use greenroom_fleet::{SessionState, SessionStatus};
use serde_json::{Value, json};

use super::{Context, OwnTool};
use crate::rescue::Failure;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "session_list",
    description: "List browser sessions",
    session: None,
    read_only: true,
    usable: |_| true,
    run: |context| Box::pin(async move { run(&context) }),
};

fn run(context: &Context<'_>) -> Result<Value, Failure> {
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
    Ok(json!({ "sessions": sessions }))
}

fn show(status: &SessionStatus) -> Value {
    let mut shown = json!({
        "id": status.id,
        "pool": status.pool,
        "instance": status.instance.map(|id| id.to_string()),
        "state": match status.state {
            SessionState::Starting => "starting",
            SessionState::Idle => "idle",
            SessionState::Busy => "busy",
        },
        "url": status.view.url,
        "title": status.view.title,
        "created": timestamp(status.created),
        "lastUsed": timestamp(status.last_used),
        "callsInFlight": status.calls_in_flight,
        "expiresInSeconds": status.expires_in.map(|left| left.as_secs()),
    });
    if status.id.is_none() {
        shown["note"] = json!("used by calls without sessionId on this connection");
    }
    shown
}

/// RFC 3339 in UTC, to the second.
fn timestamp(time: SystemTime) -> String {
    let seconds =
        time.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The date so many days after 1970-01-01. Years begin in March here, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Times are written as RFC 3339 has them, leap years included.
    #[test]
    fn timestamps() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_826_154, "2000-02-29T12:09:14Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
