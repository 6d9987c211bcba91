//! The fronts: how agents reach the gateway. Each makes a connection and walks its messages through
//! [`protocol`].

mod protocol;
pub mod stdio;
