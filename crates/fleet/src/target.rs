//! How a caller names a pool, instance or browser, and the trait that counts what happens there.

use std::time::Duration;

use greenroom_core::{InstanceId, SessionUid};

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

/// The result of a change of a pool's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaled {
    pub from: usize,
    pub to: usize,
    /// Instances that leave when their leases are back.
    pub draining: Vec<InstanceId>,
}

/// Counts what happens in the pools. It must not block.
pub trait Watcher: Send + Sync {
    fn leased(&self, _pool: &str, _instance: InstanceId, _waited: Duration) {}
    fn not_leased(&self, _pool: &str, _why: &FleetError, _waited: Duration) {}
    fn restarted(&self, _pool: &str, _instance: InstanceId) {}
    /// A session is over: closed, or lost.
    fn session_ended(&self, _session: &SessionUid, _lost: bool) {}
    /// A connection to the attached browser of this index was tried.
    fn tried_to_connect(&self, _browser: u32, _is_made: bool) {}
    /// The connection was made.
    fn connected(&self, _browser: u32) {}
    /// The connection is over: lost, or given up.
    fn disconnected(&self, _browser: u32) {}
    /// A browser was lost during a call.
    fn lost_call(&self, _pool: &str, _instance: InstanceId) {}
}

/// Counts nothing.
impl Watcher for () {}
