//! Starts `greenroom serve` in the background for a command that finds no server, and waits until it is ready.
//!
//! The server is detached: it outlives this command, and ends by itself (`server.idle_exit`). A lock file lets only one
//! command start a server; the others wait and then find it. The server inherits the lock as its stdin and keeps it until it
//! is ready, so that no second server starts if this command is killed meanwhile.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use greenroom_core::{
    port::human,
    settings::{Origin, Resolved, SESSION_VARIABLE, SETTINGS},
};
use greenroom_engine::{
    launcher::{Launcher, ProcessSpec, TAG},
    run_folder,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

use super::server::{running, use_running};
use crate::{
    config::ConfigSources,
    control::{ControlEndpoint, find_endpoints},
    progress,
    report::CliError,
};

/// How long a server that a command started stays unused before it ends, unless `server.idle_exit` says otherwise. A
/// session counts as use until it ends, after five minutes without a call by default; so an agent that thinks for less
/// than a quarter of an hour finds the server running.
pub const IDLE_EXIT: Duration = Duration::from_secs(10 * 60);

/// How long a server may take until it accepts calls. It takes a tenth of a second; its browser starts afterwards.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The file that the starting command locks.
const LOCK: &str = "start.lock";

/// The file with the server's stderr, overwritten at each start.
const LOG: &str = "server.log";

/// How much of the log's end a command reads to say why a start failed.
const LOG_END_BYTES: u64 = 4096;

const VARIABLE_PREFIX: &str = "GREENROOM_";

/// Starts a server, or finds the one that another command has started meanwhile.
pub async fn start(
    resolved: &Resolved,
    config_sources: &ConfigSources,
    session: &str,
) -> anyhow::Result<ControlEndpoint> {
    let data = &resolved.settings.data_dir;
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        CliError::unreachable(format!("no server runs, and none can be started: {what}: {error}"))
            .hint("start one with `greenroom serve`, or choose another data folder with --data-dir")
    };
    run_folder::make_private(data).map_err(|error| failed("cannot use the data folder", &error))?;
    let locked = timeout(START_TIMEOUT, lock(data.join(LOCK))).await;
    let lock = locked
        .map_err(|_| failed("another command is starting one", &"it does not come to an end"))?
        .map_err(|error| failed("cannot write to the data folder", &error))?;
    if let Some(found) = running(data, session).await? {
        return use_running(resolved, found);
    }
    let log = data.join(LOG);
    let stderr = run_folder::private_file().create(true).write(true).truncate(true).open(&log);
    let stderr = stderr.map_err(|error| failed("cannot write its log", &error))?;
    let program = std::env::current_exe().map_err(|error| failed("cannot find this program", &error))?;
    // No tag: otherwise a later greenroom would kill the server as a leftover of this command.
    let launcher = Launcher::start("").map_err(|error| failed("cannot start a thread", &error))?;
    let servers_lock = lock.try_clone().map_err(|error| failed("cannot share the lock", &error))?;
    let spec = arguments(resolved, config_sources, ProcessSpec::new(program));
    let (child, stdout) = launcher
        .spawn_server(spec, stderr, servers_lock)
        .await
        .map_err(|error| failed("cannot run this program", &error))?;
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    let ready = progress::step("starting a server", timeout(START_TIMEOUT, stdout.read_line(&mut line)));
    match ready.await {
        Ok(Ok(_)) if line.starts_with("ready: ") => {}
        Ok(_) => return Err(start_failure(&log).into()),
        Err(_) => {
            let why = format!("it is not ready after {}", human(START_TIMEOUT));
            return Err(failed(&format!("process {}, log `{}`", child.pid, log.display()), &why).into());
        }
    }
    let found = find_endpoints(data).into_iter().find(|endpoint| endpoint.pid == child.pid);
    let found = found.ok_or_else(|| failed("the server has no control socket", &log.display()))?;
    let end = match idle_exit(resolved) {
        Some(after) => format!("it ends after {} without sessions and commands", human(after)),
        None => format!("`kill {}` ends it", child.pid),
    };
    progress::note(&format!(
        "started a server in the background (pid {}); {end}; log: {}",
        child.pid,
        log.display()
    ));
    Ok(found)
}

/// How long a server that a command starts stays unused before it ends.
pub fn idle_exit(resolved: &Resolved) -> Option<Duration> {
    match resolved.origin("server.idle_exit") {
        Origin::Default => Some(IDLE_EXIT),
        _ => resolved.settings.server.idle_exit,
    }
}

/// Frees the lock that this server has from the command that started it, now that other commands find the server.
pub fn release_start_lock() -> io::Result<()> {
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(())
}

/// Waits until no other command and no starting server holds the lock, and takes it. It is free once all processes that have
/// the file have closed it.
async fn lock(path: PathBuf) -> io::Result<File> {
    let locked = tokio::task::spawn_blocking(move || {
        let file = run_folder::private_file().create(true).write(true).truncate(false).open(path)?;
        file.lock()?;
        Ok(file)
    });
    locked.await.map_err(io::Error::other)?
}

/// The arguments and environment of a `greenroom serve` with the settings of this command.
fn arguments(resolved: &Resolved, config_sources: &ConfigSources, spec: ProcessSpec) -> ProcessSpec {
    let mut arguments: Vec<OsString> = vec!["serve".into(), "--background".into()];
    if let Some(config) = &config_sources.config {
        arguments.extend(["--config".into(), config.into()]);
    }
    arguments.extend(["--data-dir".into(), resolved.settings.data_dir.clone().into()]);
    for (key, value) in config_sources.flags.settings.iter().filter(|(key, _)| *key != "data_dir") {
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == *key) {
            arguments.push(format!("--{}={value}", setting.flag()).into());
        }
    }
    for browser in &config_sources.flags.browsers {
        arguments.extend([browser.flag.into(), browser.value.clone().into()]);
    }
    // The launcher removes greenroom's variables from the environment of detached children; this child needs them.
    let greenroom_variables = config_sources.env.variables.iter().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with(VARIABLE_PREFIX) && name != TAG && name != SESSION_VARIABLE
    });
    greenroom_variables.fold(spec.args(arguments), |spec, (name, value)| spec.env(name, value))
}

/// Why the server ended before it was ready: its last output, which has the form of an error with a hint.
fn start_failure(log: &Path) -> CliError {
    let log_end = read_log_end(log).unwrap_or_default();
    let error = log_end.rfind("error: ").map_or(log_end.trim(), |at| log_end[at + "error: ".len()..].trim());
    let (why, hint) = error.split_once("\n\nhint: ").unwrap_or((error, ""));
    let failure = CliError::unreachable(format!("no server runs, and the start of one failed: {why}"));
    match hint {
        "" => failure.hint(format!("its log is `{}`", log.display())),
        hint => failure.hint(hint),
    }
}

fn read_log_end(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_END_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_END_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
