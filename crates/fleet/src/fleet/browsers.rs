//! The attached browsers of the fleet, for those who look at them and change them.

use std::sync::Arc;

use super::Fleet;
use crate::{
    browsers::{BrowserSettings, BrowserStatus},
    error::FleetError,
    pool::Pool,
};

impl Fleet {
    /// Every attached browser, by index.
    pub fn browsers(&self) -> Vec<BrowserStatus> {
        self.0.browsers.all().iter().map(|entry| entry.status()).collect()
    }

    /// The browser of this index or label.
    pub fn browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        Ok(self.0.browsers.find(name)?.status())
    }

    /// Takes a browser on; nothing is connected by that.
    pub fn add_browser(
        &self,
        make: impl FnOnce(u32) -> BrowserSettings,
    ) -> Result<BrowserStatus, FleetError> {
        self.0.check_open()?;
        let pool = |settings| Pool::new(settings, self.0.starts.clone(), self.0.watcher.clone());
        Ok(self.0.browsers.add(make, pool)?.status())
    }

    /// Begins to connect all browsers, beside everything else.
    pub fn connect_browsers(&self) {
        self.0.browsers.pools().iter().for_each(Pool::start_now);
    }

    /// Connects a browser now, whatever its last attempt came to, and brings it back if its operator said how. One that
    /// is connected and answers stays as it is. Returns when that is decided.
    pub async fn reconnect_browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        let entry = self.0.browsers.find(name)?;
        entry.pool.restart(None)?;
        Ok(entry.status())
    }

    /// Takes a browser out: its sessions end, and it is left as it was. Returns when greenroom has left it.
    pub async fn remove_browser(&self, name: &str) -> Result<BrowserStatus, FleetError> {
        let entry = self.0.browsers.remove(name)?;
        let status = entry.status();
        let pool: Arc<Pool> = entry.pool.clone();
        pool.shutdown().await;
        Ok(status)
    }
}
