//! The lease ledger: which slots of which instances are lent, and who waits. A pure state machine; the fleet wraps it
//! with a mutex and wakers.
//!
//! A slot that comes back goes to whoever has waited longest for it: for any slot, or for one of this very instance.
//! Nobody overtakes. Only an instance that runs lends; one that is gone takes its leases with it, and what is still
//! returned to it is void. Instances that are not needed yet are cold, and the ledger says when one is to be started.
//!
//! Asking, returning and giving up cost about the same however many instances there are and however many wait.

mod figures;
mod free;
mod instance_slots;
mod ledger;
mod phases;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

use crate::id::InstanceId;

pub use self::{free::SLOTS_MAX, ledger::Ledger};

/// The most instances a pool can have.
pub const INSTANCES_MAX: usize = 1024;

/// Which free slot is lent to somebody who takes any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The one that was returned first.
    #[default]
    Fifo,
    /// One of the next instance, in turn.
    RoundRobin,
    /// One of the instance with the fewest leases.
    LeastUsed,
    /// The one that the same caller had last; else the one that was returned first.
    Sticky,
    /// One of the first instance with room, so that later ones can empty.
    Fill,
}

/// A place in the line: whoever asked earlier has the lesser one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    ticket: u64,
    /// The instance that it has to be.
    key: Option<InstanceId>,
}

/// What somebody asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Want {
    /// A slot of this instance and no other.
    pub key: Option<InstanceId>,
    /// This slot, if it is free.
    pub prefer: Option<(InstanceId, usize)>,
    /// Who asks, for [`Strategy::Sticky`].
    pub caller: Option<u64>,
}

/// A slot that is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lent {
    pub instance: InstanceId,
    pub slot: usize,
    /// No two leases have the same: one that was given back, or whose instance is gone, is void.
    serial: u64,
}

/// What a request for a slot comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Lent(Lent),
    /// All slots are lent: wait for a [`Grant`].
    Wait(WaiterId),
    Refused(Refused),
}

/// Why there is nothing to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The instance that it has to be is no longer there.
    Gone(InstanceId),
    /// It lends nothing more.
    Draining(InstanceId),
    /// It failed.
    Failed(InstanceId),
    /// No instance of the pool will lend anything.
    Hopeless,
}

/// A slot handed to somebody who waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub waiter: WaiterId,
    pub lent: Lent,
}

/// What a change means to those who wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub granted: Vec<Grant>,
    pub refused: Vec<(WaiterId, Refused)>,
}

/// Whether an instance that is gone comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hope {
    /// When somebody needs it.
    OnDemand,
    /// By itself.
    Soon,
    /// Not unless it is told to.
    None,
}

/// What a slot is wanted for that nobody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spared {
    Slot(Lent),
    /// There will be room as soon as an instance has started.
    Soon,
    NoRoom,
}

/// How full a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Instances that run or are being started.
    pub instances: usize,
    /// Slots lent to callers.
    pub leased: usize,
    /// Slots there are when every instance runs; of those that lend nothing more, the ones that are out.
    pub slots: usize,
    pub waiting: usize,
}
