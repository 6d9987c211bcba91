//! The display name of a connection: its client's name and a number, such as `Claude Code 2`. A connection's id is a
//! random number, and people cannot tell two of those apart.
//!
//! A front registers a connection here when the client introduces itself. Numbers are not reused while the process runs,
//! so that a name in the log means one client window.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use greenroom_core::ConnectionId;
use parking_lot::Mutex;

/// How many connections the table remembers, at some 150 bytes each. More than can be connected at once (10,000
/// clients, 1,024 fronts, 4,096 fronts that left).
const NAMES_MAX: usize = 16_384;

/// How many different client names the table counts. A few dozen exist; past the limit a new name counts as `client`.
const CLIENTS_MAX: usize = 256;

/// The longest client name, in characters. It leaves room for the other columns of a table.
const NAME_CHARS_MAX: usize = 40;

/// The name of a client that has not introduced itself.
const UNNAMED: &str = "client";

/// Clients whose `clientInfo.name` is an identifier, and their display names.
const KNOWN: [(&str, &str); 7] = [
    ("claude-code", "Claude Code"),
    ("claude-ai", "Claude"),
    ("cursor-vscode", "Cursor"),
    ("codex-mcp-client", "Codex"),
    ("gemini-cli-mcp-client", "Gemini CLI"),
    ("windsurf-client", "Windsurf"),
    ("opencode", "opencode"),
];

/// The names of a process's connections.
#[derive(Debug, Default)]
pub struct ConnectionNames(Mutex<NameTable>);

#[derive(Debug, Default)]
struct NameTable {
    by_id: HashMap<ConnectionId, Arc<str>>,
    /// The connections in `by_id`, oldest first.
    order: VecDeque<ConnectionId>,
    /// How many connections of each client there have been.
    counted: HashMap<String, u64>,
}

impl ConnectionNames {
    /// Notes the name that the client of this connection gave, and returns the connection's name. The first name stays: a
    /// front that joins again keeps it.
    pub fn introduce(&self, id: ConnectionId, client: Option<&str>) -> Arc<str> {
        let mut names = self.0.lock();
        if let Some(name) = names.by_id.get(&id) {
            return name.clone();
        }
        let client = client.map(display_name).filter(|name| !name.is_empty());
        let mut client = client.unwrap_or_else(|| UNNAMED.to_owned());
        if names.counted.len() >= CLIENTS_MAX && !names.counted.contains_key(&client) {
            UNNAMED.clone_into(&mut client);
        }
        let number = names.counted.entry(client.clone()).or_default();
        *number += 1;
        let name: Arc<str> = format!("{client} {number}").into();
        names.by_id.insert(id, name.clone());
        names.order.push_back(id);
        if names.order.len() > NAMES_MAX
            && let Some(oldest) = names.order.pop_front()
        {
            names.by_id.remove(&oldest);
        }
        name
    }

    /// The name of a connection.
    pub fn name(&self, id: ConnectionId) -> Arc<str> {
        self.introduce(id, None)
    }
}

/// A client's name on one line, cut to [`NAME_CHARS_MAX`].
fn display_name(name_given: &str) -> String {
    let known = KNOWN.into_iter().find(|(name, _)| *name == name_given.trim());
    let name_given = known.map_or(name_given, |(_, name)| name);
    let words: Vec<_> = name_given.split(|sign: char| sign.is_whitespace() || sign.is_control()).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let short: String = words.join(" ").chars().take(NAME_CHARS_MAX).collect();
    short.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each client's connections are counted apart, also under an unknown name; a connection that comes back keeps
    /// its name.
    #[test]
    fn connections_are_counted_by_client() {
        let names = ConnectionNames::default();
        let introduced = |id: u64, client| names.introduce(ConnectionId(id), client).to_string();
        assert_eq!(introduced(281_474_976_710_655, Some("claude-code")), "Claude Code 1");
        assert_eq!(introduced(7, Some("claude-code")), "Claude Code 2");
        assert_eq!(introduced(8, Some(" my\n\u{1b}agent ")), "my agent 1");
        assert_eq!(introduced(9, None), "client 1");
        assert_eq!(introduced(7, Some("other")), "Claude Code 2", "a front that joins again");
        assert_eq!(&*names.name(ConnectionId(8)), "my agent 1");
        assert_eq!(&*names.name(ConnectionId(10)), "client 2", "it was never introduced");
        assert_eq!(introduced(11, Some(&"x".repeat(1000))).len(), NAME_CHARS_MAX + 2);
    }

    /// The limits hold for many connections and for many clients.
    #[test]
    fn connection_names_are_limited() {
        let names = ConnectionNames::default();
        for id in 0..NAMES_MAX as u64 + 10 {
            names.introduce(ConnectionId(id), Some(&format!("bot {id}")));
        }
        let kept = names.0.lock();
        assert_eq!((kept.by_id.len(), kept.order.len()), (NAMES_MAX, NAMES_MAX));
        assert!(kept.counted.len() <= CLIENTS_MAX + 1);
    }
}
