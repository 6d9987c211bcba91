//! The control socket: every greenroom that serves agents listens on one in its run folder, and speaks HTTP on it.
//!
//! `listen` serves the socket, for the app. `client` connects and sends requests, `find` finds the sockets, `query_all`
//! asks all of them, and `print` prints the answers. The routes are in `greenroom_gateway::control`.

mod client;
mod find;
mod listen;
pub mod print;
mod query_all;
mod socket_path;

pub use client::{ANSWER_TIMEOUT, ControlClient, ControlError, connect};
pub use find::{ControlEndpoint, NETWORK_FILE, SERVER_FILE, find_endpoints};
pub use listen::ControlServer;
pub use query_all::{
    GreenroomReport, QueryOutcome, none_running_message, query_all, reports, unanswered_messages,
};
