//! One file per verb. Each declares its own arguments and runs with the resolved settings.

pub mod config;
pub mod doctor;
pub mod mcp;
pub mod setup;
pub mod setup_client;
