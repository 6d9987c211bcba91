//! `greenroom sessions`: lists the sessions of every running greenroom, shows one, closes one.

use std::{fmt::Write as _, path::Path, process::ExitCode, time::Duration};

use greenroom_core::{likeness::nearest, settings::Resolved};
use greenroom_gateway::control::{ClosedSession, OpenSession};
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    config::ProcessEnv,
    control::{Answered, AskError, Asker, Look, answers, look, print},
    progress,
    report::Hinted,
    view::{self, terminal::Terminal, words},
};

/// How long closing may take: a greenroom answers within 8 s, whatever its browser does.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

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
    Show(WhichArgs),
    /// Close a session and free its browser; its agent learns of it with its next call
    Close(WhichArgs),
}

#[derive(Debug, clap::Args)]
pub struct WhichArgs {
    /// The session: its id, its key, or for a connection's default session the connection's name (`Claude Code 1`)
    pub id: String,

    /// Only sessions of the greenroom process with this id
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Only sessions of this owner
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
}

pub async fn run(
    resolved: &Resolved,
    surroundings: &ProcessEnv,
    args: &SessionsArgs,
) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let looks = look(data).await;
    match args.verb.as_ref().unwrap_or(&SessionsVerb::List) {
        SessionsVerb::List => list(data, &looks, surroundings, args.json),
        SessionsVerb::Show(which) => show(data, &looks, which, args.json),
        SessionsVerb::Close(which) => close(data, &looks, which, args.json).await,
    }
}

fn list(data: &Path, looks: &[Look], surroundings: &ProcessEnv, json: bool) -> anyhow::Result<ExitCode> {
    let all: Vec<_> = sessions(looks).map(|(answered, session)| (answered.status.pid, session)).collect();
    print::list((data, looks), &all, json, || match all.is_empty() {
        true => "no sessions\n".to_owned(),
        false => view::sessions::sessions(&all, "", Terminal::stdout(surroundings)),
    })
}

fn show(data: &Path, looks: &[Look], args: &WhichArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (answered, session) = which(data, looks, args)?;
    let pid = answered.status.pid;
    print::one(pid, session, json, || view::sessions::session(pid, &answered.status.kind, session))
}

async fn close(data: &Path, looks: &[Look], args: &WhichArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (answered, session) = which(data, looks, args)?;
    let pid = answered.status.pid;
    let name = words::clean(&session.label());
    let path = format!("/control/sessions/{}", utf8_percent_encode(&session.key, NON_ALPHANUMERIC));
    let asked = async {
        let mut asker = Asker::open(&answered.neighbour.socket).await?;
        asker.ask::<ClosedSession>(Method::DELETE, &path, CLOSE_WITHIN).await
    };
    let closed =
        progress::step(&format!("closing \"{name}\""), asked).await.map_err(|error| match error {
            AskError::Refused(problem) if problem.code == "no_session" => {
                Hinted::failure(format!("the session was closed meanwhile: \"{name}\""))
            }
            error => Hinted::failure(format!("cannot close \"{name}\" (pid {pid}): {error}")),
        })?;
    print::one(pid, &closed, json, || match closed.gone {
        true => format!("closed \"{name}\" (pid {pid})\n"),
        false => format!("closed \"{name}\" (pid {pid}); its browser is still ending\n"),
    })
}

fn sessions(looks: &[Look]) -> impl Iterator<Item = (&Answered, &OpenSession)> {
    answers(looks).flat_map(|answered| answered.sessions.iter().map(move |session| (answered, session)))
}

/// A connection's number, for programs that read it from `--json`: `connection 1`.
pub(super) fn number_of(given: &str) -> Option<u64> {
    given.strip_prefix("connection ")?.parse().ok()
}

/// The one session that the arguments select.
fn which<'a>(
    data: &Path,
    looks: &'a [Look],
    args: &WhichArgs,
) -> Result<(&'a Answered, &'a OpenSession), Hinted> {
    let considered: Vec<_> = sessions(looks)
        .filter(|(answered, _)| args.pid.is_none_or(|pid| pid == answered.status.pid))
        .filter(|(_, session)| args.owner.as_ref().is_none_or(|owner| *owner == session.owner))
        .collect();
    let called = |named: &dyn Fn(&OpenSession) -> bool| {
        considered.iter().copied().filter(|(_, session)| named(session)).collect::<Vec<_>>()
    };
    let mut found = called(&|session| session.label() == args.id);
    if let Some(number) = number_of(&args.id).filter(|_| found.is_empty()) {
        found = called(&|session| session.id.is_none() && session.connection == Some(number));
    }
    if found.is_empty() {
        found = called(&|session| session.key == args.id);
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(missing(data, looks, &considered, &args.id)),
        several => Err(ambiguous(several, &args.id)),
    }
}

fn missing(data: &Path, looks: &[Look], considered: &[(&Answered, &OpenSession)], wanted: &str) -> Hinted {
    let error = Hinted::failure(format!("no such session: \"{}\"", words::clean(wanted)));
    if let Some(why) = print::why_missing(data, looks) {
        return error.hint(why);
    }
    match nearest(wanted, considered.iter().map(|(_, session)| session.label())) {
        Some(nearest) => error.hint(format!("did you mean \"{}\"?", words::clean(&nearest))),
        None => error.hint("`greenroom sessions` shows what there is"),
    }
}

fn ambiguous(several: &[(&Answered, &OpenSession)], wanted: &str) -> Hinted {
    let mut message = format!("several sessions are called \"{}\":", words::clean(wanted));
    for (answered, session) in several {
        let _ = write!(
            message,
            "\n  pid {}, owner {}, key {}",
            answered.status.pid,
            words::clean(&session.owner),
            words::id(&session.key)
        );
    }
    let differ = |part: &dyn Fn(&(&Answered, &OpenSession)) -> String| {
        several.iter().any(|one| part(one) != part(&several[0]))
    };
    let how = if differ(&|(answered, _)| answered.status.pid.to_string()) {
        "choose one with `--pid`"
    } else if differ(&|(_, session)| session.owner.clone()) {
        "choose one with `--owner`"
    } else {
        "give the key of the one you mean"
    };
    Hinted::failure(message).hint(how)
}
