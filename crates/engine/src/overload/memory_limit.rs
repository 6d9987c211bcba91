//! How much memory a browser may take. A limit that the user has set holds for each browser. Without one, a browser may take
//! 2 GiB, and all such browsers of this process share half of the machine's memory: each may take what the others leave, and
//! always its equal part.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;

use super::machine_memory;
use crate::browser_limits::{MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN};

/// The browsers of this process that share the machine's memory.
static SHARED: LazyLock<Arc<SharedBudget>> = LazyLock::new(|| {
    // This leaves room for greenroom, the engines and other programs. If the machine's memory is unknown there is no
    // limit: any guess would be wrong.
    Arc::new(SharedBudget::new(machine_memory().map_or(u64::MAX, |all| all / 2)))
});

/// The limit of one browser.
pub(super) enum MemoryLimit {
    Fixed(u64),
    Shared(BudgetMember),
}

impl MemoryLimit {
    /// `setting` is the limit that the user has set.
    pub(super) fn new(setting: Option<u64>, browser: u32) -> Self {
        setting.map_or_else(|| Self::Shared(SHARED.join(browser)), Self::Fixed)
    }

    /// The limit, now that the browser takes this much.
    pub(super) fn bytes_max(&self, taken: u64) -> u64 {
        match self {
            Self::Fixed(max) => *max,
            // With less, a browser could not open a page.
            Self::Shared(member) => member.bytes_max(taken).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_DEFAULT),
        }
    }
}

/// Memory that several browsers share.
struct SharedBudget {
    bytes: u64,
    /// What each browser took at its last measurement, by its process.
    taken: Mutex<HashMap<u32, u64>>,
}

impl SharedBudget {
    fn new(bytes: u64) -> Self {
        Self { bytes, taken: Mutex::default() }
    }

    fn join(self: &Arc<Self>, browser: u32) -> BudgetMember {
        self.taken.lock().insert(browser, 0);
        BudgetMember { budget: self.clone(), browser }
    }
}

/// A browser's part in a budget. The others get it when this is dropped.
pub(super) struct BudgetMember {
    budget: Arc<SharedBudget>,
    browser: u32,
}

impl BudgetMember {
    fn bytes_max(&self, taken: u64) -> u64 {
        let mut all_taken = self.budget.taken.lock();
        all_taken.insert(self.browser, taken);
        let of_others: u64 =
            all_taken.iter().filter(|(browser, _)| **browser != self.browser).map(|(_, taken)| taken).sum();
        let equal_part = self.budget.bytes / (all_taken.len() as u64).max(1);
        self.budget.bytes.saturating_sub(of_others).max(equal_part)
    }
}

impl Drop for BudgetMember {
    fn drop(&mut self) {
        self.budget.taken.lock().remove(&self.browser);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A browser may take what the others leave, and never less than its equal part: if all together take too much, those
    /// above their part are over the limit. What a browser took is free when it ends.
    #[test]
    fn browsers_share_a_budget() {
        let budget = Arc::new(SharedBudget::new(1_000));
        let large = budget.join(1);
        assert_eq!(large.bytes_max(900), 1_000, "it is alone");
        let small = budget.join(2);
        assert_eq!(small.bytes_max(200), 500);
        assert_eq!(large.bytes_max(900), 800, "together they take too much, and it is the larger");
        assert_eq!(large.bytes_max(700), 800);
        let third = budget.join(3);
        assert_eq!(third.bytes_max(50), 1_000 / 3);
        drop(large);
        assert_eq!(small.bytes_max(200), 950);
        assert_eq!(MemoryLimit::Fixed(7).bytes_max(900), 7);
    }

    /// A browser without a limit of its own may take 2 GiB however much is free, and always as much as an empty one needs.
    #[test]
    fn share_is_neither_more_than_the_default_nor_too_little() {
        for (budget, max) in [(1 << 40, 2 << 30), (1 << 30, 1 << 30), (1 << 20, 1 << 28)] {
            let member = Arc::new(SharedBudget::new(budget)).join(1);
            assert_eq!(MemoryLimit::Shared(member).bytes_max(1), max, "{budget}");
        }
    }
}
