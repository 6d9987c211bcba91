//! How a caller names a pool, instance or browser, and the [`Watcher`] that counts what happens there.

use std::time::Duration;

use greenroom_core::{InstanceId, SessionUid, network::SessionNetwork};

use crate::error::FleetError;

/// Where a call wants to run, as its agent named it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTarget {
    pub pool: Option<String>,
    /// A number or an alias.
    pub instance: Option<String>,
    /// The index or the label of an attached browser.
    pub browser: Option<String>,
}

/// What a session that is created gets besides its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// What the session may reach, if that is less than its pool permits. Its successors keep it until the owner closes
    /// the session.
    pub network: Option<SessionNetwork>,
}

/// The result of a change of a pool's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaled {
    pub from: usize,
    pub to: usize,
    /// Instances that leave when their leases are back.
    pub draining: Vec<InstanceId>,
}

/// Counts what happens in the pools, for metrics. Its methods must not block: pools call them on the way of a call.
pub trait Watcher: Send + Sync {
    fn leased(&self, _pool: &str, _instance: InstanceId, _waited: Duration) {}
    fn not_leased(&self, _pool: &str, _why: &FleetError, _waited: Duration) {}
    fn restarted(&self, _pool: &str, _instance: InstanceId) {}
    /// A session ended: closed, or `lost`.
    fn session_ended(&self, _session: &SessionUid, _lost: bool) {}
    /// The supervisor tried to connect to the attached browser with this index; `is_made` says whether it could.
    fn tried_to_connect(&self, _browser: u32, _is_made: bool) {}
    /// The supervisor connected to the attached browser with this index.
    fn connected(&self, _browser: u32) {}
    /// The connection ended: it was lost, or greenroom closed it.
    fn disconnected(&self, _browser: u32) {}
    /// A browser was lost during a call.
    fn lost_call(&self, _pool: &str, _instance: InstanceId) {}
}

/// Counts nothing.
impl Watcher for () {}
