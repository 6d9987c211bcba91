//! What each owner may use at once: the limits of the settings, and for the owner of an API key as many sessions as its key
//! says.

use std::{collections::HashMap, time::SystemTime};

use greenroom_core::{
    ApiKey, Owner,
    api_key::ApiKeyState,
    quota::{OwnerLimits, Quotas, SameQuotas},
    settings::Settings,
};
use parking_lot::RwLock;

#[derive(Debug)]
pub struct OwnerQuotas {
    defaults: SameQuotas,
    /// The sessions that an owner's keys permit, for owners whose keys say so.
    sessions_by_key: RwLock<HashMap<Owner, usize>>,
}

impl OwnerQuotas {
    pub fn new(settings: &Settings) -> Self {
        let limits = &settings.limits;
        let defaults = SameQuotas(OwnerLimits {
            sessions: limits.sessions_per_owner,
            calls_in_flight: limits.calls_per_owner,
            waiting_calls: limits.waiting_calls_per_owner,
        });
        Self { defaults, sessions_by_key: RwLock::default() }
    }

    /// Follows changed keys. What an owner has already stays open. Of several keys of an owner the most generous counts.
    pub fn follow_keys(&self, keys: &[ApiKey], now: SystemTime) {
        let mut sessions_by_key: HashMap<Owner, usize> = HashMap::new();
        for key in keys.iter().filter(|key| key.state(now) == ApiKeyState::Valid) {
            // A key that says nothing has the limit of the settings.
            let max = key.sessions_max.or(self.defaults.0.sessions).unwrap_or(usize::MAX);
            let most = sessions_by_key.entry(key.name.owner().clone()).or_insert(max);
            *most = max.max(*most);
        }
        *self.sessions_by_key.write() = sessions_by_key;
    }
}

impl Quotas for OwnerQuotas {
    fn limits(&self, owner: &Owner) -> OwnerLimits {
        let limits = self.defaults.limits(owner);
        match self.sessions_by_key.read().get(owner) {
            Some(sessions) => OwnerLimits { sessions: Some(*sessions), ..limits },
            None => limits,
        }
    }
}
