//! Tests of the real binary, one module per area.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test starts the binary itself, fails by panicking, and prints what a failure needs"
)]

mod backup;
mod cli_fixture;
mod command_line;
mod config;
mod control;
mod db;
mod docs;
mod doctor;
mod front;
mod graph;
mod http;
mod join;
mod keys;
mod manual;
mod packaging;
mod plugin;
mod real;
mod records;
mod reference_server;
mod scripts;
mod sdk;
mod setup;
mod setup_client;
mod setup_skill;
mod soak;
