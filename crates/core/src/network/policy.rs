//! What an operator or a session configures: a preset, rules that allow and rules that deny.
//!
//! A connection must pass every layer: the pool's policy, and the policy of its session if it has one. So a session can
//! only narrow what its pool permits. Called by [`super::verdict`].

use std::{net::IpAddr, sync::Arc};

use super::{
    range::{AddressRange, with_embedded},
    rule::NetworkRule,
    verdict::{Blocked, DialTarget, OwnAddresses, OwnPorts, check_name, check_target},
};
use crate::settings::NetworkPreset;

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    pub preset: NetworkPreset,
    /// Connections that `guarded` permits although their address is not public.
    pub allow: Vec<NetworkRule>,
    /// The only connections that are permitted; `None` for any. Sessions have it, pools do not.
    pub only: Option<Vec<NetworkRule>>,
    /// Connections that are refused, also if `allow` or `only` has them.
    pub deny: Vec<NetworkRule>,
}

impl NetworkPolicy {
    /// Permits everything but what no policy permits.
    pub const OPEN: Self = Self::of_preset(NetworkPreset::Open);
    /// Permits public addresses only.
    pub const GUARDED: Self = Self::of_preset(NetworkPreset::Guarded);

    const fn of_preset(preset: NetworkPreset) -> Self {
        Self { preset, allow: Vec::new(), only: None, deny: Vec::new() }
    }

    /// Judges a connection. `is_this_machine` says whether an address is one of this machine's; it is asked only if the
    /// verdict depends on it.
    fn judge(&self, target: &DialTarget, is_this_machine: &dyn Fn(IpAddr) -> bool) -> Result<(), Blocked> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches(target)) {
            return Err(Blocked::Denied(rule.text().clone()));
        }
        if self.only.as_ref().is_some_and(|only| !only.iter().any(|rule| rule.matches(target))) {
            return Err(Blocked::NotListed);
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

    /// Judges a name before anything resolves it: a lookup alone can carry data to its name server.
    fn judge_name(&self, host: &str, port: u16) -> Result<(), Blocked> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches_name(host, port)) {
            return Err(Blocked::Denied(rule.text().clone()));
        }
        // A network may have the name's address.
        let may_be_listed = |rule: &NetworkRule| rule.network().is_some() || rule.matches_name(host, port);
        match &self.only {
            Some(only) if !only.iter().any(may_be_listed) => Err(Blocked::NotListed),
            _ => Ok(()),
        }
    }

    /// Whether verdicts depend on the addresses of names.
    pub fn judges_addresses(&self) -> bool {
        self.preset == NetworkPreset::Guarded || !self.deny.is_empty() || self.only.is_some()
    }

    /// Why the policy refuses everything that this rule names; `None` if it permits some of it, or if that depends on
    /// addresses of names.
    pub(super) fn refuses_all_of(&self, rule: &NetworkRule) -> Option<Blocked> {
        let layers = PolicyLayers::from(self.clone());
        let refusal = |port: u16| {
            let Some(network) = rule.network() else {
                return check_name(rule.host()?, port, &layers).err();
            };
            let refusal = |address: IpAddr| {
                let target = DialTarget { host: address.to_string(), address, port };
                check_target(&target, &NoOwn, &NoOwn, &layers).err()
            };
            // If both ends of a network are in the same special range, all of the network is.
            refusal(network.network()).filter(|why| refusal(network.broadcast()).as_ref() == Some(why))
        };
        match rule.port() {
            Some(port) => refusal(port),
            // A rule without a port names every port: what is refused at two of them is refused at all, or at nearly all.
            None => refusal(80).filter(|why| refusal(1).as_ref() == Some(why)),
        }
    }
}

/// No port and no address is greenroom's own: what a rule names is judged by the policy alone.
struct NoOwn;

impl OwnPorts for NoOwn {
    fn contains(&self, _: u16) -> bool {
        false
    }
}

impl OwnAddresses for NoOwn {
    fn contains(&self, _: IpAddr) -> Option<bool> {
        Some(false)
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
        self.judge_layers(|layer| layer.judge(target, is_this_machine))
    }

    /// Judges a name before anything resolves it.
    pub(super) fn judge_name(&self, host: &str, port: u16) -> Result<(), Blocked> {
        self.judge_layers(|layer| layer.judge_name(host, port))
    }

    /// The first layer is the pool's, the others are the session's.
    fn judge_layers(&self, judge: impl Fn(&NetworkPolicy) -> Result<(), Blocked>) -> Result<(), Blocked> {
        let [pool, session @ ..] = &self.0[..] else { return Ok(()) };
        judge(pool)?;
        session.iter().try_for_each(|layer| judge(layer).map_err(|why| Blocked::Session(Box::new(why))))
    }

    /// Whether verdicts depend on the addresses of names.
    pub fn judges_addresses(&self) -> bool {
        self.0.iter().any(|layer| layer.judges_addresses())
    }
}

impl From<NetworkPolicy> for PolicyLayers {
    fn from(policy: NetworkPolicy) -> Self {
        Self::new(Arc::new(policy))
    }
}
