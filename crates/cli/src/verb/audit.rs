//! `greenroom logs --audit`: the audit log of all greenrooms that use this data folder. It reads the files, so no greenroom
//! need run. With `--json` each line is printed as it was written.
//!
//! No process announces what another one has written, so `--follow` reads again at intervals, until it is interrupted.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use greenroom_core::{audit::AuditLine, plural::count, settings::Resolved};
use greenroom_store::{AuditReader, AuditText};

use super::{logs::LogsArgs, timeline};
use crate::{app::audit, progress, view};

/// How long `--follow` waits before it reads again. Short enough to feel live, long enough to cost nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn run(resolved: &Resolved, args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let folder = audit::folder(&resolved.settings);
    let session = match &args.session {
        Some(given) => Some(timeline::stored_name(&resolved.settings.data_dir, args, given).await),
        None => None,
    };
    let filter = AuditFilter { session, owner: args.owner.as_deref(), pid: args.pid };
    let mut reader = AuditReader::new(folder);
    loop {
        let mut stdout = io::stdout().lock();
        let context = || format!("cannot read the audit log in `{}`", folder.display());
        while let Some(next) = reader.next_line().with_context(context)? {
            if filter.matches(&next.line) {
                stdout.write_all(shown(&next, args.json).as_bytes())?;
            }
        }
        stdout.flush()?;
        drop(stdout);
        if !args.follow {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    if reader.unreadable() > 0 {
        let lines = count(usize::try_from(reader.unreadable()).unwrap_or(usize::MAX), "line");
        progress::note(&format!("{lines} left out: a process or the disk broke them off"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Which lines are shown. A filter that is not set matches all.
struct AuditFilter<'a> {
    session: Option<String>,
    owner: Option<&'a str>,
    pid: Option<u32>,
}

impl AuditFilter<'_> {
    fn matches(&self, line: &AuditLine) -> bool {
        let actor = &line.event.actor;
        self.session.as_deref().is_none_or(|session| actor.session.as_deref() == Some(session))
            && self.owner.is_none_or(|owner| actor.owner.as_deref() == Some(owner))
            && self.pid.is_none_or(|pid| line.pid == pid)
    }
}

fn shown(text: &AuditText, json: bool) -> String {
    if json { format!("{}\n", text.text) } else { view::audit::line(&text.line) }
}
