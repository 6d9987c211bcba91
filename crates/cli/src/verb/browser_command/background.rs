//! Starts `greenroom serve` in the background for a command that finds no server, and waits until it is ready.
//!
//! The server is detached: it outlives this command, and ends by itself (`server.idle_exit`). A lock file lets only one
//! command start a server; the others wait and then find it.

use std::{
    ffi::OsString,
    fs::File,
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

use super::server::running;
use crate::{
    config::Inputs,
    control::{ControlEndpoint, find_endpoints},
    progress,
    report::Hinted,
};

/// When a server that a command started ends by itself, unless `server.idle_exit` says otherwise. A session without calls
/// ends after five minutes by default; an agent that thinks for longer than both must wait for a new browser.
pub const IDLE_EXIT: Duration = Duration::from_secs(10 * 60);

/// How long a server may take until it accepts calls. It takes a tenth of a second; its browser starts afterwards.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Held by the command that starts a server.
const LOCK: &str = "start.lock";

/// What the server in the background says; written anew at each start.
const LOG: &str = "server.log";

/// How much of the log's end is read to say why a start failed.
const LOG_TAIL_BYTES: u64 = 4096;

const OWN_PREFIX: &str = "GREENROOM_";

/// Starts a server, or finds the one that another command has started meanwhile.
pub async fn start(resolved: &Resolved, inputs: &Inputs, session: &str) -> anyhow::Result<ControlEndpoint> {
    let data = &resolved.settings.data_dir;
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Hinted::unreachable(format!("no server runs, and none can be started: {what}: {error}"))
            .hint("start one with `greenroom serve`, or choose another data folder with --data-dir")
    };
    run_folder::make_private(data).map_err(|error| failed("cannot use the data folder", &error))?;
    let locked = timeout(READY_WITHIN, lock(data.join(LOCK))).await;
    let _lock = locked
        .map_err(|_| failed("another command is starting one", &"it does not come to an end"))?
        .map_err(|error| failed("cannot write to the data folder", &error))?;
    if let Some(found) = running(data, session).await? {
        return Ok(found);
    }
    let log = data.join(LOG);
    let stderr = run_folder::private_file().create(true).write(true).truncate(true).open(&log);
    let stderr = stderr.map_err(|error| failed("cannot write its log", &error))?;
    let program = std::env::current_exe().map_err(|error| failed("cannot find this program", &error))?;
    // No tag: a later greenroom must not take the server for a leftover of this command.
    let launcher = Launcher::start("").map_err(|error| failed("cannot start a thread", &error))?;
    let spec = arguments(resolved, inputs, ProcessSpec::new(program));
    let (child, stdout) = launcher
        .spawn_server(spec, stderr)
        .await
        .map_err(|error| failed("cannot run this program", &error))?;
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    let ready = progress::step("starting a server", timeout(READY_WITHIN, stdout.read_line(&mut line)));
    match ready.await {
        Ok(Ok(_)) if line.starts_with("ready: ") => {}
        Ok(_) => return Err(failure_of(&log).into()),
        Err(_) => {
            let why = format!("it is not ready after {}", human(READY_WITHIN));
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

/// When a server that a command starts ends by itself.
pub fn idle_exit(resolved: &Resolved) -> Option<Duration> {
    match resolved.origin("server.idle_exit") {
        Origin::Default => Some(IDLE_EXIT),
        _ => resolved.settings.server.idle_exit,
    }
}

/// Waits until no other command holds the lock, and takes it. It is free again when the file is closed.
async fn lock(path: PathBuf) -> io::Result<File> {
    let locked = tokio::task::spawn_blocking(move || {
        let file = run_folder::private_file().create(true).write(true).truncate(false).open(path)?;
        file.lock()?;
        Ok(file)
    });
    locked.await.map_err(io::Error::other)?
}

/// `greenroom serve` with the settings of this command.
fn arguments(resolved: &Resolved, inputs: &Inputs, spec: ProcessSpec) -> ProcessSpec {
    let mut arguments: Vec<OsString> = vec!["serve".into(), "--background".into()];
    if let Some(config) = &inputs.config {
        arguments.extend(["--config".into(), config.into()]);
    }
    arguments.extend(["--data-dir".into(), resolved.settings.data_dir.clone().into()]);
    for (key, value) in inputs.flags.settings.iter().filter(|(key, _)| *key != "data_dir") {
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == *key) {
            arguments.push(format!("--{}={value}", setting.flag()).into());
        }
    }
    for browser in &inputs.flags.browsers {
        arguments.extend([browser.flag.into(), browser.value.clone().into()]);
    }
    // The launcher takes greenroom's own variables from detached children; this child is greenroom.
    let own = inputs.env.variables.iter().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with(OWN_PREFIX) && name != TAG && name != SESSION_VARIABLE
    });
    own.fold(spec.args(arguments), |spec, (name, value)| spec.env(name, value))
}

/// Why the server ended before it was ready: its last output, which has the form of an error with a hint.
fn failure_of(log: &Path) -> Hinted {
    let said = tail(log).unwrap_or_default();
    let said = said.rfind("error: ").map_or(said.trim(), |at| said[at + "error: ".len()..].trim());
    let (why, hint) = said.split_once("\n\nhint: ").unwrap_or((said, ""));
    let error = Hinted::unreachable(format!("no server runs, and the start of one failed: {why}"));
    match hint {
        "" => error.hint(format!("its log is `{}`", log.display())),
        hint => error.hint(hint),
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
