//! A server under test and clients of its HTTP front.
//!
//! `connection` speaks HTTP/1.1 by hand over a socket, so that a test can also send what no library would: half a request,
//! wrong headers, and a connection that breaks at a chosen moment. `mcp_client` is an MCP client on top of it.

mod connection;
mod mcp_client;
mod server;

pub use connection::{HttpConnection, Reply, SseEvent};
pub use mcp_client::{HttpMcpClient, STATELESS, stateless};
pub use server::Server;
