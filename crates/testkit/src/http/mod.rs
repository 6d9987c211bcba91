//! A server under test and clients of its HTTP front.
//!
//! `wire` speaks HTTP/1.1 by hand over a socket, so that a test can also send what no library would: half a request,
//! wrong headers, and a connection that breaks at a chosen moment. `remote` is an MCP client on top of it.

mod remote;
mod server;
mod wire;

pub use remote::{Remote, STATELESS, stateless};
pub use server::Server;
pub use wire::{Reply, SseEvent, Wire};
