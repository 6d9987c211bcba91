//! The verbs that ask a control socket, against real greenrooms with fake engines.

mod browsers;
mod close;
mod faults;
mod http;
mod injection;
mod logs;
mod pool;
pub mod run_verb;
mod sessions;
mod status;
mod timeline;
mod watch;
