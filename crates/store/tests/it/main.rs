//! The store as the gateway uses it: through the port, on a database in a folder of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test starts itself again as another process, and fails by panicking"
)]

mod audit;
mod backup;
mod big;
mod blobs;
mod faults;
mod kit;
mod maintenance;
mod model;
mod owners;
mod read_only;
mod records;
mod retention;
mod sessions;
mod sharing;
