//! The HTTP front from outside: the real `greenroom serve`, clients on raw sockets, and the fake engine behind it.

mod blobs;
mod broken;
mod calls;
mod faults;
mod handshake;
mod input;
mod listen;
pub mod pools;
mod probes;
mod refuse;
mod reload;
mod resources;
mod resume;
mod sessions;
mod shutdown;
mod start;
mod stateless;
mod stateless_input;
mod stateless_pipe;
mod streams;
mod timeline;

use greenroom_testkit::http::{Remote, Server};
use serde_json::json;

use crate::front::stage::NEWEST;

/// A client of the newest revision with a handshake that can be asked everything.
pub async fn remote(server: &Server) -> Remote {
    Remote::open(server, NEWEST, json!({"elicitation": {}, "sampling": {}})).await
}
