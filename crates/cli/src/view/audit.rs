//! Lines of the audit log for people.

use greenroom_core::audit::{AuditActor, AuditKind, AuditLine};

use super::{
    logs::moment,
    text::{count, escape},
};

/// When, who, and what happened: `2026-01-02 03:04:05Z  session "a": refused 127.0.0.1:80: loopback (pool DEFAULT)`.
pub fn line(line: &AuditLine) -> String {
    let AuditLine { time, event, .. } = line;
    let times = usize::try_from(line.count).unwrap_or(usize::MAX);
    let what = match &event.kind {
        AuditKind::NetworkRefused { rule, denied_by, target } => {
            let target = target.as_deref().unwrap_or("connections to further targets");
            let rule = match denied_by {
                Some(denied_by) => format!("the rule `{denied_by}` denies it"),
                None => rule.clone(),
            };
            format!("refused {target}: {rule}")
        }
        AuditKind::EventsLost => format!("{} lost, and not in this log", count(times, "event")),
        AuditKind::Unknown => "an event of a later version; `--json` shows it".to_owned(),
    };
    let repeated = match &line.until {
        _ if event.kind == AuditKind::EventsLost || times < 2 => String::new(),
        Some(until) => format!(", {times} times until {}", moment(until)),
        None => format!(", {times} times"),
    };
    format!("{}  {}{}{repeated}\n", moment(time), escape(&who(&event.actor)), escape(&what))
}

fn who(actor: &AuditActor) -> String {
    let mut parts = Vec::new();
    if let Some(session) = &actor.session {
        parts.push(format!("session \"{session}\""));
    }
    if let Some(owner) = actor.owner.as_ref().filter(|owner| *owner != "local") {
        parts.push(format!("owner {owner}"));
    }
    if let Some(pool) = &actor.pool {
        parts.push(format!("pool {pool}"));
    }
    if parts.is_empty() { String::new() } else { format!("{}: ", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use greenroom_core::audit::AuditEvent;

    use super::*;

    fn shown(actor: AuditActor, kind: AuditKind, times: u64) -> String {
        line(&AuditLine {
            time: "2026-01-02T03:04:05.678Z".to_owned(),
            until: (times > 2).then(|| "2026-01-02T03:05:00.000Z".to_owned()),
            pid: 7,
            event: AuditEvent { actor, kind },
            count: times,
        })
    }

    /// A line says when, who, what and how often; a hostile text in the file cannot control the terminal.
    #[test]
    fn audit_lines_are_sentences() {
        let actor = |owner: &str, session: &str| AuditActor {
            owner: Some(owner.to_owned()),
            session: Some(session.to_owned()),
            pool: Some("DEFAULT".to_owned()),
        };
        let refused = |denied_by: Option<&str>, target: Option<&str>| AuditKind::NetworkRefused {
            rule: "loopback".to_owned(),
            denied_by: denied_by.map(ToOwned::to_owned),
            target: target.map(ToOwned::to_owned),
        };
        for (shown, expected) in [
            (
                shown(actor("local", "a"), refused(None, Some("127.0.0.1:80")), 1),
                "session \"a\", pool DEFAULT: refused 127.0.0.1:80: loopback",
            ),
            (
                shown(actor("ann", "a\x1b[2J"), refused(Some("*.x"), Some("a.x:80")), 2),
                "session \"a\\u{1b}[2J\", owner ann, pool DEFAULT: refused a.x:80: the rule `*.x` denies it, 2 times",
            ),
            (
                shown(AuditActor::default(), refused(None, None), 9),
                "refused connections to further targets: loopback, 9 times until 2026-01-02 03:05:00Z",
            ),
            (shown(AuditActor::default(), AuditKind::EventsLost, 3), "3 events lost, and not in this log"),
            (
                shown(AuditActor::default(), AuditKind::Unknown, 1),
                "an event of a later version; `--json` shows it",
            ),
        ] {
            assert_eq!(shown, format!("2026-01-02 03:04:05Z  {expected}\n"));
        }
    }
}
