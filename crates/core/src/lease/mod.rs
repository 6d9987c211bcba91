//! The lease ledger: which slots of which instances are leased, and who waits. A pure state machine; the fleet wraps it
//! with a mutex and wakers.
//!
//! A waiter wants a slot of any instance, or of one instance only. A slot that comes back goes to one of the waiters that
//! accept it: to the owner whose last lease is longest ago, and among the waiters of that owner to the one that has waited
//! longest. So owners are served in turn, however many waiters each has, and no waiter overtakes another of its
//! owner. The ledger leases slots of running instances only. When an instance is gone its leases are void, and the
//! ledger ignores those that callers still return. Instances that are not needed yet are cold, and the ledger says when to
//! start one.
//!
//! Under [`Sharing::OneOwner`] an instance serves one owner until it is restarted: `sharing.rs` says which instances are
//! cleared and restarted for owners that wait.
//!
//! Requesting a slot, returning it and giving up cost about the same however many instances and waiters there are. The
//! cost grows with the number of owners that wait at the same time; under [`Sharing::OneOwner`], while callers wait, also with
//! the number of instances.

mod figures;
mod free;
mod grant;
mod instance_slots;
mod ledger;
mod line;
mod phases;
#[cfg(test)]
mod random;
mod sharing;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;

use crate::id::{InstanceId, Owner};

pub use self::{free::SLOTS_MAX, ledger::Ledger};

/// The most instances a pool can have.
pub const INSTANCES_MAX: usize = 1024;

/// Which free slot the ledger leases to a caller that asks for no particular instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The slot that was returned first.
    #[default]
    Fifo,
    /// A slot of the next instance, in turn.
    RoundRobin,
    /// A slot of the instance with the fewest leases.
    LeastUsed,
    /// The slot that the same caller had last; else the slot that was returned first.
    Sticky,
    /// A slot of the first instance with room, so that later instances can empty.
    Fill,
}

/// Whether callers of several owners may use one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Owners share instances. Their sessions are apart in browser contexts only.
    #[default]
    All,
    /// An instance serves one owner. It is restarted before it serves another: a context that is closed may leave something
    /// in the processes of its browser.
    OneOwner,
}

/// A waiter in the queue. An earlier waiter has the smaller id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    ticket: u64,
    /// The only instance whose slots the waiter accepts; `None` for any.
    key: Option<InstanceId>,
    owner: Owner,
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub struct SlotRequest {
    /// Who the caller belongs to.
    pub owner: Owner,
    /// The only instance whose slots the caller accepts; `None` for any.
    pub key: Option<InstanceId>,
    /// The slot that the caller gets if it is free.
    pub prefer: Option<(InstanceId, usize)>,
    /// The caller, for [`Strategy::Sticky`].
    pub caller: Option<u64>,
}

impl SlotRequest {
    /// A request for any slot.
    pub fn any(owner: &Owner) -> Self {
        Self { owner: owner.clone(), key: None, prefer: None, caller: None }
    }

    /// A request for a slot of this instance.
    pub fn keyed(owner: &Owner, instance: InstanceId) -> Self {
        Self { key: Some(instance), ..Self::any(owner) }
    }
}

/// A leased slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId {
    pub instance: InstanceId,
    pub slot: usize,
    /// Unique for each lease: a lease that was given back, or whose instance is gone, is void.
    serial: u64,
}

/// The result of a request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotAnswer {
    Leased(LeaseId),
    /// All slots are leased: wait for a [`Grant`].
    Wait(WaiterId),
    Refused(LeaseRefused),
}

/// Why the ledger refuses a request: its caller could never get a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRefused {
    /// The instance that the caller asks for has left the pool.
    Gone(InstanceId),
    /// The instance leases nothing more.
    Draining(InstanceId),
    /// The instance failed.
    Failed(InstanceId),
    /// No instance of the pool will lease anything.
    NoInstanceLeases,
}

/// A slot handed to a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub waiter: WaiterId,
    pub lease: LeaseId,
}

/// The waiters that got a slot, and those that were refused, by a change of an instance.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub granted: Vec<Grant>,
    pub refused: Vec<(WaiterId, LeaseRefused)>,
}

/// Whether an instance that is gone is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartOutlook {
    /// The instance starts when a caller needs it.
    OnDemand,
    /// Its supervisor starts it after a pause.
    Soon,
    /// Callers do not wait for the instance: it failed too often, is drained, or is removed.
    None,
}

/// The result of a request for a slot for internal use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalSlot {
    Slot(LeaseId),
    /// A slot comes free as soon as an instance has started.
    Soon,
    NoRoom,
}

/// How full a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Instances that run or are being started.
    pub instances: usize,
    /// Slots leased to callers.
    pub leased: usize,
    /// How many slots there are when every instance runs. An instance that leases nothing more counts with its leased
    /// slots only.
    pub slots: usize,
    pub waiting: usize,
}
