//! Attached browsers: those that already run somewhere, and are driven there.
//!
//! Each is a pool of its own with one instance, so that leases, health and sessions are what they are everywhere. This
//! registry knows which there are and what callers call them: by an index from 1 on, which is never used again, or by
//! a label. [`choose`] has the rules for who must say which one is meant; the fleet asks it for every call that is to
//! begin somewhere.

mod choose;
mod name;
mod status;

use std::{collections::BTreeMap, sync::Arc};

use greenroom_core::web_address::Place;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use crate::{
    error::FleetError,
    pool::{Attached, Pool, PoolSettings, Size},
    target::Watcher,
};

pub use choose::NotChosen;
pub use name::BrowserName;
pub use status::{BrowserState, BrowserStatus};

/// A browser to attach to.
#[derive(Clone)]
pub struct BrowserSettings {
    /// Where it is, without secrets, for lists.
    pub url: String,
    /// Where it is, secrets too. Two whose addresses may be one [`Place`] are one browser; it is never shown.
    pub address: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    /// Which engine drives it, for lists.
    pub engine: String,
    /// How to drive it. It has one instance and no spares, whatever this says, and is connected when it is needed.
    pub pool: PoolSettings,
}

/// What the pool of a browser is called. No other pool can be: their names have no hyphen.
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
    /// No more are taken on.
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
            size: Size::Fixed(1),
            ..self.pool.clone()
        };
        let attached = Attached::new(self.name(index), self, watcher.clone());
        // Connecting costs no processor worth speaking of, and one browser that keeps it waiting must not keep others.
        let starts = Arc::new(Semaphore::new(1));
        Pool::new(settings, starts, watcher.clone(), Some(attached))
    }
}

impl Entry {
    fn name(&self) -> BrowserName {
        self.settings.name(self.index)
    }
}

impl Browsers {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock()
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
        watcher: &Arc<dyn Watcher>,
    ) -> Result<Arc<Entry>, FleetError> {
        let mut registry = self.lock();
        if registry.closed {
            return Err(FleetError::ShuttingDown);
        }
        let index = registry.last + 1;
        let settings = make(index);
        if let Some(label) = settings.label.as_ref().filter(|label| !name::is_label(label)) {
            return Err(FleetError::BadLabel { label: label.clone() });
        }
        let place = Place::of(&settings.address);
        for other in registry.entries.values() {
            let label = settings.label.as_ref().filter(|_| other.settings.label == settings.label);
            let is_there = Place::of(&other.settings.address).may_be(&place);
            let taken = if is_there { Some(&settings.url) } else { label };
            if let Some(name) = taken {
                return Err(FleetError::BrowserExists { name: name.clone(), index: other.index });
            }
        }
        registry.last = index;
        let pool = settings.make_pool(index, watcher);
        let entry = Arc::new(Entry { index, settings, pool });
        registry.entries.insert(index, entry.clone());
        Ok(entry)
    }

    /// Takes no more on.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
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
        let entry = choose::find(&registry.entries, name)?.clone();
        registry.entries.remove(&entry.index);
        Ok(entry)
    }
}
