//! The only crate that starts processes: Chromium, the engines, and their supervision.
//!
//! A process comes from the [`launcher`], lives as a [`process::Process`], keeps its files in the
//! [`run_folder`], and its ports in [`ports`], where the egress proxy finds them.

pub mod custom;
pub mod launcher;
pub mod ports;
pub mod process;
pub mod run_folder;
mod upstream;

pub use custom::CustomEngine;
pub use upstream::ToolsChanged;
