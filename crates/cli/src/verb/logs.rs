//! `greenroom logs`: what running greenrooms logged lately; with `--follow`, what they log from now on too. With
//! `--session` it prints a session's timeline instead, by [`timeline`]; with `--audit` the audit log, by [`audit`].
//!
//! With `--json` each line is a JSON object. `--follow` ends when all greenrooms that ran at its beginning have ended.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use bytes::BytesMut;
use greenroom_core::settings::Resolved;
use greenroom_gateway::control::LogLine;
use http_body_util::BodyExt;
use serde::Serialize;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use super::{audit, timeline};
use crate::{
    control::{
        ANSWER_TIMEOUT, ControlClient, ControlEndpoint, ControlError, find_endpoints, none_running_message,
    },
    progress,
    report::{self, CliError},
    view,
};

/// The longest line that `read` accepts. A message and a dozen fields of 4 KiB are shorter, even with every character
/// escaped.
const LINE_BYTES_MAX: usize = 512 * 1024;

/// How many lines may wait to be printed. When as many wait, reading pauses, and the greenroom drops lines.
const PRINT_QUEUE: usize = 256;

#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// Show what happened in this session instead: its id, its UUID, or its connection's name (`Claude Code 1`)
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// The owner of that session: `local` by default. With `--audit` alone: only lines of this owner
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,

    /// Show the audit log instead: the connections that the network policy refused, of all greenrooms that use this data
    /// folder, those that have ended too. With `--session`, `--owner` and `--pid` only lines with these
    #[arg(long)]
    pub audit: bool,

    /// Keep printing new lines
    #[arg(long, short)]
    pub follow: bool,

    /// Only the log of the greenroom process with this id
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Print the module that wrote each line, and all its fields
    #[arg(long, short)]
    pub verbose: bool,

    /// Print a JSON object per line
    #[arg(long)]
    pub json: bool,
}

impl LogsArgs {
    /// The owner of the session that is meant.
    pub fn session_owner(&self) -> &str {
        self.owner.as_deref().unwrap_or("local")
    }
}

/// A line for programs: its process, and the line itself.
#[derive(Serialize)]
struct LogLineWithPid<'a> {
    pid: u32,
    #[serde(flatten)]
    line: &'a LogLine,
}

pub async fn run(resolved: &Resolved, args: &LogsArgs) -> anyhow::Result<ExitCode> {
    if args.audit {
        return audit::run(resolved, args).await;
    }
    if args.owner.is_some() && args.session.is_none() {
        return Err(CliError::usage("`--owner` needs `--session` or `--audit`").into());
    }
    if let Some(session) = &args.session {
        return timeline::run(resolved, args, session).await;
    }
    let data = &resolved.settings.data_dir;
    let mut endpoints = find_endpoints(data);
    if let Some(pid) = args.pid {
        endpoints.retain(|endpoint| endpoint.pid == pid);
        if endpoints.is_empty() {
            return Err(CliError::failure(format!("no greenroom runs as pid {pid}"))
                .hint("`greenroom status` shows which run")
                .into());
        }
    }
    if endpoints.is_empty() {
        if !args.json {
            io::stdout().lock().write_all(none_running_message(data).as_bytes())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let print = Printer { several: endpoints.len() > 1, verbose: args.verbose, json: args.json };
    if args.follow { follow(endpoints, print).await } else { recent(endpoints, print).await }
}

/// Prints the lines that the greenrooms keep, in the order of time.
async fn recent(endpoints: Vec<ControlEndpoint>, print: Printer) -> anyhow::Result<ExitCode> {
    let mut readers = LogReaders::start(endpoints, false);
    let mut lines = Vec::new();
    let mut code = ExitCode::SUCCESS;
    while let Some(events) = readers.events.recv().await {
        match events {
            LogEvent::Line(pid, line) => lines.push((pid, line)),
            LogEvent::End(_, Ok(()) | Err(ControlError::NotRunning)) => {}
            LogEvent::End(pid, Err(error)) => code = failed(pid, &error),
        }
    }
    // All times have the same format and time zone, so their texts sort as they do.
    lines.sort_by(|(_, one), (_, other)| time(one).cmp(time(other)));
    for (pid, line) in &lines {
        print.line(*pid, line)?;
    }
    Ok(code)
}

/// Prints the lines that the greenrooms keep, and then new ones as they come.
async fn follow(endpoints: Vec<ControlEndpoint>, print: Printer) -> anyhow::Result<ExitCode> {
    let mut readers = LogReaders::start(endpoints, true);
    let mut code = ExitCode::SUCCESS;
    while let Some(events) = readers.events.recv().await {
        match events {
            LogEvent::Line(pid, line) => print.line(pid, &line)?,
            LogEvent::End(pid, Ok(()) | Err(ControlError::NotRunning)) => {
                progress::note(&format!("pid {pid} has ended"));
            }
            LogEvent::End(pid, Err(error)) => code = failed(pid, &error),
        }
    }
    Ok(code)
}

fn failed(pid: u32, error: &ControlError) -> ExitCode {
    report::problem(&format!("pid {pid}: {error}"), None);
    ExitCode::FAILURE
}

fn time(line: &LogLine) -> &str {
    match line {
        LogLine::Entry { time, .. } => time,
        LogLine::Lost { .. } => "",
    }
}

struct Printer {
    several: bool,
    verbose: bool,
    json: bool,
}

impl Printer {
    fn line(&self, pid: u32, line: &LogLine) -> anyhow::Result<()> {
        let text = if self.json {
            serde_json::to_string(&LogLineWithPid { pid, line })? + "\n"
        } else {
            let pid = self.several.then_some(pid);
            if self.verbose { view::logs::verbose(pid, line) } else { view::logs::line(pid, line) }
        };
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }
}

enum LogEvent {
    Line(u32, LogLine),
    End(u32, Result<(), ControlError>),
}

/// A task for each greenroom that is read. Dropping this ends them.
struct LogReaders {
    events: mpsc::Receiver<LogEvent>,
    _tasks: JoinSet<()>,
}

impl LogReaders {
    fn start(endpoints: Vec<ControlEndpoint>, follow: bool) -> Self {
        let (sender, events) = mpsc::channel(PRINT_QUEUE);
        let mut tasks = JoinSet::new();
        for endpoint in endpoints {
            let sender = sender.clone();
            tasks.spawn(async move {
                let end = if follow {
                    read(&endpoint, "/control/logs?follow=true", &sender).await
                } else {
                    let whole = timeout(ANSWER_TIMEOUT, read(&endpoint, "/control/logs", &sender)).await;
                    whole.unwrap_or(Err(ControlError::Silent(ANSWER_TIMEOUT)))
                };
                let _ = sender.send(LogEvent::End(endpoint.pid, end)).await;
            });
        }
        Self { events, _tasks: tasks }
    }
}

/// Reads the stream to its end. A stream that ends in the middle of a line is no error: its process was killed.
async fn read(
    endpoint: &ControlEndpoint,
    path: &str,
    events: &mpsc::Sender<LogEvent>,
) -> Result<(), ControlError> {
    let mut client = ControlClient::open(&endpoint.socket).await?;
    let mut body = client.stream(path).await?;
    let mut text = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        text.extend_from_slice(&data);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line = text.split_to(end + 1);
            let line =
                serde_json::from_slice(&line).map_err(|error| ControlError::Broken(error.to_string()))?;
            if events.send(LogEvent::Line(endpoint.pid, line)).await.is_err() {
                return Ok(());
            }
        }
        if text.len() > LINE_BYTES_MAX {
            return Err(ControlError::Broken(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
    }
    Ok(())
}
