//! What a pool looks like from outside: which instances there are, how they are, and how full they are. Read by lists,
//! probes and metrics; nothing is decided by it.

use std::time::SystemTime;

use greenroom_core::InstanceId;

/// A pool, as far as others may know.
#[derive(Debug, Clone)]
pub struct PoolStatus {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    /// Instances come and go as they are needed, up to a limit; those that do not run are not listed.
    pub elastic: bool,
    /// All of its instances, those to come too, were drained by hand: it lends nothing until it is restarted.
    pub drained: bool,
    /// By number.
    pub instances: Vec<InstanceStatus>,
    /// Slots there are when every instance runs, those of instances to come too.
    pub slots: usize,
    /// Slots that are lent.
    pub leased_slots: usize,
    /// Open seats in free slots that belong to nobody yet.
    pub spares: usize,
    pub waiting: usize,
}

#[derive(Debug, Clone)]
pub struct InstanceStatus {
    pub id: InstanceId,
    pub alias: Option<String>,
    pub health: Health,
    /// It lends nothing more, and stops when its last lease is back.
    pub draining: bool,
    pub slots: usize,
    pub leased_slots: usize,
    pub spares: usize,
    /// When the oldest of the leases that are out began.
    pub leased_since: Option<SystemTime>,
    /// Which browser it is configured for.
    pub browser: String,
    pub headless: bool,
    pub process_id: Option<u32>,
    pub check: Check,
    /// How often it was started again after a failure.
    pub restarts: u64,
}

/// How an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It runs and answers, or missed a check or two.
    Healthy,
    /// It is being started, or will be with the first call.
    Starting,
    /// It ended or does not answer. Whether it is started again is the pool's business.
    Failed,
}

/// The last look at an instance.
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
    /// No slot is free.
    pub fn is_leased(&self) -> bool {
        self.leased_slots >= self.slots
    }

    /// It can be lent now.
    pub fn is_available(&self) -> bool {
        self.health == Health::Healthy && self.check.responsive && !self.draining && !self.is_leased()
    }
}
