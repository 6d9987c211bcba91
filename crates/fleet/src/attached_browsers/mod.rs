//! Attached browsers: greenroom drives them where they already run.
//!
//! Each attached browser is a pool of its own with one instance, so leases, health and sessions work as in other pools.
//! This registry knows which browsers there are and their names: an index from 1 on, which is never reused, and
//! optionally a label. [`choose`] decides which browser a call means; the fleet asks it for every call that begins a
//! session.

mod browser_status;
mod choose;
mod name;

use std::{collections::BTreeMap, sync::Arc};

use greenroom_core::web_address::ServerAddress;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use crate::{
    error::FleetError,
    pool::{BrowserConnection, Pool, PoolSettings, PoolSize},
    target::Watcher,
};

pub use browser_status::{BrowserState, BrowserStatus};
pub use choose::NotChosen;
pub use name::BrowserName;

/// A browser to attach to.
#[derive(Clone)]
pub struct BrowserSettings {
    /// The browser's address without secrets, for lists.
    pub url: String,
    /// The browser's address with secrets; no list or message shows it. Two addresses that may be one
    /// [`ServerAddress`] are one browser.
    pub address: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    /// The name of the engine that drives the browser, for lists.
    pub engine: String,
    /// The settings of the browser's pool. The pool has one instance and no spares, whatever these settings say,
    /// and connects when a call needs the browser.
    pub pool: PoolSettings,
}

/// The name of a browser's pool. Names of other pools have no hyphen, so the two cannot collide.
pub fn pool_name(index: u32) -> String {
    format!("browser-{index}")
}

/// An attached browser in the registry.
pub(crate) struct RegisteredBrowser {
    pub(crate) index: u32,
    pub(crate) settings: BrowserSettings,
    pub(crate) pool: Arc<Pool>,
}

/// All attached browsers, by index.
#[derive(Default)]
pub(crate) struct AttachedBrowsers(Mutex<BrowserRegistry>);

#[derive(Default)]
struct BrowserRegistry {
    entries: BTreeMap<u32, Arc<RegisteredBrowser>>,
    /// The latest index given to a browser.
    last: u32,
    /// The registry accepts no more browsers.
    closed: bool,
}

impl BrowserSettings {
    fn name(&self, index: u32) -> BrowserName {
        BrowserName { index, label: self.label.clone() }
    }

    fn make_pool(&self, index: u32, watcher: &Arc<dyn Watcher>) -> Arc<Pool> {
        let settings = PoolSettings {
            name: pool_name(index),
            is_default: false,
            size: PoolSize::Fixed(1),
            network: None,
            ..self.pool.clone()
        };
        let attached = BrowserConnection::new(self.name(index), self, watcher.clone());
        // Connecting takes little processor time, and a slow connection to one browser must not delay the others.
        let starts = Arc::new(Semaphore::new(1));
        Pool::new(settings, starts, watcher.clone(), Some(attached))
    }
}

impl RegisteredBrowser {
    fn name(&self) -> BrowserName {
        self.settings.name(self.index)
    }
}

impl AttachedBrowsers {
    fn lock(&self) -> MutexGuard<'_, BrowserRegistry> {
        self.0.lock()
    }

    pub(crate) fn all(&self) -> Vec<Arc<RegisteredBrowser>> {
        self.lock().entries.values().cloned().collect()
    }

    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.lock().entries.values().map(|entry| entry.pool.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// Adds a browser. `make` gets the browser's index, because settings may depend on it.
    pub(crate) fn add(
        &self,
        make: impl FnOnce(u32) -> BrowserSettings,
        watcher: &Arc<dyn Watcher>,
    ) -> Result<Arc<RegisteredBrowser>, FleetError> {
        let mut registry = self.lock();
        if registry.closed {
            return Err(FleetError::ShuttingDown);
        }
        let index = registry.last + 1;
        let settings = make(index);
        if let Some(label) = settings.label.as_ref().filter(|label| !name::is_label(label)) {
            return Err(FleetError::BadLabel { label: label.clone() });
        }
        let address = ServerAddress::parse(&settings.address);
        for other in registry.entries.values() {
            let label = settings.label.as_ref().filter(|_| other.settings.label == settings.label);
            let is_same_address = ServerAddress::parse(&other.settings.address).may_equal(&address);
            let taken = if is_same_address { Some(&settings.url) } else { label };
            if let Some(name) = taken {
                return Err(FleetError::BrowserExists { name: name.clone(), index: other.index });
            }
        }
        registry.last = index;
        let pool = settings.make_pool(index, watcher);
        let entry = Arc::new(RegisteredBrowser { index, settings, pool });
        registry.entries.insert(index, entry.clone());
        Ok(entry)
    }

    /// Accepts no more browsers.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// The browser with this index or label.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<RegisteredBrowser>, FleetError> {
        let registry = self.lock();
        Ok(choose::find(&registry.entries, name)?.clone())
    }

    /// The browser that a call means which gives this index or label, or gives none.
    pub(crate) fn choose(&self, given: Option<&str>) -> Result<Arc<RegisteredBrowser>, FleetError> {
        let registry = self.lock();
        Ok(choose::choose(&registry.entries, given)?.clone())
    }

    /// Removes a browser. Its index is not used again.
    pub(crate) fn remove(&self, name: &str) -> Result<Arc<RegisteredBrowser>, FleetError> {
        let mut registry = self.lock();
        let entry = choose::find(&registry.entries, name)?.clone();
        registry.entries.remove(&entry.index);
        Ok(entry)
    }
}
