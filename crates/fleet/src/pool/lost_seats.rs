//! Seats of an attached browser that were lost while they waited for their owner's next call without a session. That
//! call gets another tab, and its answer carries a note: the page that its agent remembers is gone.

use std::sync::Arc;

use greenroom_core::{Lost, Owner, Seat};
use parking_lot::Mutex;

use super::{Lease, lock};
use crate::{
    attached_browsers::BrowserName,
    bounded_map::BoundedMap,
    session::{NewTab, Note},
};

/// How many owners the pool remembers, some 200 bytes each. Only a browser in which greenroom makes its own contexts
/// has more than one owner. An owner that comes back after a thousand others gets no note, only an empty page.
const OWNERS_MAX: usize = 1024;

pub(crate) struct LostSeats {
    /// `None` for browsers that greenroom started: there a call without a session may get any empty page, without a
    /// note.
    browser: Option<Arc<BrowserName>>,
    keeps_logins: bool,
    notes: Mutex<BoundedMap<Owner, NewTab, OWNERS_MAX>>,
}

impl LostSeats {
    pub(super) fn new(browser: Option<Arc<BrowserName>>, keeps_logins: bool) -> Self {
        Self { browser, keeps_logins, notes: Mutex::default() }
    }

    /// Notes that a seat kept for this owner is lost: alone, or together with its instance for the given reason.
    pub(super) fn lost(&self, owner: Owner, seat: &dyn Seat, instance: Option<&str>) {
        let lost = seat.lost().borrow().clone();
        let is_tab = matches!(lost, Some(Lost::Page(_)));
        if let Some(why) = lost.map(|lost| lost.to_string()).or(instance.map(str::to_owned)) {
            self.note(owner, is_tab, why);
        }
    }

    /// Notes that a seat kept for its owner is closed, because it was lost or else for this reason. A spare has no
    /// owner.
    pub(super) fn closed(&self, owner: Option<Owner>, seat: &dyn Seat, why: &str) {
        let Some(owner) = owner else { return };
        let is_lost = seat.lost().borrow().is_some();
        match is_lost {
            true => self.lost(owner, seat, None),
            false => self.note(owner, true, why.to_owned()),
        }
    }

    /// Notes that the pool does not keep a seat for this owner because the seat was just lost. Other reasons need no
    /// note.
    pub(super) fn not_kept(&self, owner: Owner, lease: &Lease, seat: &dyn Seat) {
        let gone =
            || lease.instance_slot.failure_reason().unwrap_or_else(|| "the connection was lost".to_owned());
        let instance = (!lease.is_alive()).then(gone);
        self.lost(owner, seat, instance.as_deref());
    }

    fn note(&self, owner: Owner, is_tab: bool, why: String) {
        if let Some(browser) = self.browser.clone() {
            self.keep_note(owner, NewTab { browser, is_tab, why, keeps_logins: self.keeps_logins });
        }
    }

    /// Keeps this note for the owner's next call without a session.
    pub(crate) fn keep_note(&self, owner: Owner, note: NewTab) {
        lock(&self.notes).insert(owner, note);
    }

    /// The note for this owner's next call without a session; returned once.
    pub(crate) fn take_note(&self, owner: &Owner) -> Option<Note> {
        lock(&self.notes).remove(owner).map(Note::NewTab)
    }
}
