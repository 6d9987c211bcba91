//! The engine crate against real processes, in one binary.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on is to fail there")]

mod custom;
mod endpoint;
mod fixed_egress;
mod fixture;
mod install;
mod persistent_profile;
mod real;
mod shutdown_order;
mod windows;

use fixed_egress::FixedEgress;
