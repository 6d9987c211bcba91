//! Running greenrooms: a heading each, a table of sessions, a line for each pool, a table of attached browsers.

use greenroom_gateway::control::{OpenSession, PoolReport, ProcessStatus};
use serde::Serialize;

use super::{
    browsers::browsers as browser_table,
    pools::{instance_problems, pools as pool_table},
    sessions::sessions,
    terminal::{Terminal, TextStyle},
    text::{count, count_of, escape, span},
};
use crate::control::{GreenroomReport, QueryOutcome};

/// The indent below a heading.
const INDENT: &str = "  ";

/// All greenroom processes, separated by blank lines.
pub fn status(outcomes: &[QueryOutcome], terminal: Terminal) -> String {
    let shown: Vec<_> = outcomes.iter().map(|outcome| greenroom(outcome, terminal)).collect();
    shown.join("\n")
}

fn greenroom(outcome: &QueryOutcome, terminal: Terminal) -> String {
    match outcome {
        QueryOutcome::Answered(report) => {
            let GreenroomReport { status, sessions: list, .. } = &**report;
            let rows: Vec<_> = list.iter().map(|session| (status.pid, session)).collect();
            let mut text = heading(status, terminal);
            if rows.is_empty() {
                text += &format!("{INDENT}no sessions\n");
            } else {
                text += &sessions(&rows, INDENT, terminal);
            }
            text + &pools(status, terminal) + &browsers(status, terminal) + &unproxied(status)
        }
        QueryOutcome::Unanswered { endpoint, why } => {
            let server =
                endpoint.server.as_deref().map(|url| format!("  {}", escape(url))).unwrap_or_default();
            let silent = terminal.styled(TextStyle::Red, &format!("pid {} {}", endpoint.pid, escape(why)));
            format!("greenroom  {silent}{server}\n")
        }
    }
}

fn heading(status: &ProcessStatus, terminal: Terminal) -> String {
    let name = terminal.styled(TextStyle::Bold, &format!("greenroom {}", escape(&status.version)));
    let up = span(status.uptime_seconds);
    let listen = status.listen.as_deref().map(|address| format!("  {}", escape(address))).unwrap_or_default();
    let end = status.idle_exit_seconds.map(|after| format!("  ends after {} without use", span(after)));
    let end = end.unwrap_or_default();
    format!("{name}  {}  pid {}  up {up}{listen}{end}\n", escape(&status.kind), status.pid)
}

/// A line for the built-in pool; a table of the declared ones, and their problems.
fn pools(status: &ProcessStatus, terminal: Terminal) -> String {
    let declared: Vec<_> =
        status.pools.iter().filter(|pool| !pool.elastic).map(|pool| (status.pid, pool)).collect();
    let mut text: String = status.pools.iter().filter(|pool| pool.elastic).map(pool).collect();
    if !declared.is_empty() {
        text += &pool_table(&declared, INDENT, terminal);
        text += &declared.iter().map(|(_, pool)| instance_problems(pool, INDENT)).collect::<String>();
    }
    text
}

fn browsers(status: &ProcessStatus, terminal: Terminal) -> String {
    let rows: Vec<_> = status.browsers.iter().map(|browser| (status.pid, browser)).collect();
    if rows.is_empty() { String::new() } else { browser_table(&rows, INDENT, terminal) }
}

/// The pools and browsers in which no network policy holds, if there are any.
fn unproxied(status: &ProcessStatus) -> String {
    let pools = status.pools.iter().filter(|pool| pool.unproxied);
    let mut places: Vec<_> = pools.map(|pool| format!("pool {}", escape(&pool.name))).collect();
    if !status.browsers.is_empty() {
        places.push("attached browsers".to_owned());
    }
    if places.is_empty() {
        return String::new();
    }
    format!("{INDENT}no proxy, so no network policy: {}\n", places.join(", "))
}

fn pool(pool: &PoolReport) -> String {
    let PoolReport { name, instances, leased, slots, waiting, spares, drained, .. } = pool;
    let name = escape(name);
    let drained = match drained {
        true => format!("; drained: it takes no calls until `greenroom pool restart {name}`"),
        false => String::new(),
    };
    let spares = match spares {
        0 => String::new(),
        _ => format!(", {}", count(*spares, "spare")),
    };
    let instances = count(*instances, "instance");
    let leased = count_of(*leased, *slots, "slot");
    format!("{INDENT}pool {name}  {instances}, {leased} leased{spares}, {waiting} waiting{drained}\n")
}

/// A greenroom process for programs (`--json`).
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum StatusView<'a> {
    GreenroomReport {
        answers: bool,
        #[serde(flatten)]
        status: &'a ProcessStatus,
        sessions: &'a [OpenSession],
    },
    Unanswered {
        answers: bool,
        pid: u32,
        listen: Option<&'a str>,
        error: &'a str,
    },
}

