//! The `greenroom` binary: parses the command line, resolves the settings, starts logging, and hands over to one verb.
//!
//! Exit codes: 0 fine, 1 failure, 2 bad usage or bad configuration, 3 no greenroom could be reached or started. stdout
//! carries data only; everything for people, errors included, goes to stderr.

mod app;
mod args;
mod client;
mod config;
mod control;
mod demo;
mod doctor;
mod join;
mod key_watch;
mod log_writer;
mod owner_quotas;
mod packages;
mod parent;
mod port_holder;
mod progress;
mod recent_log;
mod reload;
mod report;
mod signals;
mod skill;
mod sleep_watch;
mod tcp;
mod tls;
mod unused_server_exit;
mod verb;
mod view;

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use greenroom_core::settings::{Origin, Resolved};
use greenroom_gateway::control::RecentLog;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    args::{Cli, ConfigVerb, DbVerb, Flags, Verb},
    config::{ConfigSources, ProcessEnv},
    report::CliError,
    verb::browser_command::{CommandRequest, run as run_browser_command},
};

/// How long the ending process waits for threads that are busy with the disk or a name server. No code needs their
/// results any more, and some of their work cannot be cancelled.
const BLOCKING_THREADS_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let (cli, flags) = match args::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(stop) => return report::usage(&stop),
    };
    run(cli, flags).unwrap_or_else(|error| report::failure(&error))
}

fn run(cli: Cli, flags: Flags) -> anyhow::Result<ExitCode> {
    match &cli.verb {
        Verb::Setup(setup) => setup.check(cli.config.is_some(), &flags)?,
        // These describe the program, and need nothing of the user's.
        Verb::Completions(args) => return verb::completions::run(args),
        Verb::Man(args) => return verb::man::run(args),
        _ => {}
    }
    let config_sources = ConfigSources { env: ProcessEnv::read()?, config: cli.config, flags };
    let settings = config_sources.resolve()?;
    let recent_log = start_logging(&settings, matches!(cli.verb, Verb::Doctor(_)))?;
    for warning in &settings.warnings {
        progress::note(&format!("warning: {warning}: it is ignored"));
    }
    // One thread: greenroom waits for browsers far more than it computes, and one core carries tens of thousands of
    // calls a second. A call that never changes threads on its way takes two thirds of the time that it would.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    raise_descriptor_limit();
    let outcome = runtime.block_on(dispatch(cli.verb, settings, config_sources, recent_log));
    runtime.shutdown_timeout(BLOCKING_THREADS_TIMEOUT);
    outcome
}

/// Raises the limit of open files as far as allowed. Every connection of a browser takes two descriptors, and many systems
/// start programs with 1,024.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}

async fn dispatch(
    verb: Verb,
    settings: Resolved,
    config_sources: ConfigSources,
    recent_log: Arc<RecentLog>,
) -> anyhow::Result<ExitCode> {
    let env = config_sources.env.clone();
    match verb {
        Verb::Mcp(args) => verb::mcp::run(&settings, &env, recent_log, &args).await,
        Verb::Serve(args) => verb::serve::run(settings, &config_sources, recent_log, &args).await,
        Verb::Setup(args) => verb::setup::run(&settings, &env, &args).await,
        Verb::Doctor(args) => verb::doctor::run(settings, env, &args).await,
        Verb::Open(args) => run_browser_command(&settings, &config_sources, args.try_into()?).await,
        Verb::Snapshot(args) => {
            run_browser_command(&settings, &config_sources, CommandRequest::snapshot(args)).await
        }
        Verb::Click(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Type(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Fill(args) => run_browser_command(&settings, &config_sources, args.try_into()?).await,
        Verb::Press(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Select(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Wait(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Eval(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Screenshot(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Tabs(args) => run_browser_command(&settings, &config_sources, args.try_into()?).await,
        Verb::Back(args) => run_browser_command(&settings, &config_sources, CommandRequest::back(args)).await,
        Verb::Find(args) => run_browser_command(&settings, &config_sources, args.into()).await,
        Verb::Close(args) => {
            run_browser_command(&settings, &config_sources, CommandRequest::close(args)).await
        }
        Verb::Call(args) => run_browser_command(&settings, &config_sources, args.try_into()?).await,
        Verb::Demo(args) => verb::demo::run(&settings, &env, &args).await,
        Verb::Status(args) => verb::status::run(&settings, &env, &args).await,
        Verb::Sessions(args) => verb::sessions::run(&settings, &env, &args).await,
        Verb::Pool(args) => verb::pool::run(&settings, &env, &args).await,
        Verb::Browsers(args) => verb::browsers::run(&settings, &env, &args).await,
        Verb::Logs(args) => verb::logs::run(&settings, &args).await,
        Verb::Keys(args) => verb::keys::run(&settings, &env, &args),
        Verb::Db(DbVerb::Stats(args)) => verb::db::stats(&settings, &env, &args),
        Verb::Db(DbVerb::Vacuum(args)) => verb::db::vacuum(&settings, &args).await,
        Verb::Db(DbVerb::Export(args)) => verb::db::export(&settings, &args),
        Verb::Backup(args) => verb::backup::backup(&settings, &args).await,
        Verb::Restore(args) => verb::backup::restore(&settings, &args).await,
        Verb::Owners(args) => verb::owners::run(&settings, &env, &args).await,
        Verb::Config(ConfigVerb::Show(args)) => verb::config::show(&settings, &args),
        Verb::Completions(args) => verb::completions::run(&args),
        Verb::Man(args) => verb::man::run(&args),
    }
}

/// Logs go to stderr, since stdout belongs to the protocol and to data. [`RecentLog`] keeps the last lines in memory.
/// `greenroom doctor` prints its findings itself, so by default it logs errors only.
fn start_logging(settings: &Resolved, is_doctor: bool) -> anyhow::Result<Arc<RecentLog>> {
    let by_default = *settings.origin("log") == Origin::Default;
    let log = if is_doctor && by_default { "error" } else { &settings.settings.log };
    let filter = EnvFilter::try_new(log).map_err(|error| {
        let origin = settings.origin("log");
        CliError::usage(format!("`log` cannot be `{log}` (from {origin}): {error}")).hint(
            "give a level (error, warn, info, debug, trace) or a filter such as `info,greenroom_fleet=debug`",
        )
    })?;
    let recent_log = Arc::new(RecentLog::default());
    let stderr = tracing_subscriber::fmt::layer().with_writer(log_writer::LogWriter).with_filter(filter);
    tracing_subscriber::registry().with(stderr).with(recent_log::layer(recent_log.clone())).init();
    Ok(recent_log)
}
