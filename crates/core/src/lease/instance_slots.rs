//! What the ledger knows of an instance: whether it leases, who has which of its slots, and who waits for it alone.

use std::collections::BTreeSet;

use super::WaiterId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Started when it is needed.
    Cold,
    Starting,
    Open,
    /// It runs, but did not answer. It leases nothing until it does; its leases stay valid.
    Withheld,
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
    Out { serial: u64, to: To },
}

/// Who has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Caller,
    /// Internal use: the pool prepares the slot, or clears it up.
    Internal,
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) phase: Phase,
    pub(super) slots: Vec<Slot>,
    /// Slots leased to callers, and slots in internal use.
    pub(super) lent: usize,
    pub(super) upkeep: usize,
    /// The waiters that want this instance and no other.
    pub(super) line: BTreeSet<WaiterId>,
}

impl Place {
    pub(super) fn out(&self) -> usize {
        self.lent + self.upkeep
    }

    pub(super) fn is_hopeful(&self) -> bool {
        !matches!(self.phase, Phase::Down { back: false } | Phase::Draining { back: false })
    }
}
