//! What the ledger knows of an instance: whether it lends, who has which of its slots, and who waits for it alone.

use std::collections::BTreeSet;

use super::WaiterId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Started when it is needed.
    Cold,
    Starting,
    Open,
    /// It runs, but did not answer. It lends nothing until it does; what is lent stays lent.
    Withheld,
    /// It is gone.
    Down {
        back: bool,
    },
    /// It lends nothing more; what is lent stays lent.
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
    /// It prepares the slot, or clears it up.
    House,
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) phase: Phase,
    pub(super) slots: Vec<Slot>,
    /// Slots lent to callers, and to the house.
    pub(super) lent: usize,
    pub(super) upkeep: usize,
    /// Those who want this instance and no other.
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
