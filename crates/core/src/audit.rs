//! The audit log: security events with their time and who caused them. [`Audit`] is the port through which the rest of the
//! program reports events; the store writes them to a file, one JSON object on a line.
//!
//! Pages and agents choose host names, and agents choose names of sessions and rules. [`AuditEvent::refusal`] cuts and
//! escapes all of them, and keeps nothing of an address but its host and port: paths, queries and user names can hold
//! secrets. Another kind of event is one more variant of [`AuditKind`].

use std::{net::Ipv6Addr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    network::Blocked,
    port::{PortUser, RefusedConnection},
    printable::printable,
};

/// How much of a text that a page, an agent or an operator chose stands in a line: the longest name of the DNS.
const TEXT_CHARS_MAX: usize = 253;

/// One event, without its time. Equal events that come close together become one line with a count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditEvent {
    #[serde(flatten)]
    pub actor: AuditActor,
    #[serde(flatten)]
    pub kind: AuditKind,
}

/// Who caused an event, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditActor {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The session's name; `None` for a call without a session, and for a browser context that no session uses yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AuditKind {
    /// The network policy refused a connection of a browser.
    NetworkRefused {
        /// The kind of rule, as [`Blocked::word`] names it.
        rule: String,
        /// The rule that denies the target, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied_by: Option<String>,
        /// `host:port`. `None` stands for further targets of an actor that had too many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// The log has no lines of so many events: there were too many at once, or the file could not be written.
    EventsLost,
    /// An event that this version does not know. No version writes it.
    #[serde(other)]
    Unknown,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// When it happened, the first time if the line counts several; RFC 3339 in UTC.
    pub time: String,
    /// When it happened the last time, if the line counts several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The process that wrote the line.
    pub pid: u32,
    #[serde(flatten)]
    pub event: AuditEvent,
    /// How often it happened.
    pub count: u64,
}

/// Takes events for the audit log. It never blocks, and may be called from any thread.
pub trait Audit: Send + Sync {
    fn report(&self, event: AuditEvent);
    /// How many events of this process have no line in the log, for lack of space in the queue or on the disk.
    fn lost(&self) -> u64;
    /// Why the log cannot be written now, if that is so.
    fn health(&self) -> Result<(), Arc<str>>;
}

impl AuditEvent {
    /// A refused connection of a browser of this pool.
    pub fn refusal(pool: Option<&str>, user: Option<&PortUser>, refused: &RefusedConnection) -> Self {
        let session = user.and_then(|user| user.session.as_deref());
        Self {
            actor: AuditActor {
                owner: user.map(|user| cut(user.owner.as_str())),
                session: session.map(cut),
                pool: pool.map(cut),
            },
            kind: AuditKind::NetworkRefused {
                rule: refused.reason.word().to_owned(),
                denied_by: denied_by(&refused.reason),
                target: Some(target(&refused.host, refused.port)),
            },
        }
    }

    /// The same event without its target: it stands for all targets that get no line of their own.
    pub fn without_target(&self) -> Self {
        let kind = match &self.kind {
            AuditKind::NetworkRefused { rule, .. } => {
                AuditKind::NetworkRefused { rule: rule.clone(), denied_by: None, target: None }
            }
            other @ (AuditKind::EventsLost | AuditKind::Unknown) => other.clone(),
        };
        Self { actor: self.actor.clone(), kind }
    }
}

/// The rule that denies a target, if one does.
fn denied_by(reason: &Blocked) -> Option<String> {
    match reason {
        Blocked::Denied(rule) => Some(cut(rule)),
        Blocked::Session(reason) => denied_by(reason),
        Blocked::OwnPort | Blocked::Metadata | Blocked::Range(_) | Blocked::NotListed => None,
    }
}

/// A host and a port. Should a caller pass more of an address than its host, the rest does not get into the log.
fn target(host: &str, port: u16) -> String {
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = cut(host);
    // Browsers write IPv6 addresses in brackets, other callers may not.
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The beginning of a text, with characters that would harm a terminal as escapes.
fn cut(text: &str) -> String {
    let beginning: String = text.chars().take(TEXT_CHARS_MAX).collect();
    printable(&beginning).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, network::AddressRange};

    fn refused(host: &str, reason: Blocked) -> RefusedConnection {
        RefusedConnection { host: host.to_owned(), port: 80, reason }
    }

    fn written(event: AuditEvent) -> String {
        let line =
            AuditLine { time: "2026-01-02T03:04:05.678Z".into(), until: None, pid: 7, event, count: 1 };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<AuditLine>(&text).unwrap(), line);
        text
    }

    /// A line names time, process, owner, session, pool, rule and target, and reads back as it was.
    #[test]
    fn lines_name_who_and_what() {
        let user = PortUser { owner: Owner::new("ann"), session: Some("a".into()), network: None };
        let denied = refused("x.example", Blocked::Denied("*.example".into()));
        assert_eq!(
            written(AuditEvent::refusal(Some("SHOP"), Some(&user), &denied)),
            r#"{"time":"2026-01-02T03:04:05.678Z","pid":7,"owner":"ann","session":"a","pool":"SHOP","event":"network_refused","rule":"denied","denied_by":"*.example","target":"x.example:80","count":1}"#
        );
        let unassigned = refused("::1", Blocked::Range(AddressRange::Loopback));
        assert_eq!(
            written(AuditEvent::refusal(None, None, &unassigned)),
            r#"{"time":"2026-01-02T03:04:05.678Z","pid":7,"event":"network_refused","rule":"loopback","target":"[::1]:80","count":1}"#
        );
    }

    /// Names from pages and agents cannot break a line, reach a terminal, carry secrets or fill the disk.
    #[test]
    fn hostile_names_are_cut_and_escaped() {
        let long = "a".repeat(100_000);
        for (host, expected) in [
            ("evil\n{\"event\":\"login\"}", "evil\\n{\"event\":\"login\"}:80"),
            ("a\u{1b}[2J\u{202e}b\0", "a\\u{1b}[2J\\u{202e}b\\u{0}:80"),
            ("ann:secret@host/path?token=1#x", "host:80"),
            ("host\\path", "host:80"),
            (long.as_str(), &format!("{}:80", "a".repeat(253))),
        ] {
            let session: Arc<str> = host.into();
            let user = PortUser { owner: Owner::new(host), session: Some(session), network: None };
            let denied = refused(host, Blocked::Denied(host.into()));
            let event = AuditEvent::refusal(Some(host), Some(&user), &denied);
            let AuditKind::NetworkRefused { target, .. } = &event.kind else { panic!("{event:?}") };
            assert_eq!(target.as_deref(), Some(expected));
            let line = written(event);
            assert!(line.len() < 8_192 && !line.contains(char::is_control) && !line.contains('\u{202e}'));
        }
    }

    /// A line of a later version is read: who caused it and when, if not what it is.
    #[test]
    fn events_of_later_versions_are_read() {
        let text = r#"{"time":"2026-01-02T03:04:05.678Z","pid":7,"owner":"ann","event":"key_refused","key":"x","count":2}"#;
        let line: AuditLine = serde_json::from_str(text).unwrap();
        assert_eq!((line.event.kind, line.event.actor.owner.as_deref()), (AuditKind::Unknown, Some("ann")));
    }
}
