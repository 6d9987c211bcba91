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

use greenroom_testkit::{
    PATIENCE,
    http::{Remote, Server},
    text_of, within,
};
use serde_json::{Value, json};

use crate::front::stage::NEWEST;

/// A client of the newest revision with a handshake and all capabilities.
pub async fn remote(server: &Server) -> Remote {
    Remote::open(server, NEWEST, json!({"elicitation": {}, "sampling": {}})).await
}

/// Asks again until a session has this many calls in flight.
pub async fn until_in_flight(client: &Remote, id: &str, calls: usize) {
    let look = async {
        loop {
            let list: Value =
                serde_json::from_str(&text_of(&client.call("session_list", json!({})).await)).unwrap();
            let there = |session: &Value| session["id"] == id && session["callsInFlight"] == calls;
            if list["sessions"].as_array().unwrap().iter().any(there) {
                return;
            }
        }
    };
    within(PATIENCE, look).await;
}
