//! Tests of the kit itself, on which other crates' tests rely.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests report by panicking, and the kit starts processes to be tested"
)]

mod client;
mod fault;
mod independent;
mod process;
mod site;
mod talk;
mod tools;
mod user_browser;

use greenroom_testkit::{Client, Launch, fake_engine_path};
use serde_json::{Value, json};

/// The newest revision of the protocol that has sessions.
const NEWEST: &str = "2025-11-25";

/// A fake engine with these flags, before the handshake.
fn spawned(flags: &[&str]) -> Client {
    Launch::new(fake_engine_path()).args(flags).spawn()
}

/// A fake engine with these flags, after the handshake.
async fn ready(flags: &[&str]) -> Client {
    let client = spawned(flags);
    client.initialize(NEWEST, json!({"roots": {}, "elicitation": {}, "sampling": {}})).await;
    client
}

/// The names in `tools/list`, all pages.
async fn tool_names(client: &Client) -> Vec<String> {
    let mut names = Vec::new();
    let mut params = Value::Null;
    loop {
        let response = client.request("tools/list", params).await;
        let tools = response["result"]["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match response["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return names,
        }
    }
}
