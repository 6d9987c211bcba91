//! One file per verb. Each declares its own arguments and runs with the resolved settings.

mod audit;
pub mod backup;
pub mod browser_command;
pub mod browsers;
pub mod completions;
pub mod config;
mod confirm;
pub mod db;
pub mod demo;
pub mod doctor;
pub mod keys;
pub mod logs;
pub mod man;
pub mod mcp;
pub mod owners;
pub mod pool;
pub mod serve;
pub mod sessions;
pub mod setup;
pub mod setup_client;
mod setup_skill;
pub mod status;
pub mod timeline;
