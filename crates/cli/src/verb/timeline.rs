//! `greenroom logs --session`: what happened in a session, open or closed, of this process or an earlier one.
//!
//! All greenrooms of a data folder keep their records together, so any of them can be asked; where none runs, the records
//! are read from the disk. No process announces what another one has written, so `--follow` reads again at intervals, until
//! the session is over. A call is shown when it has ended: only then is its outcome known.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use greenroom_core::{ConnectionId, Owner, settings::Resolved};
use greenroom_gateway::{
    control::OpenSession,
    rest::{CallStatus, TimelineEvent, TimelineEventKind, TimelineView, timeline_of},
};
use greenroom_store::Store;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{logs::LogsArgs, sessions::connection_number};
use crate::{
    app::records,
    control::{ControlClient, ControlError, find_endpoints, query_all, reports},
    report::CliError,
    view::{self, text},
};

/// How many calls one request asks for. Even with hundreds of console lines each, the answer stays far below the length
/// that `ControlClient` reads.
const PAGE_CALLS: usize = 50;

/// How long `--follow` waits before it reads again. Short enough to feel live, long enough to cost nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn run(resolved: &Resolved, args: &LogsArgs, session: &str) -> anyhow::Result<ExitCode> {
    let mut source = TimelineSource {
        data: &resolved.settings.data_dir,
        records: records::folder(&resolved.settings),
        pid: args.pid,
        owner: args.session_owner(),
        disk: None,
    };
    let mut name = stored_name(&resolved.settings.data_dir, args, session).await;
    let mut from = 0;
    let mut printed = PrintedEvents::default();
    loop {
        let (view, running) = source.read_page(&name, from).await?;
        // Another session may take the name; continue with this one by its UUID.
        name.clone_from(&view.session.session_id);
        // Where no greenroom runs nothing more happens, even if the session's end was not recorded.
        let over = !running || view.session.state != "active";
        let waits = printed.print(&view, args.follow && !over, args.json)?;
        // With a call that still runs, stay on this page and read it again.
        let moves = !waits && view.next > from;
        if moves {
            from = view.next;
            continue;
        }
        if over || !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The name under which the store keeps a session. A connection's own session has the connection's number as its name;
/// only the running greenroom knows the connection's name.
pub(super) async fn stored_name(data: &Path, args: &LogsArgs, given: &str) -> String {
    let mut number = connection_number(given);
    if number.is_none() {
        let outcomes = query_all(data).await;
        let reports_of_pid =
            reports(&outcomes).filter(|report| args.pid.is_none_or(|pid| pid == report.status.pid));
        let mut sessions = reports_of_pid.flat_map(|report| &report.sessions);
        let is_meant =
            |session: &&OpenSession| session.owner == args.session_owner() && session.label() == given;
        number =
            sessions.find(is_meant).filter(|session| session.id.is_none()).and_then(|one| one.connection);
    }
    number.map_or_else(|| given.to_owned(), |number| ConnectionId(number).session_name())
}

/// The calls of the last page that are printed: the page is read again if a call in it has not ended.
#[derive(Default)]
struct PrintedEvents {
    calls: HashSet<String>,
}

impl PrintedEvents {
    /// Prints the new events of a page; returns whether the page must be read again. With `skip_pending`, it prints a call only
    /// when that has ended, unless the page is full: a call that never ends must not hide the calls after it.
    fn print(&mut self, view: &TimelineView, skip_pending: bool, json: bool) -> anyhow::Result<bool> {
        let pending = |event: &&TimelineEvent| {
            matches!(event.what, TimelineEventKind::Call { status: CallStatus::Pending, .. })
        };
        let is_call = |event: &&TimelineEvent| matches!(event.what, TimelineEventKind::Call { .. });
        let full = view.events.iter().filter(is_call).count() >= PAGE_CALLS;
        let skip_pending = skip_pending && !full;
        let skipped: HashSet<&str> =
            view.events.iter().filter(pending).map(|event| &*event.ref_id).filter(|_| skip_pending).collect();
        let mut text = String::new();
        let new =
            |event: &&TimelineEvent| !skipped.contains(&*event.ref_id) && !self.calls.contains(&event.ref_id);
        for event in view.events.iter().filter(new) {
            text += &match json {
                true => serde_json::to_string(event)? + "\n",
                false => view::timeline::line(event),
            };
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        let again = !skipped.is_empty();
        self.calls.clear();
        let now_printed = view.events.iter().filter(|event| !skipped.contains(&*event.ref_id));
        self.calls.extend(now_printed.map(|event| event.ref_id.clone()));
        Ok(again)
    }
}

/// Where the timeline is read from: a running greenroom, or the disk.
struct TimelineSource<'a> {
    data: &'a Path,
    records: &'a Path,
    pid: Option<u32>,
    owner: &'a str,
    disk: Option<Store>,
}

impl TimelineSource<'_> {
    /// A page of the timeline, and whether a running greenroom could add to it.
    async fn read_page(&mut self, name: &str, from: u64) -> anyhow::Result<(TimelineView, bool)> {
        let mut endpoints = find_endpoints(self.data);
        endpoints.retain(|endpoint| self.pid.is_none_or(|pid| endpoint.pid == pid));
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let path = format!(
            "/control/timeline?owner={}&session={}&from={from}&limit={PAGE_CALLS}",
            encoded(self.owner),
            encoded(name)
        );
        for endpoint in &endpoints {
            let answer =
                async { ControlClient::open(&endpoint.socket).await?.get::<TimelineView>(&path).await };
            match answer.await {
                Ok(view) => return Ok((view, true)),
                // This greenroom has just ended, or keeps no records: ask the next.
                Err(ControlError::NotRunning) => {}
                Err(ControlError::Refused(problem)) if problem.code == "records_off" => {}
                Err(ControlError::Refused(problem)) if problem.code == "no_session" => {
                    return Err(missing(name));
                }
                Err(error) => {
                    return Err(CliError::failure(format!("pid {}: {error}", endpoint.pid)).into());
                }
            }
        }
        if let Some(pid) = self.pid {
            let message = format!("no greenroom that keeps records runs as pid {pid}");
            return Err(CliError::failure(message).hint("leave `--pid` out: any greenroom can tell").into());
        }
        Ok((self.read_from_disk(name, from).await?, false))
    }

    async fn read_from_disk(&mut self, name: &str, from: u64) -> anyhow::Result<TimelineView> {
        if self.disk.is_none() {
            self.disk = Store::open_read_only(self.records);
        }
        let Some(records) = &self.disk else {
            let message = format!("no records are kept in the data folder `{}`", self.records.display());
            return Err(CliError::failure(message).hint("`--data-dir` looks into another folder").into());
        };
        let view = timeline_of(records, &Owner::new(self.owner), name, from, PAGE_CALLS).await?;
        view.ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> anyhow::Error {
    CliError::failure(format!("there are no records of this session: \"{}\"", text::escape(name)))
        .hint("a session is kept from its first call on, until it is older than `records.max_age`")
        .into()
}
