//! Where a session lives: in the pool or attached browser that its first call names, or in the default one. Also makes
//! the errors for a call that names another pool or browser than its session's, or one that its owner may not use.

use std::sync::Arc;

use greenroom_core::Owner;

use super::{Inner, SessionKey};
use crate::{
    attached_browsers::NotChosen,
    error::FleetError,
    pool::Pool,
    registry::{Registry, RegistryKey},
    session::{Placement, SessionHandle},
    target::CallTarget,
};

impl Inner {
    /// Where a new session of this owner is to live.
    pub(super) fn placement_for(&self, owner: &Owner, target: &CallTarget) -> Result<Placement, FleetError> {
        let pool = self.pool_for(target)?;
        if pool.settings().local_only && !owner.is_local() {
            return Err(FleetError::NotYours { pool: pool.name.to_string(), browser: pool.kind.browser() });
        }
        let key = target.instance.as_deref().map(|name| pool.bound_instance(name)).transpose()?.flatten();
        Ok(Placement { pool, key })
    }

    /// Where an ended session lived, if that pool still exists.
    pub(super) fn last_placement(&self, registry: &Registry, key: &RegistryKey) -> Option<Placement> {
        registry
            .last_placement(key)
            .filter(|placement| placement.pool.kind.why_removed().is_none())
            .map(Placement::without_unavailable_instance)
    }

    /// The pool that a call runs in, or why it will not run.
    pub(super) fn pool_of(
        &self,
        owner: &Owner,
        session_key: &SessionKey,
        target: &CallTarget,
    ) -> Result<Arc<Pool>, FleetError> {
        let Ok((key, _)) = self.key_of(owner, session_key) else { return self.pool_for(target) };
        let registry = self.lock();
        match registry.sessions.get(&key) {
            Some(handle) => {
                self.check_placement(&key, handle, target)?;
                Ok(handle.placement.pool.clone())
            }
            None => match self.last_placement(&registry, &key).filter(|_| *target == CallTarget::default()) {
                Some(placement) => Ok(placement.pool),
                None => self.pool_for(target),
            },
        }
    }

    /// Checks that the session lives in the target. A session never moves; the error says where it lives.
    pub(super) fn check_placement(
        &self,
        key: &RegistryKey,
        handle: &SessionHandle,
        target: &CallTarget,
    ) -> Result<(), FleetError> {
        let Placement { pool, key: bound } = &handle.placement;
        let lives_in = handle.shared.state().instance.or(*bound);
        let elsewhere = || FleetError::Elsewhere {
            session: key.label(&self.connections),
            pool: pool.name.to_string(),
            browser: pool.kind.browser(),
            instance: lives_in,
        };
        if let Some(name) = &target.pool
            && self.pool(name)?.name != pool.name
        {
            return Err(elsewhere());
        }
        if target.browser.is_some() && self.pool_for(target)?.name != pool.name {
            return Err(elsewhere());
        }
        let named = target.instance.as_deref().map(|name| pool.bound_instance(name)).transpose()?.flatten();
        if named.is_some() && named != lives_in { Err(elsewhere()) } else { Ok(()) }
    }

    /// The pool in which a call with this target begins: the one it names, its browser's, or the default one.
    fn pool_for(&self, target: &CallTarget) -> Result<Arc<Pool>, FleetError> {
        match (&target.pool, &target.browser) {
            (Some(_), Some(_)) => Err(NotChosen::Both.into()),
            (Some(name), None) => self.pool(name).cloned(),
            (None, None) if self.browsers.is_empty() => {
                self.pools.first().cloned().ok_or(FleetError::NotChosen(NotChosen::Nowhere))
            }
            (None, given) => Ok(self.browsers.choose(given.as_deref())?.pool.clone()),
        }
    }

    /// Every pool, those of attached browsers too.
    pub(super) fn all_pools(&self) -> Vec<Arc<Pool>> {
        self.pools.iter().cloned().chain(self.browsers.pools()).collect()
    }

    /// The pool of this name.
    pub(super) fn pool(&self, name: &str) -> Result<&Arc<Pool>, FleetError> {
        let found = self.pools.iter().find(|pool| &*pool.name == name);
        found.ok_or_else(|| FleetError::NoPool {
            name: name.to_owned(),
            known: self.pools.iter().map(|pool| pool.name.to_string()).collect(),
        })
    }

    /// Adds to a lease timeout who holds the slots, as far as this owner may know.
    pub(crate) fn with_holders(&self, error: FleetError, placement: &Placement, owner: &Owner) -> FleetError {
        let FleetError::Lease(mut late) = error else { return error };
        let registry = self.lock();
        let holding = registry.sessions.iter().filter(|(_, handle)| {
            let instance = handle.shared.state().instance;
            handle.placement.pool.name == placement.pool.name
                && instance.is_some()
                && placement.key.is_none_or(|key| instance == Some(key))
        });
        let (own, others): (Vec<_>, Vec<_>) = holding.partition(|(key, _)| key.owner() == owner);
        late.holders = own.iter().map(|(key, _)| key.label(&self.connections)).collect();
        late.holders.sort();
        if !others.is_empty() {
            late.holders.push(format!("{} of other owners", others.len()));
        }
        late.into()
    }
}
