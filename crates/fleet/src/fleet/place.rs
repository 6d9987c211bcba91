//! Where a call would run, for those who must know before it does: which pool, or which attached browser.

use std::sync::Arc;

use greenroom_core::Owner;

use super::{Fleet, Whose};
use crate::{browsers::BrowserStatus, error::FleetError, target::Target};

impl Fleet {
    /// The pool that a call with this target runs in, by the rules of the call itself, or why there is none. The pool of
    /// an attached browser is called as [`crate::pool_name`] says. A session that is just being made may turn out to live
    /// elsewhere; then the call hears so.
    pub fn place_of(&self, owner: &Owner, whose: &Whose, target: &Target) -> Result<Arc<str>, FleetError> {
        Ok(self.0.pool_of(owner, whose, target)?.name.clone())
    }

    /// The attached browser that is meant by this index or label, or by none: with one there is nothing to say, with
    /// several it has to be said.
    pub fn chosen_browser(&self, given: Option<&str>) -> Result<BrowserStatus, FleetError> {
        Ok(self.0.browsers.choose(given)?.status())
    }
}
