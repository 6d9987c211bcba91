//! `greenroom sessions`: lists the sessions of every running greenroom, shows one, closes one.

use std::{fmt::Write as _, path::Path, process::ExitCode, time::Duration};

use greenroom_core::{likeness::nearest, settings::Resolved};
use greenroom_gateway::control::{ClosedSession, OpenSession};
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    config::ProcessEnv,
    control::{ControlClient, ControlError, GreenroomReport, QueryOutcome, print, query_all, reports},
    progress,
    report::CliError,
    view::{self, terminal::Terminal, text},
};

/// How long closing may take: a greenroom answers within 8 s, whatever its browser does.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub verb: Option<SessionsVerb>,

    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum SessionsVerb {
    /// List the sessions of every running greenroom process (the default)
    List,
    /// Show a session
    Show(SessionArgs),
    /// Close a session and free its browser; its agent learns of it with its next call
    Close(SessionArgs),
}

#[derive(Debug, clap::Args)]
pub struct SessionArgs {
    /// The session: its id, its key, or for a connection's default session the connection's name (`Claude Code 1`)
    pub id: String,

    /// Only sessions of the greenroom process with this id
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Only sessions of this owner
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
}

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &SessionsArgs) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let outcomes = query_all(data).await;
    match args.verb.as_ref().unwrap_or(&SessionsVerb::List) {
        SessionsVerb::List => list(data, &outcomes, env, args.json),
        SessionsVerb::Show(which) => show(data, &outcomes, which, args.json),
        SessionsVerb::Close(which) => close(data, &outcomes, which, args.json).await,
    }
}

fn list(data: &Path, outcomes: &[QueryOutcome], env: &ProcessEnv, json: bool) -> anyhow::Result<ExitCode> {
    let all: Vec<_> = sessions(outcomes).map(|(report, session)| (report.status.pid, session)).collect();
    print::list(data, outcomes, &all, json, || match all.is_empty() {
        true => "no sessions\n".to_owned(),
        false => view::sessions::sessions(&all, "", Terminal::stdout(env)),
    })
}

fn show(data: &Path, outcomes: &[QueryOutcome], args: &SessionArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (report, session) = select_session(data, outcomes, args)?;
    let pid = report.status.pid;
    print::item(pid, session, json, || view::sessions::session(pid, &report.status.kind, session))
}

async fn close(
    data: &Path,
    outcomes: &[QueryOutcome],
    args: &SessionArgs,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (report, session) = select_session(data, outcomes, args)?;
    let pid = report.status.pid;
    let name = text::escape(&session.label());
    let path = format!("/control/sessions/{}", utf8_percent_encode(&session.key, NON_ALPHANUMERIC));
    let closing = async {
        let mut client = ControlClient::open(&report.endpoint.socket).await?;
        client.request::<ClosedSession>(Method::DELETE, &path, CLOSE_TIMEOUT).await
    };
    let closed =
        progress::step(&format!("closing \"{name}\""), closing).await.map_err(|error| match error {
            ControlError::Refused(problem) if problem.code == "no_session" => {
                CliError::failure(format!("the session was closed meanwhile: \"{name}\""))
            }
            error => CliError::failure(format!("cannot close \"{name}\" (pid {pid}): {error}")),
        })?;
    print::item(pid, &closed, json, || match closed.gone {
        true => format!("closed \"{name}\" (pid {pid})\n"),
        false => format!("closed \"{name}\" (pid {pid}); its browser is still ending\n"),
    })
}

fn sessions(outcomes: &[QueryOutcome]) -> impl Iterator<Item = (&GreenroomReport, &OpenSession)> {
    reports(outcomes).flat_map(|report| report.sessions.iter().map(move |session| (report, session)))
}

/// The number in `connection 1`. Programs build this name from the number that `--json` prints.
pub(super) fn connection_number(given: &str) -> Option<u64> {
    given.strip_prefix("connection ")?.parse().ok()
}

/// The one session that the arguments select.
fn select_session<'a>(
    data: &Path,
    outcomes: &'a [QueryOutcome],
    args: &SessionArgs,
) -> Result<(&'a GreenroomReport, &'a OpenSession), CliError> {
    let candidates: Vec<_> = sessions(outcomes)
        .filter(|(report, _)| args.pid.is_none_or(|pid| pid == report.status.pid))
        .filter(|(_, session)| args.owner.as_ref().is_none_or(|owner| *owner == session.owner))
        .collect();
    let matching = |named: &dyn Fn(&OpenSession) -> bool| {
        candidates.iter().copied().filter(|(_, session)| named(session)).collect::<Vec<_>>()
    };
    let mut found = matching(&|session| session.label() == args.id);
    if let Some(number) = connection_number(&args.id).filter(|_| found.is_empty()) {
        found = matching(&|session| session.id.is_none() && session.connection == Some(number));
    }
    if found.is_empty() {
        found = matching(&|session| session.key == args.id);
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(missing(data, outcomes, &candidates, &args.id)),
        several => Err(ambiguous(several, &args.id)),
    }
}

fn missing(
    data: &Path,
    outcomes: &[QueryOutcome],
    candidates: &[(&GreenroomReport, &OpenSession)],
    wanted: &str,
) -> CliError {
    let error = CliError::failure(format!("no such session: \"{}\"", text::escape(wanted)));
    if let Some(why) = print::why_missing(data, outcomes) {
        return error.hint(why);
    }
    match nearest(wanted, candidates.iter().map(|(_, session)| session.label())) {
        Some(nearest) => error.hint(format!("did you mean \"{}\"?", text::escape(&nearest))),
        None => error.hint("`greenroom sessions` shows what there is"),
    }
}

fn ambiguous(several: &[(&GreenroomReport, &OpenSession)], wanted: &str) -> CliError {
    let mut message = format!("several sessions are called \"{}\":", text::escape(wanted));
    for (report, session) in several {
        let _ = write!(
            message,
            "\n  pid {}, owner {}, key {}",
            report.status.pid,
            text::escape(&session.owner),
            text::id(&session.key)
        );
    }
    let values_differ = |part: &dyn Fn(&(&GreenroomReport, &OpenSession)) -> String| {
        several.iter().any(|one| part(one) != part(&several[0]))
    };
    let how = if values_differ(&|(report, _)| report.status.pid.to_string()) {
        "choose one with `--pid`"
    } else if values_differ(&|(_, session)| session.owner.clone()) {
        "choose one with `--owner`"
    } else {
        "give the key of the one you mean"
    };
    CliError::failure(message).hint(how)
}
