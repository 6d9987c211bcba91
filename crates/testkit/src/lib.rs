//! The kit of greenroom's tests: a fake engine that misbehaves on demand, a test site for real browsers, an
//! MCP client that drives the real binary, and helpers that look at processes from outside.
//!
//! Only `[dev-dependencies]` and the benchmarks name this crate. It waits on events and gives every wait a deadline, so
//! that a broken program fails a test with its transcript instead of hanging it. It uses none of greenroom's other
//! crates: it sees them from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test kit reports by panicking, starts the processes under test, and polls where the kernel has no event"
)]

pub mod client;
pub mod deadline;
pub mod dns_server;
pub mod fake_engine;
pub mod gate;
pub mod hostile_json;
pub mod http;
mod installed;
mod markdown_commands;
pub mod node_json;
pub mod picture;
pub mod process;
pub mod recording_dialer;
pub mod shopping_agent;
pub mod site;
pub mod ssrf;
mod target;
mod user_browser;

pub use client::{Client, Launch, Pending, Question, text_of};
pub use deadline::{TEST_TIMEOUT, case, eventually, require_long_tests, until_some, within};
pub use dns_server::{DnsAnswer, DnsServer};
pub use fake_engine::log::EngineLog;
pub use gate::Gate;
pub use hostile_json::HostileJson;
pub use installed::chromium_major;
pub use markdown_commands::markdown_commands;
pub use node_json::NodeValue;
pub use recording_dialer::RecordingDialer;
pub use shopping_agent::{ShoppingAgent, SnapshotDelivery};
pub use site::{RecordedRequest, Site};
pub use target::{fake_engine_path, workspace_binary};
pub use user_browser::{DebuggerProxy, Tab, UserBrowser, unused_address};
