//! Seats of an attached browser that were lost while they waited for their owner's next call without a session. That
//! call gets another tab, and must say so: the page that its agent remembers is gone.

use std::collections::{HashMap, VecDeque};

use greenroom_core::{Lost, Owner, Seat};

use super::{Lease, Pool, lock};
use crate::session::{NewTab, Note};

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
    fn put(&mut self, owner: Owner, note: NewTab) {
        if self.notes.insert(owner.clone(), note).is_none() {
            self.order.push_back(owner);
        }
        if self.notes.len() > OWNERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.notes.remove(&oldest);
        }
    }

    fn take(&mut self, owner: &Owner) -> Option<NewTab> {
        let note = self.notes.remove(owner)?;
        self.order.retain(|other| other != owner);
        Some(note)
    }
}

impl Pool {
    /// A seat that waited for this owner is lost: by itself, or with its instance for this reason.
    pub(super) fn seat_lost(&self, owner: Owner, seat: &dyn Seat, instance: Option<&str>) {
        // In greenroom's own browsers a call without a session is promised a browser, and no certain page.
        let Some(browser) = self.kind.browser() else { return };
        let lost = seat.lost().borrow().clone();
        let is_tab = matches!(lost, Some(Lost::Page(_)));
        let Some(why) = lost.map(|lost| lost.to_string()).or(instance.map(str::to_owned)) else { return };
        let keeps_logins = self.settings().local_only;
        self.unheard(owner, NewTab { browser, is_tab, why, keeps_logins });
    }

    /// A seat that waited for this owner was closed, though nothing was wrong with it.
    pub(super) fn tab_closed(&self, owner: Owner, why: &str) {
        let Some(browser) = self.kind.browser() else { return };
        let keeps_logins = self.settings().local_only;
        self.unheard(owner, NewTab { browser, is_tab: true, why: why.to_owned(), keeps_logins });
    }

    /// A seat that was to wait for this owner does not, because it was lost a moment ago; or for another reason, of which
    /// there is nothing to say.
    pub(crate) fn seat_not_kept(&self, owner: Owner, lease: &Lease, seat: &dyn Seat) {
        let gone = || lease.place.why().unwrap_or_else(|| "the connection was lost".to_owned());
        let instance = (!lease.is_alive()).then(gone);
        self.seat_lost(owner, seat, instance.as_deref());
    }

    /// This owner's next call without a session must say so.
    pub(crate) fn unheard(&self, owner: Owner, note: NewTab) {
        lock(&self.lost_seats).put(owner, note);
    }

    /// What this owner's next call without a session must say, once.
    pub(crate) fn take_note(&self, owner: &Owner) -> Option<Note> {
        lock(&self.lost_seats).take(owner).map(Note::NewTab)
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
