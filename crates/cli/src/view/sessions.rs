//! Sessions, as a table and one by one.

use greenroom_gateway::control::OpenSession;

use super::{
    table::{Cell, table},
    terminal::{Terminal, TextStyle},
    text::{count, escape, id, span},
};

/// A table of sessions, with the process of each where several are shown, and the owner where one is not the local one.
pub fn sessions(rows: &[(u32, &OpenSession)], indent: &str, terminal: Terminal) -> String {
    let several = rows.iter().any(|(pid, _)| Some(*pid) != rows.first().map(|(first, _)| *first));
    let owners = rows.iter().any(|(_, session)| session.owner != "local");
    let mut heads = vec!["ID", "STATE", "CALLS", "IDLE", "EXPIRES IN", "PAGE"];
    if owners {
        heads.insert(1, "OWNER");
    }
    if several {
        heads.insert(0, "PID");
    }
    let rows: Vec<_> = rows
        .iter()
        .map(|(pid, session)| {
            let mut cells = cells(session);
            if owners {
                cells.insert(1, Cell::plain(escape(&session.owner)));
            }
            if several {
                cells.insert(0, Cell::plain(pid.to_string()));
            }
            cells
        })
        .collect();
    table(&heads, &rows, indent, terminal)
}

fn cells(session: &OpenSession) -> Vec<Cell> {
    let name = match session.id {
        Some(_) => Cell::Text(TextStyle::Bold, name(session)),
        None => Cell::plain(name(session)),
    };
    let style = match session.state.as_str() {
        "busy" => TextStyle::Yellow,
        "idle" => TextStyle::Green,
        _ => TextStyle::Dim,
    };
    // A session with a call in flight is not idle, and does not expire.
    let idle = if session.calls_in_flight > 0 { "-".to_owned() } else { span(session.idle_seconds) };
    // A page without a title has its URL as the title, which is already shown.
    let title = if session.title == session.url { "" } else { &escape(&session.title) };
    vec![
        name,
        Cell::Text(style, escape(&session.state)),
        Cell::Number(session.calls_in_flight.to_string()),
        Cell::Number(idle),
        Cell::Number(session.expires_in_seconds.map_or_else(|| "-".to_owned(), span)),
        Cell::Pair(title.to_owned(), escape(&session.url)),
    ]
}

/// The name of a session in a table: its id, or its connection's name.
pub fn name(session: &OpenSession) -> String {
    match &session.id {
        Some(given) => id(given),
        None => escape(&session.label()),
    }
}

/// All fields of a session, a line for each.
pub fn session(pid: u32, kind: &str, session: &OpenSession) -> String {
    let ago = |time: &str, seconds: u64| format!("{}, {} ago", escape(time), span(seconds));
    let instance = session.instance.map(|instance| format!(", instance {instance}")).unwrap_or_default();
    let details = [
        ("session", name(session)),
        ("key", escape(&session.key)),
        ("owner", escape(&session.owner)),
        ("process", format!("pid {pid}, {}", escape(kind))),
        ("pool", format!("{}{instance}", escape(&session.pool))),
        (
            "state",
            format!("{}, {} in flight", escape(&session.state), count(session.calls_in_flight, "call")),
        ),
        ("title", escape(&session.title)),
        ("url", escape(&session.url)),
        ("created", ago(&session.created, session.age_seconds)),
        ("last used", ago(&session.last_used, session.idle_seconds)),
        (
            "expires in",
            session.expires_in_seconds.map_or_else(|| "not while a call is in flight".to_owned(), span),
        ),
    ];
    details
        .into_iter()
        .map(|(fact, value)| {
            let value = if value.is_empty() { "-" } else { &value };
            format!("{fact:10}  {value}\n")
        })
        .collect()
}
