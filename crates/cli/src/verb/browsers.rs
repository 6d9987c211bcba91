//! `greenroom browsers`: lists the attached browsers of every running greenroom, attaches a browser, and reconnects or
//! removes one.

use std::{path::Path, process::ExitCode, time::Duration};

use greenroom_core::settings::Resolved;
use greenroom_gateway::Browser;
use hyper::Method;
use serde_json::{Value, json};

use crate::{
    config::ProcessEnv,
    control::{ControlClient, ControlError, GreenroomReport, QueryOutcome, print, query_all, reports},
    progress,
    report::CliError,
    view::{self, terminal::Terminal, text},
};

/// How long it may take to connect a browser, which may run its start command, or to remove one. The greenroom gives up
/// earlier.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

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

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &BrowsersArgs) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let outcomes = query_all(data).await;
    match args.verb.as_ref().unwrap_or(&BrowsersVerb::List) {
        BrowsersVerb::List => list(data, env, args, &outcomes),
        BrowsersVerb::Reconnect { which } => {
            let (report, browser) = select_browser(data, &outcomes, which, args)?;
            let path = format!("/api/browsers/{}/reconnect", browser.index);
            let reconnected = send_command(report, Method::POST, path, Value::Null);
            let reconnected =
                progress::step(&format!("connecting browser {}", browser.index), reconnected).await?;
            print_browser(report, args, &reconnected, view::browsers::browser)
        }
        BrowsersVerb::Connect(AttachArgs { url, label, tags, engine }) => {
            let report = only_report(data, &outcomes, args)?;
            let mut request = json!({ "url": url, "tags": tags });
            // Parameters that were not given are not sent.
            for (name, value) in [("label", label), ("engine", engine)] {
                if let Some(value) = value {
                    request[name] = json!(value);
                }
            }
            let attached = send_command(report, Method::POST, "/api/browsers".to_owned(), request);
            let attached = progress::step("connecting the browser", attached).await?;
            print_browser(report, args, &attached, view::browsers::browser)
        }
        BrowsersVerb::Disconnect { which } => {
            let (report, browser) = select_browser(data, &outcomes, which, args)?;
            let path = format!("/api/browsers/{}", browser.index);
            let detached = send_command(report, Method::DELETE, path, Value::Null);
            let detached = progress::step(&format!("removing browser {}", browser.index), detached).await?;
            print_browser(report, args, &detached, view::browsers::detached)
        }
    }
}

fn list(
    data: &Path,
    env: &ProcessEnv,
    args: &BrowsersArgs,
    outcomes: &[QueryOutcome],
) -> anyhow::Result<ExitCode> {
    let all: Vec<_> =
        browsers(outcomes, args).map(|(report, browser)| (report.status.pid, browser)).collect();
    print::list(data, outcomes, &all, args.json, || match all.is_empty() {
        true => "no attached browsers\n".to_owned(),
        false => view::browsers::browsers(&all, "", Terminal::stdout(env)),
    })
}

fn print_browser(
    report: &GreenroomReport,
    args: &BrowsersArgs,
    browser: &Browser,
    for_people: impl FnOnce(u32, &Browser) -> String,
) -> anyhow::Result<ExitCode> {
    let pid = report.status.pid;
    print::item(pid, browser, args.json, || for_people(pid, browser))
}

async fn send_command(
    report: &GreenroomReport,
    method: Method,
    path: String,
    body: Value,
) -> Result<Browser, CliError> {
    let request = async {
        let mut client = ControlClient::open(&report.endpoint.socket).await?;
        client.send_json(method, &path, &body, COMMAND_TIMEOUT).await
    };
    request.await.map_err(|error| match error {
        ControlError::Refused(problem) => {
            let failure = CliError::failure(text::escape(&problem.message));
            match problem.hint {
                Some(hint) => failure.hint(text::escape(&hint)),
                None => failure,
            }
        }
        error => CliError::failure(format!("greenroom (pid {}): {error}", report.status.pid)),
    })
}

/// The greenrooms that the arguments select.
fn selected_reports<'a>(
    outcomes: &'a [QueryOutcome],
    args: &BrowsersArgs,
) -> impl Iterator<Item = &'a GreenroomReport> {
    let pid = args.pid;
    reports(outcomes).filter(move |report| pid.is_none_or(|pid| pid == report.status.pid))
}

fn browsers<'a>(
    outcomes: &'a [QueryOutcome],
    args: &BrowsersArgs,
) -> impl Iterator<Item = (&'a GreenroomReport, &'a Browser)> {
    selected_reports(outcomes, args)
        .flat_map(|report| report.status.browsers.iter().map(move |browser| (report, browser)))
}

/// The greenroom to attach to, if exactly one runs.
fn only_report<'a>(
    data: &Path,
    outcomes: &'a [QueryOutcome],
    args: &BrowsersArgs,
) -> Result<&'a GreenroomReport, CliError> {
    let selected_reports: Vec<_> = selected_reports(outcomes, args).collect();
    match selected_reports.as_slice() {
        [one] => Ok(*one),
        [] => Err(not_found(data, outcomes, CliError::failure("there is no greenroom to attach it to"))),
        several => Err(print::ambiguous_error("several greenrooms run", several.iter().copied())),
    }
}

/// The one browser that the arguments select.
fn select_browser<'a>(
    data: &Path,
    outcomes: &'a [QueryOutcome],
    name: &str,
    args: &BrowsersArgs,
) -> Result<(&'a GreenroomReport, &'a Browser), CliError> {
    let is_called =
        |browser: &Browser| browser.index.to_string() == name || browser.label.as_deref() == Some(name);
    let found: Vec<_> = browsers(outcomes, args).filter(|(_, browser)| is_called(browser)).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(not_found(
            data,
            outcomes,
            CliError::failure(format!("no such browser: \"{}\"", text::escape(name))),
        )),
        several => {
            let what = format!("several greenrooms have a browser \"{}\"", text::escape(name));
            Err(print::ambiguous_error(&what, several.iter().map(|(report, _)| *report)))
        }
    }
}

fn not_found(data: &Path, outcomes: &[QueryOutcome], error: CliError) -> CliError {
    let why = print::why_missing(data, outcomes);
    error.hint(why.unwrap_or_else(|| "`greenroom browsers` shows what there is".to_owned()))
}
