//! Finds the greenroom that runs a command: the one that has the session, else this user's server. Starts a server in the
//! background if none runs.

use std::path::Path;

use greenroom_core::{Owner, settings::Resolved};

use super::{args::CallOptions, background};
use crate::{
    config::ConfigSources,
    control::{ControlEndpoint, GreenroomReport, find_endpoints, print::ambiguous_error, query_all, reports},
    join::{RequiredNetwork, flags_without_effect},
    progress,
    report::CliError,
};

/// The greenroom that makes the calls of this session.
pub async fn find(
    resolved: &Resolved,
    config_sources: &ConfigSources,
    options: &CallOptions,
    session: &str,
    starts_server: bool,
) -> anyhow::Result<ControlEndpoint> {
    let data = &resolved.settings.data_dir;
    if let Some(pid) = options.pid {
        let found = find_endpoints(data).into_iter().find(|endpoint| endpoint.pid == pid);
        let found = found.ok_or_else(|| {
            CliError::unreachable(format!("no greenroom runs as process {pid}"))
                .hint("`greenroom status` shows which there are")
        })?;
        return use_running(resolved, found);
    }
    if let Some(found) = running(data, session).await? {
        return use_running(resolved, found);
    }
    if !starts_server {
        return Err(CliError::failure(format!("no such session: \"{session}\""))
            .hint("no greenroom server is running")
            .into());
    }
    background::start(resolved, config_sources, session).await
}

/// A server that runs already, unless its network policy is not the one that the user has set for this command.
pub(super) fn use_running(resolved: &Resolved, found: ControlEndpoint) -> anyhow::Result<ControlEndpoint> {
    let pid = found.pid;
    if let Some(network) = RequiredNetwork::new(resolved)
        && !network.is_met_by(&found)
    {
        let what = format!(
            "greenroom runs already (pid {pid}), with another network policy than `{}` sets",
            network.origin
        );
        let hint = format!("`kill {pid}` ends it, and the next command starts one with this policy");
        return Err(CliError::failure(what).hint(hint).into());
    }
    note_flags_without_effect(resolved, pid);
    Ok(found)
}

/// Tells the user which flags of the command only a server that the command starts would have.
fn note_flags_without_effect(resolved: &Resolved, pid: u32) {
    for flag in flags_without_effect(resolved) {
        progress::note(&format!(
            "note: {flag} has no effect: the server (pid {pid}) runs already, and its settings apply; `kill {pid}` ends it, and the next command starts a new one"
        ));
    }
}

/// The greenroom that runs already and suits this session, if there is one.
pub(super) async fn running(data: &Path, session: &str) -> Result<Option<ControlEndpoint>, CliError> {
    let endpoints = find_endpoints(data);
    match endpoints.as_slice() {
        [] => return Ok(None),
        // Only one server runs: use it without asking it for its sessions.
        [only] if only.server.is_some() => return Ok(Some(only.clone())),
        _ => {}
    }
    let outcomes = query_all(data).await;
    let local = Owner::local().to_string();
    let has_session = |report: &&GreenroomReport| {
        report.sessions.iter().any(|open| open.owner == local && open.id.as_deref() == Some(session))
    };
    let with_session: Vec<_> = reports(&outcomes).filter(has_session).collect();
    let servers: Vec<_> = match with_session.is_empty() {
        true => reports(&outcomes).filter(|report| report.endpoint.server.is_some()).collect(),
        false => with_session,
    };
    match servers.as_slice() {
        [] => match endpoints.iter().find(|endpoint| endpoint.server.is_some()) {
            Some(silent) => {
                Err(CliError::unreachable(format!("the server (pid {}) does not answer", silent.pid))
                    .hint(format!("`kill {}` ends it, and the next command starts a new one", silent.pid)))
            }
            None => Ok(None),
        },
        [only] => Ok(Some(only.endpoint.clone())),
        several => {
            let what = format!("several greenrooms could run this command in session \"{session}\"");
            Err(ambiguous_error(&what, several.iter().copied()).into_usage())
        }
    }
}
