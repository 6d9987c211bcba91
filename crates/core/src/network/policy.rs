//! What an operator or a session configures: a preset, rules that allow and rules that deny.
//!
//! A connection must pass every layer: the pool's policy, and the policy of its session if it has one. So a session can
//! only narrow what its pool permits. Called by [`super::verdict`].

use std::{net::IpAddr, sync::Arc};

use super::{
    range::{AddressRange, with_embedded},
    rule::NetworkRule,
    verdict::{Blocked, DialTarget},
};
use crate::settings::NetworkPreset;

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    pub preset: NetworkPreset,
    /// Connections that `guarded` permits although their address is not public.
    pub allow: Vec<NetworkRule>,
    /// Connections that are refused, also if `allow` has them.
    pub deny: Vec<NetworkRule>,
}

impl NetworkPolicy {
    /// Permits everything but what no policy permits.
    pub const OPEN: Self = Self { preset: NetworkPreset::Open, allow: Vec::new(), deny: Vec::new() };
    /// Permits public addresses only.
    pub const GUARDED: Self = Self { preset: NetworkPreset::Guarded, allow: Vec::new(), deny: Vec::new() };

    /// Judges a connection. `is_this_machine` says whether an address is one of this machine's; it is asked only if the
    /// verdict depends on it.
    fn judge(&self, target: &DialTarget, is_this_machine: &dyn Fn(IpAddr) -> bool) -> Result<(), Blocked> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches(target)) {
            return Err(Blocked::Denied(rule.text().clone()));
        }
        if self.preset == NetworkPreset::Open || self.allow.iter().any(|rule| rule.matches(target)) {
            return Ok(());
        }
        // A mapped address is this machine's and in a range of its own: the range says more.
        let range = with_embedded(target.address).find_map(AddressRange::of_address).or_else(|| {
            with_embedded(target.address).any(is_this_machine).then_some(AddressRange::ThisMachine)
        });
        range.map_or(Ok(()), |range| Err(Blocked::Range(range)))
    }
}

/// The policies that a connection must pass, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLayers(Vec<Arc<NetworkPolicy>>);

impl PolicyLayers {
    pub fn new(pool: Arc<NetworkPolicy>) -> Self {
        Self(vec![pool])
    }

    /// These layers and one more. The result permits nothing that these layers refuse.
    pub fn narrowed(&self, policy: Arc<NetworkPolicy>) -> Self {
        Self(self.0.iter().cloned().chain([policy]).collect())
    }

    pub(super) fn judge(
        &self,
        target: &DialTarget,
        is_this_machine: &dyn Fn(IpAddr) -> bool,
    ) -> Result<(), Blocked> {
        self.0.iter().try_for_each(|layer| layer.judge(target, is_this_machine))
    }

    /// Judges a name before anything resolves it: a lookup alone can carry data to its name server.
    pub(super) fn judge_name(&self, host: &str, port: u16) -> Result<(), Blocked> {
        let denied = self.0.iter().flat_map(|layer| &layer.deny).find(|rule| rule.matches_name(host, port));
        denied.map_or(Ok(()), |rule| Err(Blocked::Denied(rule.text().clone())))
    }
}

impl From<NetworkPolicy> for PolicyLayers {
    fn from(policy: NetworkPolicy) -> Self {
        Self::new(Arc::new(policy))
    }
}
