//! The only crate that starts processes: Chromium, the engines, and their supervision.
//!
//! The [`launcher`] starts a process, a [`process::Process`] supervises it, the [`run_folder`] holds its files, and
//! [`ports`] its ports, where the egress proxy finds them. [`browser`] and [`node`] find programs on the machine, and
//! [`install`] installs engines; a running browser is an [`Endpoint`]. [`playwright`], [`devtools`] and [`custom`] are the
//! engines; the [`registry`] lists them.

mod arguments;
pub mod browser;
mod browser_handle;
mod browser_limits;
mod call_refusal;
mod cdp_proxy;
pub mod cgroup;
pub mod chromium;
mod chromium_log;
mod context_ports;
pub mod custom;
mod debugging_pipe;
pub mod devtools;
mod disk_use;
mod downloads;
mod endpoint;
mod engine_base;
pub mod exit;
mod file_copies;
#[cfg(test)]
mod guard_tests;
pub mod install;
mod instance_base;
pub mod launcher;
mod loss;
pub mod node;
mod observed_browser;
mod observer;
mod orphan_tabs;
mod output_files;
mod overload;
mod own_tabs;
mod page_url;
mod per_seat;
mod ping_state;
pub mod playwright;
pub mod ports;
mod priority;
pub mod process;
mod process_tree;
mod profile;
mod profile_limit;
pub mod registry;
pub mod run_command;
pub mod run_folder;
mod script;
mod seat_folder;
mod size_limits;
mod start_command;
mod tool_answer;
mod tool_list;
mod upstream;
mod vital_processes;
mod workspace;

pub use custom::{CustomEngine, CustomServer};
pub use devtools::DevtoolsEngine;
pub use endpoint::Endpoint;
pub use engine_base::{EngineBase, EngineOptions};
pub use playwright::PlaywrightEngine;
pub use registry::EngineEntry;
pub use start_command::StartCommand;
pub use tool_list::{OfferedTools, ToolsChanged};
