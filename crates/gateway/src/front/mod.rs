//! The fronts: how agents reach the gateway. Those that introduce themselves have a connection, whose messages walk
//! through [`protocol`]; requests that speak for themselves go through [`stateless`].

pub mod http;
pub mod lines;
mod protocol;
pub mod relay;
mod secret;
mod stateless;
pub mod stdio;

#[cfg(test)]
pub(crate) use protocol::list_tools;
pub use secret::Secret;
pub use stateless::Parking;
