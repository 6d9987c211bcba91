//! The attached browsers of the fleet, for those who look at them and change them.

use std::{sync::Arc, time::Duration};

use greenroom_core::StartError;
use tokio::time::timeout;

use super::{Fleet, Inner};
use crate::{
    attached_browsers::{BrowserSettings, BrowserStatus, NotChosen},
    error::FleetError,
    pool::Readiness,
};

/// How long leaving a browser may take whoever asks for it: a seat that is being opened (30 s) and closed (5 s), seats that
/// rest there (5 s), the engine (15 s), each with its own limit. What takes longer goes on without it.
const REMOVE: Duration = Duration::from_secs(60);

impl Fleet {
    /// Every attached browser, by index.
    pub fn browsers(&self) -> Vec<BrowserStatus> {
        self.0.browsers.all().iter().map(|entry| entry.status()).collect()
    }

    /// The browser of this index or label.
    pub fn browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        Ok(self.0.browsers.find(name)?.status())
    }

    /// The browser that is meant by this index or label, or by none: with one there is nothing to say, with several it has
    /// to be said.
    pub fn chosen_browser(&self, given: Option<&str>) -> Result<BrowserStatus, FleetError> {
        Ok(self.0.browsers.choose(given)?.status())
    }

    /// Takes a browser on; nothing is connected by that. What it is made of may depend on its index, and is made under the
    /// registry's lock: it must not ask the fleet for anything.
    pub fn add_browser(
        &self,
        make: impl FnOnce(u32) -> BrowserSettings,
    ) -> Result<BrowserStatus, FleetError> {
        self.0.check_open()?;
        let entry = self.0.browsers.add(make, &self.0.watcher)?;
        tracing::info!(browser = entry.index, url = entry.settings.url, "browser added");
        Ok(entry.status())
    }

    /// Begins to connect all browsers that nobody has needed yet, beside everything else.
    pub fn connect_browsers(&self) {
        if self.0.check_open().is_ok() {
            self.0.browsers.pools().iter().for_each(|pool| pool.start_now());
        }
    }

    /// Connects a browser now, whatever its last attempt came to, and brings it back if its operator said how. One that
    /// is connected and answers stays as it is. Returns when that is decided.
    pub async fn reconnect_browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        self.0.check_open()?;
        let entry = self.0.browsers.find(name)?;
        entry.pool.reconnect().await?;
        Ok(entry.status())
    }

    /// Takes a browser out: its sessions end, and it is left as it was. Returns when greenroom has left it, or goes on
    /// leaving it if that takes too long.
    pub async fn remove_browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        let (entry, leaving) = {
            // Under the lock that every call begins under: none begins there from now on. A shutdown that has come so far
            // leaves all browsers itself; one that has not waits for this.
            let mut registry = self.0.lock();
            if self.0.closing.is_cancelled() {
                return Err(FleetError::ShuttingDown);
            }
            let entry = self.0.browsers.remove(name)?;
            entry.pool.remove();
            let ended = registry.end_all_in(&entry.pool, &self.0.connections);
            let pool = entry.pool.clone();
            // In a task of its own: whoever asked may leave, the browser must be left in order all the same.
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
            tracing::warn!(browser = entry.index, "leaving the browser takes long, and goes on");
        }
        Ok(entry.status())
    }
}

impl Inner {
    /// Whether calls that name no place can be taken: by a pool, or by a browser.
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
