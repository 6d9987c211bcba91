//! What the ledger knows of an instance: its phase, the holders of its slots, and the waiters that want no other
//! instance.

use super::line::Line;
use crate::id::Owner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It does not run; the ledger asks the pool to start it when a caller needs it.
    Cold,
    Starting,
    Open,
    /// It runs, but did not answer a health check. It leases nothing until it answers; its leases stay valid.
    Withheld,
    /// It runs and has served an owner, and another owner waits for it. It leases nothing, and is restarted when its last
    /// lease is back.
    Clearing,
    /// It is gone.
    Down {
        back: bool,
    },
    /// It leases nothing more; its leases stay valid.
    Draining {
        back: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    Leased { serial: u64, holder: SlotHolder },
}

/// The holder of a leased slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotHolder {
    Caller,
    /// The pool itself, while it opens or closes a seat in the slot.
    Internal,
}

/// Whose callers an instance has served since it started. What they left in its processes ends only with these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tenant {
    Nobody,
    Owner(Owner),
    /// More than one owner. Where owners share no instance, it serves no owner until its restart.
    Several,
}

#[derive(Debug)]
pub(super) struct InstanceSlots {
    pub(super) phase: Phase,
    pub(super) tenant: Tenant,
    pub(super) slots: Vec<Slot>,
    /// Slots leased to callers, and slots in internal use.
    pub(super) leased: usize,
    pub(super) internal: usize,
    /// The waiters that want this instance and no other.
    pub(super) waiters: Line,
}

impl InstanceSlots {
    pub(super) fn taken(&self) -> usize {
        self.leased + self.internal
    }

    /// Whether the instance has served no other owner than this one.
    pub(super) fn is_clean_for(&self, owner: &Owner) -> bool {
        match &self.tenant {
            Tenant::Nobody => true,
            Tenant::Owner(tenant) => tenant == owner,
            Tenant::Several => false,
        }
    }

    pub(super) fn may_lease(&self) -> bool {
        !matches!(self.phase, Phase::Down { back: false } | Phase::Draining { back: false })
    }
}
