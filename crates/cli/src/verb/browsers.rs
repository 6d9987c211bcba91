//! `greenroom browsers`: lists the attached browsers of every running greenroom, and commands to one of them: reconnect it,
//! attach another, remove one.

use std::{path::Path, process::ExitCode, time::Duration};

use greenroom_core::settings::Resolved;
use greenroom_gateway::Browser;
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    config::ProcessEnv,
    control::{Answered, AskError, Asker, Look, answers, look, print},
    progress,
    report::Hinted,
    view::{self, terminal::Terminal, words},
};

/// How long connecting a browser, which may start it, or removing one may take. Its greenroom gives up earlier.
const DONE_WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub struct BrowsersArgs {
    #[command(subcommand)]
    pub verb: Option<BrowsersVerb>,

    /// Only browsers of the greenroom process with this id
    #[arg(long, value_name = "PID", global = true)]
    pub pid: Option<u32>,

    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum BrowsersVerb {
    /// List the attached browsers of every running greenroom process (the default)
    List,
    /// Connect to a browser now; if it does not answer, run its start command
    Reconnect {
        /// The browser's index or label
        which: String,
    },
    /// Attach a running browser
    Connect(AttachArgs),
    /// Detach a browser, which keeps running
    Disconnect {
        /// The browser's index or label
        which: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// The address of the browser's debugger: http://host:port, or ws://…
    pub url: String,

    /// A name for the browser, besides its index
    #[arg(long)]
    pub label: Option<String>,

    /// A tag, by which a bulk call can reach several browsers; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,

    /// The engine that drives the browser: playwright or devtools
    #[arg(long = "with", value_name = "ENGINE")]
    pub engine: Option<String>,
}

pub async fn run(
    resolved: &Resolved,
    surroundings: &ProcessEnv,
    args: &BrowsersArgs,
) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let looks = look(data).await;
    match args.verb.as_ref().unwrap_or(&BrowsersVerb::List) {
        BrowsersVerb::List => list(data, surroundings, args, &looks),
        BrowsersVerb::Reconnect { which } => {
            let (answered, browser) = self::which(data, &looks, which, args)?;
            let path = format!("/api/browsers/{}/reconnect", browser.index);
            let again = tell(answered, Method::POST, path, Value::Null);
            let again = progress::step(&format!("connecting browser {}", browser.index), again).await?;
            tell_of(answered, args, &again, view::browsers::browser)
        }
        BrowsersVerb::Connect(AttachArgs { url, label, tags, engine }) => {
            let answered = the_only(data, &looks, args)?;
            let mut asked = json!({ "url": url, "tags": tags });
            // Parameters that were not given are not sent.
            for (name, value) in [("label", label), ("engine", engine)] {
                if let Some(value) = value {
                    asked[name] = json!(value);
                }
            }
            let attached = tell(answered, Method::POST, "/api/browsers".to_owned(), asked);
            let attached = progress::step("connecting the browser", attached).await?;
            tell_of(answered, args, &attached, view::browsers::browser)
        }
        BrowsersVerb::Disconnect { which } => {
            let (answered, browser) = self::which(data, &looks, which, args)?;
            let path = format!("/api/browsers/{}", browser.index);
            let left = tell(answered, Method::DELETE, path, Value::Null);
            let left = progress::step(&format!("removing browser {}", browser.index), left).await?;
            tell_of(answered, args, &left, view::browsers::left)
        }
    }
}

fn list(
    data: &Path,
    surroundings: &ProcessEnv,
    args: &BrowsersArgs,
    looks: &[Look],
) -> anyhow::Result<ExitCode> {
    let all: Vec<_> =
        browsers(looks, args).map(|(answered, browser)| (answered.status.pid, browser)).collect();
    print::list((data, looks), &all, args.json, || match all.is_empty() {
        true => "no attached browsers\n".to_owned(),
        false => view::browsers::browsers(&all, "", Terminal::stdout(surroundings)),
    })
}

fn tell_of(
    answered: &Answered,
    args: &BrowsersArgs,
    browser: &Browser,
    for_people: impl FnOnce(u32, &Browser) -> String,
) -> anyhow::Result<ExitCode> {
    let pid = answered.status.pid;
    print::one(pid, browser, args.json, || for_people(pid, browser))
}

async fn tell(answered: &Answered, method: Method, path: String, body: Value) -> Result<Browser, Hinted> {
    let asked = async {
        let mut asker = Asker::open(&answered.neighbour.socket).await?;
        asker.tell(method, &path, &body, DONE_WITHIN).await
    };
    asked.await.map_err(|error| match error {
        AskError::Refused(problem) => {
            let failure = Hinted::failure(words::clean(&problem.message));
            match problem.hint {
                Some(hint) => failure.hint(words::clean(&hint)),
                None => failure,
            }
        }
        error => Hinted::failure(format!("greenroom (pid {}): {error}", answered.status.pid)),
    })
}

/// The greenrooms that the arguments select.
fn considered<'a>(looks: &'a [Look], args: &BrowsersArgs) -> impl Iterator<Item = &'a Answered> {
    let pid = args.pid;
    answers(looks).filter(move |answered| pid.is_none_or(|pid| pid == answered.status.pid))
}

fn browsers<'a>(looks: &'a [Look], args: &BrowsersArgs) -> impl Iterator<Item = (&'a Answered, &'a Browser)> {
    considered(looks, args)
        .flat_map(|answered| answered.status.browsers.iter().map(move |browser| (answered, browser)))
}

/// The greenroom to attach to, if exactly one runs.
fn the_only<'a>(data: &Path, looks: &'a [Look], args: &BrowsersArgs) -> Result<&'a Answered, Hinted> {
    let considered: Vec<_> = considered(looks, args).collect();
    match considered.as_slice() {
        [one] => Ok(*one),
        [] => Err(none(data, looks, Hinted::failure("there is no greenroom to attach it to"))),
        several => Err(print::several("several greenrooms run", several.iter().copied())),
    }
}

/// The one browser that the arguments select.
fn which<'a>(
    data: &Path,
    looks: &'a [Look],
    name: &str,
    args: &BrowsersArgs,
) -> Result<(&'a Answered, &'a Browser), Hinted> {
    let is_called =
        |browser: &Browser| browser.index.to_string() == name || browser.label.as_deref() == Some(name);
    let found: Vec<_> = browsers(looks, args).filter(|(_, browser)| is_called(browser)).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(none(data, looks, Hinted::failure(format!("no such browser: \"{}\"", words::clean(name))))),
        several => {
            let what = format!("several greenrooms have a browser \"{}\"", words::clean(name));
            Err(print::several(&what, several.iter().map(|(answered, _)| *answered)))
        }
    }
}

fn none(data: &Path, looks: &[Look], error: Hinted) -> Hinted {
    let why = print::why_missing(data, looks);
    error.hint(why.unwrap_or_else(|| "`greenroom browsers` shows what there is".to_owned()))
}
