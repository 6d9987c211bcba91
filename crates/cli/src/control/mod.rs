//! The control socket: every greenroom that serves agents listens on one in its run folder, and speaks HTTP on it.
//!
//! `listen` serves it; the house owns that. `ask` connects and sends requests, `find` finds the sockets, `look` asks all of
//! them, and `say` prints the answers. The routes are in `greenroom_gateway::control`.

mod client;
mod find;
mod listen;
pub mod print;
mod query_all;
mod socket_path;

pub use client::{ANSWER_WITHIN, AskError, Asker, connect};
pub use find::{Neighbour, SERVER, find};
pub use listen::Listening;
pub use query_all::{Answered, Look, answers, look, nobody};
