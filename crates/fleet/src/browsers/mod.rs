//! Attached browsers: those that already run somewhere, and are driven there.
//!
//! Each is a pool of its own with one instance, so that leases, health and sessions are what they are everywhere. This
//! registry knows which there are and what callers call them: by an index from 1 on, which is never used again, or by
//! a label. [`choose`] has the rules for who must say which one is meant; the fleet asks it for every call that is to
//! begin somewhere.

mod choose;
mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    error::FleetError,
    pool::{Pool, PoolSettings},
};

pub use choose::NotChosen;
pub use status::{BrowserState, BrowserStatus};

/// A browser to attach to.
#[derive(Clone)]
pub struct BrowserSettings {
    /// Where it is, as its operator wrote it, without secrets.
    pub url: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    /// Which engine drives it, for lists.
    pub engine: String,
    /// How to drive it: one instance, under the name that [`pool_name`] gives it.
    pub pool: PoolSettings,
}

/// What the pool of a browser is called.
pub fn pool_name(index: u32) -> String {
    format!("browser-{index}")
}

/// One browser.
pub(crate) struct Entry {
    pub(crate) index: u32,
    pub(crate) settings: BrowserSettings,
    pub(crate) pool: Arc<Pool>,
}

/// All browsers, by index.
#[derive(Default)]
pub(crate) struct Browsers(Mutex<Registry>);

#[derive(Default)]
struct Registry {
    entries: BTreeMap<u32, Arc<Entry>>,
    /// The index that was given last.
    last: u32,
}

impl Browsers {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.lock().entries.values().cloned().collect()
    }

    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.lock().entries.values().map(|entry| entry.pool.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// Takes a browser on. What it is made of may depend on its index.
    pub(crate) fn add(
        &self,
        make: impl FnOnce(u32) -> BrowserSettings,
        pool: impl FnOnce(PoolSettings) -> Arc<Pool>,
    ) -> Result<Arc<Entry>, FleetError> {
        let mut registry = self.lock();
        let index = registry.last + 1;
        let settings = make(index);
        let taken = |entry: &&Arc<Entry>| {
            entry.settings.url == settings.url
                || entry.settings.label.is_some() && entry.settings.label == settings.label
        };
        if let Some(other) = registry.entries.values().find(taken) {
            let name = match other.settings.url == settings.url {
                true => settings.url,
                false => settings.label.unwrap_or_default(),
            };
            return Err(FleetError::BrowserExists { name, index: other.index });
        }
        registry.last = index;
        let pool = pool(settings.pool.clone());
        let entry = Arc::new(Entry { index, settings, pool });
        registry.entries.insert(index, entry.clone());
        Ok(entry)
    }

    /// The browser that is called so, by index or label.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Entry>, FleetError> {
        let registry = self.lock();
        Ok(choose::find(&registry.entries, name)?.clone())
    }

    /// The browser of a call that gave this index or label, or none.
    pub(crate) fn choose(&self, given: Option<&str>) -> Result<Arc<Entry>, FleetError> {
        let registry = self.lock();
        Ok(choose::choose(&registry.entries, given)?.clone())
    }

    /// Takes a browser out. Its index is not used again.
    pub(crate) fn remove(&self, name: &str) -> Result<Arc<Entry>, FleetError> {
        let mut registry = self.lock();
        let index = choose::find(&registry.entries, name)?.index;
        registry.entries.remove(&index).ok_or(FleetError::NotChosen(NotChosen::NoneAttached))
    }
}