impl<'a> From<&'a QueryOutcome> for StatusView<'a> {
    fn from(outcome: &'a QueryOutcome) -> Self {
        match outcome {
            QueryOutcome::Answered(report) => {
                Self::GreenroomReport { answers: true, status: &report.status, sessions: &report.sessions }
            }
            QueryOutcome::Unanswered { endpoint, why } => Self::Unanswered {
                answers: false,
                pid: endpoint.pid,
                listen: endpoint.server.as_deref(),
                error: why,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ControlEndpoint;
    use greenroom_gateway::{Browser, control::InstanceReport};

    fn endpoint(pid: u32) -> ControlEndpoint {
        ControlEndpoint { pid, socket: "/run/control.sock".into(), server: None, network: None }
    }

    fn session(id: Option<&str>, owner: &str, state: &str, title: &str, url: &str) -> OpenSession {
        let calls_in_flight = usize::from(state != "idle");
        OpenSession {
            id: id.map(ToOwned::to_owned),
            connection: id.is_none().then_some(281_474_976_710_655),
            client: id.is_none().then(|| "Claude Code 1".to_owned()),
            owner: owner.to_owned(),
            state: state.to_owned(),
            title: title.to_owned(),
            url: url.to_owned(),
            idle_seconds: 40,
            calls_in_flight,
            expires_in_seconds: (calls_in_flight == 0).then_some(260),
            ..OpenSession::default()
        }
    }

    fn outcomes() -> Vec<QueryOutcome> {
        let pools = vec![PoolReport {
            name: "DEFAULT".to_owned(),
            instances: 1,
            leased: 4,
            slots: 128,
            spares: 1,
            elastic: true,
            is_default: true,
            ..PoolReport::default()
        }];
        let status = ProcessStatus { version: "0.1.0".to_owned(), pools, ..ProcessStatus::default() };
        let sessions = vec![
            session(Some("prices"), "local", "busy", "Tea shop", "http://localhost:8000/kettles?sort=price"),
            session(Some("reviews"), "local", "idle", "茶の店", "http://localhost:8000/reviews"),
            session(Some("a\nb\x1b[31m"), "local", "idle", "", "about:blank"),
            session(None, "local", "starting", "", ""),
        ];
        let others = vec![session(Some("prices"), "ann", "idle", "\x1b]0;owned\x07", "http://shop.test/")];
        let stdio =
            ProcessStatus { pid: 4242, kind: "stdio".to_owned(), uptime_seconds: 750, ..status.clone() };
        let declared = |name: &str, is_default: bool, failed: bool| {
            let error = failed.then(|| "Process exited unexpectedly (code 1)".to_owned());
            let state = if failed { "failed" } else { "healthy" };
            let member =
                InstanceReport { status: state.to_owned(), slots: 1, error, ..InstanceReport::default() };
            let healthy = usize::from(!failed);
            PoolReport {
                name: name.to_owned(),
                is_default,
                instances: 1,
                healthy,
                available: healthy,
                slots: 1,
                members: vec![member],
                ..PoolReport::default()
            }
        };
        let server = ProcessStatus {
            pools: vec![declared("CHROMIUM", true, false), declared("FIREFOX", false, true)],
            pid: 4300,
            kind: "server".to_owned(),
            uptime_seconds: 187_300,
            listen: Some("http://127.0.0.1:34501".to_owned()),
            ..status.clone()
        };
        let browser = |index: u32, state: &str| Browser {
            index,
            url: format!("http://127.0.0.1:{}", 9221 + index),
            engine: "playwright".to_owned(),
            state: state.to_owned(),
            ..Browser::default()
        };
        let stdio = ProcessStatus { browsers: vec![browser(1, "connected"), browser(2, "pending")], ..stdio };
        let idle = ProcessStatus { pid: 4400, kind: "stdio".to_owned(), uptime_seconds: 3, ..status };
        let report = |status: ProcessStatus, sessions| {
            let endpoint = endpoint(status.pid);
            QueryOutcome::Answered(Box::new(GreenroomReport {
                endpoint,
                status,
                sessions,
                sessions_left_out: 0,
            }))
        };
        vec![
            report(stdio, sessions),
            report(server, others),
            report(idle, Vec::new()),
            QueryOutcome::Unanswered { endpoint: endpoint(4500), why: "does not answer".to_owned() },
        ]
    }

    /// Processes are listed one below the other; owners are shown where one is not the local one.
    #[test]
    fn status_table_lists_every_process() {
        let terminal = Terminal { columns: Some(100), ..Terminal::default() };
        insta::assert_snapshot!(status(&outcomes(), terminal));
    }

    /// Programs get every field by name.
    #[test]
    fn status_json_has_every_field() {
        let outcomes = outcomes();
        let shown: Vec<_> = outcomes.iter().skip(1).map(StatusView::from).collect();
        insta::assert_snapshot!(serde_json::to_string_pretty(&shown).unwrap());
    }
}
