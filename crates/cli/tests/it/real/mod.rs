//! The real binary, the real engine, real Chromium. Pages come from loopback only.
//!
//! A test starts one greenroom and does much with it, since a browser and its engine take seconds to start. [`house`] starts
//! greenroom and calls it, [`look`] inspects its processes and ports from outside.

mod answers;
mod beside;
mod browsers;
mod bulk;
mod crash_browser;
mod crash_engine;
mod demo;
mod devtools;
mod egress;
mod faults;
mod files;
mod growth;
mod hostile_arguments;
pub mod house;
mod instance;
pub mod isolation;
pub mod look;
mod other_sites;
pub mod pool;
pub mod random;
mod recall;
mod recovery;
mod settings;
mod settle;
mod shutdown;
mod single;
mod spares;
mod surroundings;
mod task;
