//! Seats of an attached browser that were lost while they waited for their owner's next call without a session. That
//! call gets another tab, and must say so: the page that its agent remembers is gone.

use std::collections::{HashMap, VecDeque};

use greenroom_core::Owner;

use crate::session::NewTab;

/// How many owners are remembered. One costs some 200 bytes; only a browser with contexts of greenroom's own has more
/// than one, and whoever comes back after a thousand others learns it from an empty page.
const OWNERS_MAX: usize = 1024;

/// By owner.
#[derive(Default)]
pub(super) struct LostSeats {
    notes: HashMap<Owner, NewTab>,
    /// Its keys in order, oldest first.
    order: VecDeque<Owner>,
}

impl LostSeats {
    pub(super) fn put(&mut self, owner: Owner, note: NewTab) {
        if self.notes.insert(owner.clone(), note).is_none() {
            self.order.push_back(owner);
        }
        if self.notes.len() > OWNERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.notes.remove(&oldest);
        }
    }

    pub(super) fn take(&mut self, owner: &Owner) -> Option<NewTab> {
        let note = self.notes.remove(owner)?;
        self.order.retain(|other| other != owner);
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browsers::BrowserName;

    /// So many owners are remembered and no more, the latest ones; each is told once.
    #[test]
    fn the_latest_are_remembered() {
        let mut lost = LostSeats::default();
        let browser = BrowserName { index: 1, label: None }.into();
        let note = NewTab { browser, is_tab: false, why: "gone".to_owned(), keeps_logins: true };
        let owner = |number: usize| Owner::new(&number.to_string());
        for number in 0..=OWNERS_MAX {
            lost.put(owner(number), note.clone());
            lost.put(owner(number), note.clone());
        }
        assert_eq!((lost.notes.len(), lost.order.len()), (OWNERS_MAX, OWNERS_MAX));
        assert_eq!((lost.take(&owner(0)), lost.take(&owner(1))), (None, Some(note)));
        assert_eq!((lost.take(&owner(1)), lost.order.len()), (None, OWNERS_MAX - 1));
    }
}
