//! Tests of the real binary, one module per area.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test starts the binary itself, and fails by panicking"
)]

mod config;
mod docs;
mod doctor;
mod front;
mod graph;
mod run;
mod setup;
