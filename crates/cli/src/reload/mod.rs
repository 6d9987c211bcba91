//! Reads the configuration again while the server runs, on SIGHUP or when one of its files has changed. It applies the
//! changes that need no restart, and logs all changes. If the new configuration has mistakes, it logs them, and all
//! settings stay as they were.

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
use self::change::{Effect, SettingChange, changes, effective_settings};
use crate::{app::App, config::ConfigSources, signals::Signals};

/// How often the server checks the files. A person who has just saved one waits about this long.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for reasons to read the configuration again, and does so. Never returns.
pub async fn watch(app: &App, config_sources: &ConfigSources, mut current: Settings, signals: &Signals) {
    let mut seen = file_stamps(config_sources);
    loop {
        let signalled = tokio::select! {
            () = signals.reload.notified() => true,
            () = sleep(POLL_INTERVAL) => false,
        };
        let now = file_stamps(config_sources);
        if !signalled && now == seen {
            continue;
        }
        // The writer of a file may not be done yet: read the file when it has not changed for a while.
        if !signalled {
            sleep(POLL_INTERVAL).await;
            if file_stamps(config_sources) != now {
                continue;
            }
        }
        seen = now;
        match resolve(config_sources).await {
            Ok(after) => {
                let merged = effective_settings(&current, &after.settings);
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
async fn resolve(config_sources: &ConfigSources) -> anyhow::Result<Resolved> {
    let config_sources = config_sources.clone();
    tokio::task::spawn_blocking(move || config_sources.resolve()).await?
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

/// The modification time and the size of each file now.
fn file_stamps(config_sources: &ConfigSources) -> Vec<(PathBuf, Option<(SystemTime, u64)>)> {
    let stamp = |path: &PathBuf| {
        let data = fs::metadata(path).ok()?;
        Some((data.modified().ok()?, data.len()))
    };
    config_sources
        .files()
        .into_iter()
        .map(|path| {
            let stamp = stamp(&path);
            (path, stamp)
        })
        .collect()
}
