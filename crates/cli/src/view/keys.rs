//! API keys, as a table.

use std::time::SystemTime;

use greenroom_core::{ApiKey, api_key::ApiKeyState, settings::ConfiguredApiKey, time::timestamp};

use super::{
    table::{self, Cell},
    terminal::{Terminal, TextStyle},
};

/// A table of the stored keys and of those that this configuration has. Empty without keys.
pub fn table(
    keys: &[ApiKey],
    configured: &[ConfiguredApiKey],
    now: SystemTime,
    terminal: Terminal,
) -> String {
    if keys.is_empty() && configured.is_empty() {
        return String::new();
    }
    let stored = keys.iter().map(|key| row(key, now, timestamp(key.created)));
    let configured = configured.iter().map(|key| row(&key.entry(), now, "configuration".to_owned()));
    let rows: Vec<_> = stored.chain(configured).collect();
    table::table(&["NAME", "STATE", "SCOPES", "CREATED", "SESSIONS", "EXPIRES"], &rows, "", terminal)
}

fn row(key: &ApiKey, now: SystemTime, created: String) -> Vec<Cell> {
    let state = key.state(now);
    let style = match state {
        ApiKeyState::Valid => TextStyle::Green,
        ApiKeyState::Expired | ApiKeyState::Revoked => TextStyle::Red,
    };
    vec![
        Cell::Text(TextStyle::Bold, key.name.to_string()),
        Cell::Text(style, state.as_str().to_owned()),
        Cell::plain(key.scopes.to_string()),
        Cell::plain(created),
        Cell::Number(key.sessions_max.map_or_else(|| "-".to_owned(), |sessions| sessions.to_string())),
        Cell::plain(key.expires.map_or_else(|| "never".to_owned(), timestamp)),
    ]
}
