//! The status of a pool: which instances it has, how they are, and how many slots are leased. It is for
//! lists, probes and metrics; no code decides anything by it.

use std::time::SystemTime;

use greenroom_core::InstanceId;

/// The status of a pool.
#[derive(Debug, Clone)]
pub struct PoolStatus {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    /// The pool starts and stops instances as they are needed, up to a limit; it lists only those that run.
    pub elastic: bool,
    /// An operator drained all instances, future ones too: the pool leases nothing until it is restarted.
    pub drained: bool,
    /// In the order of their numbers.
    pub instances: Vec<InstanceStatus>,
    /// How many slots there are when every instance runs, future instances included.
    pub slots: usize,
    pub leased_slots: usize,
    /// Open seats in free slots that have no owner yet.
    pub spares: usize,
    pub waiting: usize,
    /// No proxy of greenroom stands between some browser of the pool and the network: no network policy holds there.
    pub unproxied: bool,
}

#[derive(Debug, Clone)]
pub struct InstanceStatus {
    pub id: InstanceId,
    pub alias: Option<String>,
    pub health: Health,
    /// The instance leases nothing more, and stops when its last lease is back.
    pub draining: bool,
    pub slots: usize,
    pub leased_slots: usize,
    pub spares: usize,
    /// When the oldest current lease began; for an owner, the oldest of its own.
    pub leased_since: Option<SystemTime>,
    /// The configured browser.
    pub browser: String,
    pub headless: bool,
    pub process_id: Option<u32>,
    pub check: Check,
    /// How often the supervisor started the instance again after a failure.
    pub restarts: u64,
}

/// The health of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The instance runs, and has not missed three health checks in a row.
    Healthy,
    /// The instance is being started, or a call that needs it will start it.
    Starting,
    /// The instance ended or does not answer. The pool's settings decide whether its supervisor starts it again.
    Failed,
}

/// The latest health check of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    pub last: Option<SystemTime>,
    pub responsive: bool,
    pub error: Option<String>,
}

impl PoolStatus {
    pub fn healthy(&self) -> usize {
        self.instances.iter().filter(|instance| instance.health == Health::Healthy).count()
    }
}

impl InstanceStatus {
    /// Whether no slot is free.
    pub fn is_leased(&self) -> bool {
        self.leased_slots >= self.slots
    }

    /// Whether the instance can lease a slot now.
    pub fn is_available(&self) -> bool {
        self.health == Health::Healthy && self.check.responsive && !self.draining && !self.is_leased()
    }
}
