//! The fleet's pools: listing and changing them.

use greenroom_core::{InstanceId, Owner};

use super::{Fleet, SessionKey};
use crate::{
    error::FleetError,
    pool::{PoolSettings, Readiness},
    pool_status::PoolStatus,
    target::{CallTarget, Scaled},
};

impl Fleet {
    /// Every pool, the default one first: for the operator of greenroom and for totals.
    pub fn pools(&self) -> Vec<PoolStatus> {
        self.0.pools.iter().map(|pool| pool.status(None)).collect()
    }

    pub fn pool(&self, name: &str) -> Result<PoolStatus, FleetError> {
        Ok(self.0.pool(name)?.status(None))
    }

    /// Every pool as this owner may see it, the default one first.
    pub fn pools_for(&self, owner: &Owner) -> Vec<PoolStatus> {
        self.0.pools.iter().map(|pool| pool.status(viewer(owner))).collect()
    }

    /// A pool as this owner may see it.
    pub fn pool_for(&self, owner: &Owner, name: &str) -> Result<PoolStatus, FleetError> {
        Ok(self.0.pool(name)?.status(viewer(owner)))
    }

    /// The names of the pools, the default one first.
    pub fn pool_names(&self) -> Vec<String> {
        self.0.pools.iter().map(|pool| pool.name.to_string()).collect()
    }

    /// The pool of calls that name no pool and no browser. Empty if there are no pools.
    pub fn default_pool(&self) -> &str {
        self.0.pools.first().map_or("", |pool| &pool.name)
    }

    /// Whether the fleet accepts no more calls.
    pub fn is_stopping(&self) -> bool {
        self.0.check_open().is_err()
    }

    /// The pool in which a call with this target runs, which may be an attached browser's; or why it will not run.
    pub fn pool_of_call(
        &self,
        owner: &Owner,
        session_key: &SessionKey,
        target: &CallTarget,
    ) -> Result<String, FleetError> {
        Ok(self.0.pool_of(owner, session_key, target)?.name.to_string())
    }

    /// Whether the fleet can take calls that name no pool or browser. One pool or browser that can is enough.
    pub fn readiness(&self) -> Readiness {
        self.0.readiness()
    }

    /// Changes a pool to this number of instances. Leases in use stay valid.
    pub fn scale(&self, pool: &str, instances: usize) -> Result<Scaled, FleetError> {
        self.0.check_open()?;
        self.0.pool(pool)?.scale(instances)
    }

    /// Restarts an instance, or all of a pool: failed instances at once, running ones when their leases are back.
    pub fn restart(&self, pool: &str, instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        self.0.check_open()?;
        self.0.pool(pool)?.restart(instance)
    }

    /// Drains an instance, or all of a pool: each leases nothing more, and stops when its leases are back.
    pub fn drain(&self, pool: &str, instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        self.0.check_open()?;
        self.0.pool(pool)?.drain(instance)
    }

    /// Applies new settings to a pool, as far as they can change while it runs.
    pub fn apply(&self, settings: PoolSettings) -> Result<(), FleetError> {
        self.0.pool(&settings.name)?.apply(settings)
    }

    /// Checks the health of every instance now, because the machine slept and woke up.
    pub fn check_after_sleep(&self) {
        self.0.all_pools().iter().for_each(|pool| pool.check_after_sleep());
    }
}

/// The owner whose view of the pools is limited to its own leases. `local` is the user who runs greenroom, and sees all.
fn viewer(owner: &Owner) -> Option<&Owner> {
    Some(owner).filter(|owner| !owner.is_local())
}
