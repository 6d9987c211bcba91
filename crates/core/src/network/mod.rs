//! Which addresses browsers may connect to.
//!
//! [`policy`] is what an operator configures: a preset, rules that allow and rules that deny. [`verdict`] judges one
//! connection by it, at the time of the connection and by the address that is really dialled; the spelling of a URL never
//! counts. [`session`] reads what a
//! session asks for. [`range`] knows the addresses that are not on the public internet, also inside IPv6 addresses, and [`rule`]
//! reads rules. The egress proxy asks; nothing here connects or resolves.

#[cfg(test)]
mod corpus_tests;
pub mod policy;
pub mod range;
pub mod rule;
pub mod session;
pub mod verdict;

pub use policy::{NetworkPolicy, PolicyLayers};
pub use range::AddressRange;
pub use rule::{InvalidRule, NetworkRule};
pub use session::{SESSION_RULES_MAX, SessionNetwork, SessionNetworkError};
pub use verdict::{Blocked, DialTarget, OwnAddresses, OwnPorts, is_metadata_name};
