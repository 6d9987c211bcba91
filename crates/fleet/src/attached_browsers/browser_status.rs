//! The status of an attached browser, for lists and probes.

use std::time::{Duration, SystemTime};

use greenroom_core::StartError;
use tokio::time::Instant;

use super::RegisteredBrowser;
use crate::{error::FleetError, pool::Readiness};

/// The state of greenroom's connection to a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BrowserState {
    /// No call has needed the browser yet.
    #[default]
    Pending,
    Connecting,
    Connected,
    /// There is no connection; the time of the next attempt is known.
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

/// The status of an attached browser.
#[derive(Debug, Clone)]
pub struct BrowserStatus {
    pub index: u32,
    pub url: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    pub engine: String,
    pub state: BrowserState,
    /// Why greenroom is not connected, or why the browser missed its last health check.
    pub last_error: Option<String>,
    /// When greenroom last tried to connect, successfully or not.
    pub last_attempt: Option<SystemTime>,
    /// How long until greenroom tries again on its own.
    pub retry_in: Option<Duration>,
    /// How often greenroom connected again after it lost the connection.
    pub reconnects: u64,
    pub slots: usize,
    pub leased_slots: usize,
    pub waiting: usize,
}

impl RegisteredBrowser {
    pub(crate) fn status(&self) -> BrowserStatus {
        let pool = self.pool.status(None);
        let connection = self.pool.connection().unwrap_or_default();
        BrowserStatus {
            index: self.index,
            url: self.settings.url.clone(),
            label: self.settings.label.clone(),
            tags: self.settings.tags.clone(),
            engine: self.settings.engine.clone(),
            state: connection.state,
            last_error: connection.last_error,
            last_attempt: connection.last_attempt,
            retry_in: connection.retry_at.map(|at| at.saturating_duration_since(Instant::now())),
            reconnects: connection.connections_made.saturating_sub(1),
            slots: pool.instances.first().map_or(pool.slots, |instance| instance.slots),
            leased_slots: pool.leased_slots,
            waiting: pool.waiting,
        }
    }

    /// Whether the browser can take calls.
    pub(crate) fn readiness(&self) -> Readiness {
        let connection = self.pool.connection().unwrap_or_default();
        match connection.state {
            BrowserState::Connected => match self.pool.readiness() {
                silent @ Readiness::Unresponsive(_) => silent,
                _ => Readiness::Ready,
            },
            BrowserState::Pending => Readiness::Ready,
            // After a whole series of failed attempts the browser counts as failed, even while the next
            // attempt runs.
            BrowserState::Connecting | BrowserState::Disconnected if connection.given_up => {
                let failed = |error: FleetError| {
                    Readiness::Failed(
                        StartError::new(error.to_string()).hint("reconnect_browser tries it now"),
                    )
                };
                self.pool.down().map_or(Readiness::Starting, failed)
            }
            BrowserState::Connecting | BrowserState::Disconnected => Readiness::Starting,
        }
    }
}
