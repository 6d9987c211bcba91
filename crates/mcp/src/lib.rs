//! The Model Context Protocol and nothing else: JSON-RPC messages with raw payloads; stdio and the streams of HTTP for
//! agents in front; stdio and streamable HTTP for engines behind.
//!
//! This crate parses the JSON-RPC envelope and no payload, so unknown fields, number formats and content types of
//! any protocol revision pass untouched.

pub mod error;
pub mod lines;
pub mod link;
pub mod message;
pub mod peer;
pub mod pipe;
pub mod revision;
pub mod sse;
pub mod stateless;
pub mod stdio;
pub mod stream;

pub use error::RpcError;
pub use message::{Id, Malformed, Message};
pub use peer::{Inbound, Peer, PeerError};
pub use revision::Revision;
pub use stream::MessageStream;

/// The largest single message of an engine, and the largest answer to a client. An engine answers a 2,000-row table with
/// 0.6 MB and a full-page screenshot with some MB; 64 MiB leaves two orders of magnitude and still bounds a runaway.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest single message of a client. The largest that clients have reason to send carry a script, the text of a file,
/// or a picture as base64: some MB. Files are uploaded by their paths. Greenroom reads a client's message several times and
/// makes several copies, so the limit is a quarter of that of an engine's answer.
pub const CLIENT_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
