//! `greenroom mcp`: serves one agent over stdin and stdout, through a running server if there is one.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use greenroom_core::{
    ApiKeySecret,
    settings::{API_KEY_VARIABLE, Origin, Resolved},
};
use greenroom_gateway::{
    control::{ProcessKind, RecentLog},
    front::{
        self, Secret,
        relay::{Relay, ServerConnector, ServerStream},
    },
};
use greenroom_mcp::stdio;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    config::ProcessEnv,
    join::{RequiredNetwork, ServerLocation, flags_without_effect},
    parent, progress,
    report::CliError,
    signals::Signals,
};

/// The largest key file: a key and the end of its line, with room to spare.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// The note for a person who started `greenroom mcp` in a terminal.
const TERMINAL_NOTE: &str = "greenroom mcp speaks MCP with a client over stdin and stdout; clients start it themselves, and there is nothing to type here.
To connect a client: `greenroom setup claude` (or cursor, vscode, codex). To serve many over HTTP: `greenroom serve`.
To see it at work: `greenroom demo`. Ctrl-C ends this.";

#[derive(Debug, clap::Args)]
pub struct McpArgs {
    /// Join the greenroom server at this URL instead of the one that uses the same data folder
    #[arg(long, value_name = "URL", conflicts_with = "standalone")]
    pub server: Option<String>,

    /// Read the API key for --server from this file; GREENROOM_API_KEY has it otherwise
    #[arg(long, value_name = "FILE", requires = "server")]
    pub key_file: Option<PathBuf>,

    /// Start browsers in this process instead of joining a running server; --browserUrl and --wsEndpoint imply it
    #[arg(long)]
    pub standalone: bool,
}

pub async fn run(
    resolved: &Resolved,
    env: &ProcessEnv,
    recent_log: Arc<RecentLog>,
    args: &McpArgs,
) -> anyhow::Result<ExitCode> {
    if std::io::stdin().is_terminal() {
        progress::note(TERMINAL_NOTE);
    }
    let stop = Signals::listen(false)?.stop;
    parent::watch(stop.clone());
    if let Some(url) = &args.server {
        let key = server_key(env, args.key_file.as_deref())?;
        let has_key = key.is_some();
        let location = ServerLocation::url(url, key)
            .map_err(|why| CliError::usage(format!("`--server {}`: {why}", without_user(url))))?;
        if has_key && location.is_readable_on_the_way() {
            tracing::warn!("the API key goes to `{url}` without TLS, so everyone on the way can read it");
        }
        match RequiredNetwork::new(resolved).map(|network| network.origin) {
            Some(origin @ Origin::Flag(_)) => {
                return Err(CliError::usage(format!("`{origin}` has no effect on the server at `{url}`"))
                    .hint("give it to that server, or leave `--server` out")
                    .into());
            }
            Some(origin) => tracing::warn!(
                "the network policy that `{origin}` sets has no effect: the server at `{url}` has its own"
            ),
            None => {}
        }
        let hint = "start one there with `greenroom serve`, or leave `--server` out";
        let first = tokio::select! {
            first = location.connect() => first.map_err(|why| cannot_join(&why, hint))?,
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        };
        return join(resolved, env, location, first, stop).await;
    }
    let network = RequiredNetwork::new(resolved);
    let location = ServerLocation::DataFolder(resolved.settings.data_dir.clone(), network);
    // A user who names a browser on this command line wants that browser, which the server may not know.
    let names_browsers = (0..resolved.settings.browsers.len())
        .any(|at| matches!(resolved.browser_origin(at), Origin::Flag(_)));
    // A server that is ending or hangs may still have its file; then this process goes on without the server.
    if !args.standalone && !names_browsers && location.has_server() {
        let first = tokio::select! {
            first = location.connect() => first,
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        };
        match first {
            Ok(first) => return join(resolved, env, location, first, stop).await,
            Err(why) => tracing::warn!(why, "cannot join the running server; going on without it"),
        }
    }
    if !args.standalone
        && let Some((pid, origin)) = location.unsuitable_server()
    {
        tracing::warn!(
            "a server runs (pid {pid}) with another network policy than `{origin}` sets; going on without it"
        );
    }
    stand_alone(resolved, env, recent_log, stop).await
}

async fn stand_alone(
    resolved: &Resolved,
    env: &ProcessEnv,
    recent_log: Arc<RecentLog>,
    stop: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let mut app = App::build(ProcessKind::Stdio, &resolved.settings.without_keys(), env).await?;
    app.open_control(ProcessKind::Stdio, None, None, recent_log, axum::Router::new());
    app.warm_up();
    let stdio = stdio::open(std::io::stdin(), std::io::stdout()).context("cannot serve stdin and stdout")?;
    front::stdio::serve(app.gateway.clone(), stdio, stop).await;
    app.shut_down(std::future::ready(())).await;
    Ok(ExitCode::SUCCESS)
}

async fn join(
    resolved: &Resolved,
    env: &ProcessEnv,
    location: ServerLocation,
    first: Box<dyn ServerStream>,
    stop: CancellationToken,
) -> anyhow::Result<ExitCode> {
    for flag in flags_without_effect(resolved) {
        tracing::warn!(
            "{flag} has no effect: this process joined a running server, whose settings apply; --standalone joins none"
        );
    }
    let relay = Relay { servers: location, secret: Secret::random(), folder: env.working_dir.clone() };
    let stdio = stdio::open(std::io::stdin(), std::io::stdout()).context("cannot serve stdin and stdout")?;
    let hint = "if it hangs, restart it, or give --standalone to do without";
    relay.run(first, stdio, stop).await.map_err(|why| cannot_join(&why, hint))?;
    Ok(ExitCode::SUCCESS)
}

/// The key for a server: from a file, or from the environment. Never from the command line, which every user can read.
fn server_key(env: &ProcessEnv, file: Option<&Path>) -> anyhow::Result<Option<ApiKeySecret>> {
    let (text, source) = match file {
        Some(path) => {
            let path = env.working_dir.join(path);
            let text = greenroom_files::read_text(&path, KEY_FILE_BYTES_MAX);
            let text = text.map_err(|error| {
                CliError::usage(format!("cannot read the key file `{}`: {error}", path.display()))
            })?;
            (text, format!("`{}`", path.display()))
        }
        None => match env.variable(API_KEY_VARIABLE) {
            None => return Ok(None),
            Some(text) if text.is_empty() => return Ok(None),
            Some(text) => (text.to_string_lossy().into_owned(), API_KEY_VARIABLE.to_owned()),
        },
    };
    let key = ApiKeySecret::parse(text.trim());
    Ok(Some(key.map_err(|why| CliError::usage(format!("the API key in {source} cannot be used: {why}")))?))
}

/// A URL for a message, without a user or password: someone may have put a key there.
fn without_user(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}***{}", &url[..scheme + 3], &url[at..]),
        _ => url.to_owned(),
    }
}

fn cannot_join(why: &str, hint: &str) -> anyhow::Error {
    CliError::failure(format!("cannot join a greenroom server: {why}")).hint(hint).into()
}
