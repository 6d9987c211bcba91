//! The HTTP front from outside: the real `greenroom serve`, clients on raw sockets, and the fake engine behind it.

mod binding;
mod blobs;
mod broken_connection;
mod calls;
mod faults;
mod handshake;
mod in_flight_limit;
mod keys;
mod listen;
pub mod pools;
mod probes;
mod refusals;
mod reload;
mod resources;
mod resume;
mod sessions;
mod shutdown;
mod start;
mod stateless;
mod stateless_input;
mod stateless_stdio;
mod streams;
mod timeline;
mod tls;

use greenroom_testkit::{
    TEST_TIMEOUT,
    http::{HttpMcpClient, Server},
    text_of, within,
};
use serde_json::{Value, json};

use crate::front::fixture::NEWEST;

/// A client of the newest revision with a handshake and all capabilities.
pub async fn http_client(server: &Server) -> HttpMcpClient {
    HttpMcpClient::open(server, NEWEST, json!({"elicitation": {}, "sampling": {}})).await
}

/// Asks again until a session has this many calls in flight.
pub async fn until_in_flight(client: &HttpMcpClient, id: &str, calls: usize) {
    let poll = async {
        loop {
            let list: Value =
                serde_json::from_str(&text_of(&client.call("session_list", json!({})).await)).unwrap();
            let is_match = |session: &Value| session["id"] == id && session["callsInFlight"] == calls;
            if list["sessions"].as_array().unwrap().iter().any(is_match) {
                return;
            }
        }
    };
    within(TEST_TIMEOUT, poll).await;
}
