//! Counts the calls of each owner, and refuses those over its limits.

use std::{collections::HashMap, sync::Arc};

use greenroom_core::{Owner, quota::OwnerLimits};
use parking_lot::Mutex;

use crate::error::FleetError;

/// The calls of each owner that has any. Nothing is kept of an owner without calls.
#[derive(Default)]
pub(crate) struct CallCounts(Mutex<HashMap<Owner, CallCount>>);

#[derive(Default)]
struct CallCount {
    in_flight: usize,
    waiting: usize,
}

/// A call that counts towards its owner's limits, until this is dropped.
pub(crate) struct CountedCall {
    counts: Arc<CallCounts>,
    owner: Owner,
    is_waiting: bool,
}

impl CallCounts {
    /// Counts a call, which waits at first, unless it is over one of its owner's limits.
    pub(crate) fn admit(
        self: &Arc<Self>,
        owner: &Owner,
        limits: OwnerLimits,
    ) -> Result<CountedCall, FleetError> {
        let mut counts = self.0.lock();
        let used = counts.get(owner).map_or((0, 0), |count| (count.in_flight, count.waiting));
        let (in_flight, waiting) = used;
        if let Some(max) = limits.calls_in_flight.filter(|max| in_flight >= *max) {
            return Err(FleetError::TooManyCalls { used: in_flight, max });
        }
        if let Some(max) = limits.waiting_calls.filter(|max| waiting >= *max) {
            return Err(FleetError::TooManyWaitingCalls { used: waiting, max });
        }
        let count = counts.entry(owner.clone()).or_default();
        count.in_flight += 1;
        count.waiting += 1;
        Ok(CountedCall { counts: self.clone(), owner: owner.clone(), is_waiting: true })
    }
}

impl CountedCall {
    /// Notes that the call runs now.
    pub(crate) fn runs(&mut self) {
        if std::mem::take(&mut self.is_waiting)
            && let Some(count) = self.counts.0.lock().get_mut(&self.owner)
        {
            count.waiting -= 1;
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.runs();
        let mut counts = self.counts.0.lock();
        let Some(count) = counts.get_mut(&self.owner) else { return };
        count.in_flight -= 1;
        if count.in_flight == 0 {
            counts.remove(&self.owner);
        }
    }
}
