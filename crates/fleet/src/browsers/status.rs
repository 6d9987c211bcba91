//! What can be seen of an attached browser.

use std::time::{Duration, SystemTime};

use super::Entry;
use crate::status::Health;

/// How the connection to a browser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserState {
    /// Nobody has needed it yet.
    Pending,
    /// It is being connected to, for the first time or again.
    Connecting,
    Connected,
    /// The connection was lost, or could not be made.
    Disconnected,
}

impl BrowserState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
        }
    }
}

/// An attached browser, as far as others may know.
#[derive(Debug, Clone)]
pub struct BrowserStatus {
    pub index: u32,
    pub url: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    pub engine: String,
    pub state: BrowserState,
    pub last_error: Option<String>,
    /// When a connection was last tried.
    pub last_attempt: Option<SystemTime>,
    /// When it is tried again by itself.
    pub retry_in: Option<Duration>,
    /// How often the connection was made again.
    pub reconnects: u64,
    pub slots: usize,
    pub leased_slots: usize,
    pub waiting: usize,
}

impl Entry {
    pub(crate) fn status(&self) -> BrowserStatus {
        let pool = self.pool.status();
        let instance = pool.instances.first();
        let state = match instance.map(|instance| instance.health) {
            Some(Health::Healthy) => BrowserState::Connected,
            Some(Health::Failed) => BrowserState::Disconnected,
            Some(Health::Starting) | None => BrowserState::Pending,
        };
        BrowserStatus {
            index: self.index,
            url: self.settings.url.clone(),
            label: self.settings.label.clone(),
            tags: self.settings.tags.clone(),
            engine: self.settings.engine.clone(),
            state,
            last_error: instance.and_then(|instance| instance.check.error.clone()),
            last_attempt: None,
            retry_in: None,
            reconnects: instance.map_or(0, |instance| instance.restarts),
            slots: pool.slots,
            leased_slots: pool.leased_slots,
            waiting: pool.waiting,
        }
    }
}
