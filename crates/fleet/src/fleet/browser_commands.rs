//! The fleet's attached browsers: listing, adding, connecting and removing them.

use std::{sync::Arc, time::Duration};

use greenroom_core::StartError;
use tokio::time::timeout;

use super::{Fleet, Inner};
use crate::{
    attached_browsers::{BrowserSettings, BrowserStatus, NotChosen},
    error::FleetError,
    pool::Readiness,
};

/// How long a caller waits for the removal of a browser. The removal waits for a seat that is being opened (30 s), then
/// closes that seat (5 s), idle seats (5 s) and the engine (15 s). A longer removal goes on without the caller.
const REMOVE: Duration = Duration::from_secs(60);

impl Fleet {
    /// Every attached browser, by index.
    pub fn browsers(&self) -> Vec<BrowserStatus> {
        self.0.browsers.all().iter().map(|entry| entry.status()).collect()
    }

    /// The browser with this index or label.
    pub fn browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        Ok(self.0.browsers.find(name)?.status())
    }

    /// The browser that a call means by this index or label. If one browser is attached, the call must give neither; if
    /// several are, it must give one.
    pub fn chosen_browser(&self, given: Option<&str>) -> Result<BrowserStatus, FleetError> {
        Ok(self.0.browsers.choose(given)?.status())
    }

    /// Adds a browser without connecting to it. Its settings may depend on its index; the function that makes them runs
    /// under the registry's lock and must not call the fleet.
    pub fn add_browser(
        &self,
        make: impl FnOnce(u32) -> BrowserSettings,
    ) -> Result<BrowserStatus, FleetError> {
        self.0.check_open()?;
        let entry = self.0.browsers.add(make, &self.0.watcher)?;
        tracing::info!(browser = entry.index, url = entry.settings.url, "browser added");
        Ok(entry.status())
    }

    /// Begins to connect to all browsers that no call has needed yet. The connecting goes on in the background.
    pub fn connect_browsers(&self) {
        if self.0.check_open().is_ok() {
            self.0.browsers.pools().iter().for_each(|pool| pool.start_now());
        }
    }

    /// Connects to a browser now, whatever the last attempt came to. Starts the browser first if it is gone and its
    /// operator configured a start command. Changes nothing if the browser is connected and answers. Returns when the
    /// outcome is known.
    pub async fn reconnect_browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        self.0.check_open()?;
        let entry = self.0.browsers.find(name)?;
        entry.pool.reconnect().await?;
        Ok(entry.status())
    }

    /// Removes a browser: its sessions end, and greenroom disconnects from it without changing it. Returns when greenroom
    /// has disconnected; if that takes too long, it goes on in the background.
    pub async fn remove_browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        let (entry, leaving) = {
            // Every call begins under this lock, so none begins in this browser from now on. A shutdown that has already
            // begun removes all browsers itself; one that begins later waits for this removal.
            let mut registry = self.0.lock();
            if self.0.closing.is_cancelled() {
                return Err(FleetError::ShuttingDown);
            }
            let entry = self.0.browsers.remove(name)?;
            entry.pool.remove();
            let ended = registry.end_all_in(&entry.pool, &self.0.connections);
            let pool = entry.pool.clone();
            // The removal runs in its own task, so that it goes on if the caller leaves.
            let leaving = self.0.tasks.spawn(async move {
                for mut ended in ended {
                    let _ = ended.wait_for(|ended| *ended).await;
                }
                pool.shutdown().await;
            });
            (entry, leaving)
        };
        tracing::info!(browser = entry.index, url = entry.settings.url, "browser removed");
        if timeout(REMOVE, leaving).await.is_err() {
            tracing::warn!(
                browser = entry.index,
                "removing the browser takes long, and goes on in the background"
            );
        }
        Ok(entry.status())
    }
}

impl Inner {
    /// Whether a pool or a browser can take calls that name neither.
    pub(super) fn readiness(&self) -> Readiness {
        let pool = self.pools.first().map(|pool| pool.readiness());
        let browsers: Vec<Arc<_>> = self.browsers.all();
        let all = pool.into_iter().chain(browsers.iter().map(|entry| entry.readiness()));
        let best = all.min_by_key(|readiness| match readiness {
            Readiness::Ready => 0,
            Readiness::Starting => 1,
            Readiness::Unresponsive(_) => 2,
            Readiness::Failed(_) => 3,
        });
        best.unwrap_or_else(|| {
            let error = StartError::new(NotChosen::Nowhere.to_string());
            Readiness::Failed(error.hint("connect_browser attaches one"))
        })
    }
}
