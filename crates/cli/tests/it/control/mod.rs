//! The verbs that ask a control socket, against real greenrooms with fake engines.

pub mod ask;
mod browsers;
mod close;
mod faults;
mod http;
mod injection;
mod logs;
mod pool;
mod sessions;
mod status;
mod timeline;
mod watch;
