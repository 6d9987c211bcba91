//! The fronts: how agents reach the gateway. A client with a handshake has a connection, whose messages go through
//! [`protocol`]; stateless requests go through [`stateless`].

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
pub use stateless::SuspendedCalls;
