//! How much one owner may use at once. The fleet asks for an owner's limits whenever the owner wants more, so limits may
//! change at any time: what the owner has stays, and new requests are refused until it has less.

use std::fmt;

use crate::id::Owner;

/// What an owner may use at once. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnerLimits {
    /// Open sessions. A call without a session is none.
    pub sessions: Option<usize>,
    /// Calls that wait or run.
    pub calls_in_flight: Option<usize>,
    /// Calls that wait for a browser, or for earlier calls of their session.
    pub waiting_calls: Option<usize>,
}

/// Knows the limits of each owner.
pub trait Quotas: fmt::Debug + Send + Sync {
    /// The limits of this owner now.
    fn limits(&self, owner: &Owner) -> OwnerLimits;
}

/// The same limits for every owner except `local`, which has none: its calls come from the user who runs greenroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SameQuotas(pub OwnerLimits);

impl Quotas for SameQuotas {
    fn limits(&self, owner: &Owner) -> OwnerLimits {
        if owner.is_local() { OwnerLimits::default() } else { self.0 }
    }
}
