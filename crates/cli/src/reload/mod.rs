//! Reads the configuration again while the server runs, on SIGHUP or when one of its files has changed, and applies what can
//! change. It logs what cannot change. It also logs every mistake; then all settings stay as they were.

mod browser_changes;
mod change;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use greenroom_core::settings::{Resolved, Settings};
use greenroom_gateway::control::ProcessKind;
use tokio::time::sleep;

pub use self::browser_changes::BrowserChanges;
use self::change::{Effect, SettingChange, changes, in_force};
use crate::{app::App, config::Inputs, signals::Signals};

/// How often the files are checked. A person who has just saved one waits about this long.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for reasons to read the configuration again, and does so. Never returns.
pub async fn watch(app: &App, inputs: &Inputs, mut current: Settings, signals: &Signals) {
    let mut seen = stamps(inputs);
    loop {
        let signalled = tokio::select! {
            () = signals.reload.notified() => true,
            () = sleep(POLL_INTERVAL) => false,
        };
        let now = stamps(inputs);
        if !signalled && now == seen {
            continue;
        }
        // The writer of a file may not be done yet: read the file when it has not changed for a while.
        if !signalled {
            sleep(POLL_INTERVAL).await;
            if stamps(inputs) != now {
                continue;
            }
        }
        seen = now;
        match resolve(inputs).await {
            Ok(after) => {
                let merged = in_force(&current, &after.settings);
                apply(app, &merged, changes(&current, &after.settings));
                let refused = app.apply_browser_changes(&BrowserChanges::between(&current, &merged)).await;
                current = merged;
                current.browsers.retain(|browser| !refused.contains(&browser.url));
            }
            Err(error) => {
                tracing::error!(
                    "cannot use the changed configuration; greenroom keeps the old one: {error:#}"
                );
            }
        }
    }
}

/// Reads the files on a blocking thread: the runtime's own thread serves the calls.
async fn resolve(inputs: &Inputs) -> anyhow::Result<Resolved> {
    let inputs = inputs.clone();
    tokio::task::spawn_blocking(move || inputs.resolve()).await?
}

fn apply(app: &App, settings: &Settings, changes: Vec<SettingChange>) {
    if changes.is_empty() {
        tracing::info!("reloaded the configuration: nothing has changed");
        return;
    }
    if let Err(error) = app.apply(ProcessKind::Server, settings) {
        tracing::error!("cannot apply the changed configuration: {error:#}");
    }
    for SettingChange { what, effect } in changes {
        match effect {
            Effect::Immediate => tracing::info!("configuration: {what}"),
            Effect::NewInstances => {
                tracing::warn!(
                    "configuration: {what}; it applies to instances that start from now on; `greenroom pool restart` applies it to all"
                );
            }
            Effect::OnRestart => {
                tracing::warn!("configuration: {what}; it takes effect only when greenroom is restarted");
            }
        }
    }
}

/// Time and size of the files now.
fn stamps(inputs: &Inputs) -> Vec<(PathBuf, Option<(SystemTime, u64)>)> {
    let stamp = |path: &PathBuf| {
        let data = fs::metadata(path).ok()?;
        Some((data.modified().ok()?, data.len()))
    };
    inputs
        .files()
        .into_iter()
        .map(|path| {
            let stamp = stamp(&path);
            (path, stamp)
        })
        .collect()
}
