//! The fleet against a fake engine: no process, no socket, no real time. Every test waits on events; where time
//! has to pass, it is the paused clock that moves. Some tests race on real threads; nothing in them depends on
//! time either.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
mod browser_choice;
mod browser_fixture;
mod browser_life;
mod browser_notes;
mod browser_races;
mod browser_reconnect;
mod browser_removal;
mod bulk;
mod cancel;
mod creation;
mod declared;
mod drains;
mod ending;
mod ephemeral_calls;
mod failed;
mod fake;
mod fixture;
mod health;
mod idle_timeout;
mod leases;
mod listing;
mod loss;
mod named_instance;
mod order;
mod owners;
mod placement;
mod queue_position;
mod quotas;
mod random;
mod random_browsers;
mod random_fixed;
mod reload;
mod restart_orders;
mod restarts;
mod scaling;
mod session_network;
mod shutdown;
mod spares;
mod spares_lost;
mod strategies;
mod unresponsive;
