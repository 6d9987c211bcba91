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
    report::Hinted,
    view::{self, text},
};

/// How many calls one request asks for. Even with hundreds of console lines each, the answer stays far below the limit
/// that is read.
const PAGE_CALLS: usize = 50;

/// How long following waits before it looks again. Short enough to feel live, long enough to cost nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn run(resolved: &Resolved, args: &LogsArgs, session: &str) -> anyhow::Result<ExitCode> {
    let mut source = TimelineSource {
        data: &resolved.settings.data_dir,
        records: records::folder(&resolved.settings),
        pid: args.pid,
        owner: &args.owner,
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
        // The next part may begin with a call that still runs; while that is so, nothing comes after it.
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

/// The name under which a session is kept: connections' own ones have a number. Only the running greenroom knows a
/// connection's name.
async fn stored_name(data: &Path, args: &LogsArgs, given: &str) -> String {
    let mut number = connection_number(given);
    if number.is_none() {
        let outcomes = query_all(data).await;
        let reports_of_pid =
            reports(&outcomes).filter(|report| args.pid.is_none_or(|pid| pid == report.status.pid));
        let mut sessions = reports_of_pid.flat_map(|report| &report.sessions);
        let is_meant = |session: &&OpenSession| session.owner == args.owner && session.label() == given;
        number =
            sessions.find(is_meant).filter(|session| session.id.is_none()).and_then(|one| one.connection);
    }
    number.map_or_else(|| given.to_owned(), |number| ConnectionId(number).session_name())
}

/// What was printed of the last part: some of it is read again if a call in it has not ended.
#[derive(Default)]
struct PrintedEvents {
    calls: HashSet<String>,
}

impl PrintedEvents {
    /// Prints what is new. With `hold`, calls that have not ended wait, and the part is read again; unless it is full, as a
    /// call that never ends must not hide those after it.
    fn print(&mut self, view: &TimelineView, hold: bool, json: bool) -> anyhow::Result<bool> {
        let pending = |event: &&TimelineEvent| {
            matches!(event.what, TimelineEventKind::Call { status: CallStatus::Pending, .. })
        };
        let is_call = |event: &&TimelineEvent| matches!(event.what, TimelineEventKind::Call { .. });
        let full = view.events.iter().filter(is_call).count() >= PAGE_CALLS;
        let hold = hold && !full;
        let held: HashSet<&str> =
            view.events.iter().filter(pending).map(|event| &*event.ref_id).filter(|_| hold).collect();
        let mut text = String::new();
        let new =
            |event: &&TimelineEvent| !held.contains(&*event.ref_id) && !self.calls.contains(&event.ref_id);
        for event in view.events.iter().filter(new) {
            text += &match json {
                true => serde_json::to_string(event)? + "\n",
                false => view::timeline::line(event),
            };
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        let again = !held.is_empty();
        self.calls.clear();
        let now_printed = view.events.iter().filter(|event| !held.contains(&*event.ref_id));
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
    /// A part, and whether a running greenroom could add to it.
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
                // It has just ended, or keeps no records: others may.
                Err(ControlError::NotRunning) => {}
                Err(ControlError::Refused(problem)) if problem.code == "records_off" => {}
                Err(ControlError::Refused(problem)) if problem.code == "no_session" => {
                    return Err(missing(name));
                }
                Err(error) => {
                    return Err(Hinted::failure(format!("pid {}: {error}", endpoint.pid)).into());
                }
            }
        }
        if let Some(pid) = self.pid {
            let message = format!("no greenroom that keeps records runs as pid {pid}");
            return Err(Hinted::failure(message).hint("leave `--pid` out: any greenroom can tell").into());
        }
        Ok((self.read_from_disk(name, from).await?, false))
    }

    async fn read_from_disk(&mut self, name: &str, from: u64) -> anyhow::Result<TimelineView> {
        if self.disk.is_none() {
            self.disk = Store::open_read_only(self.records);
        }
        let Some(records) = &self.disk else {
            let message = format!("no records are kept in the data folder `{}`", self.records.display());
            return Err(Hinted::failure(message).hint("`--data-dir` looks into another folder").into());
        };
        let view = timeline_of(records, &Owner::new(self.owner), name, from, PAGE_CALLS).await?;
        view.ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> anyhow::Error {
    Hinted::failure(format!("there are no records of this session: \"{}\"", text::clean(name)))
        .hint("a session is kept from its first call on, until it is older than `records.max_age`")
        .into()
}
