//! The control socket: every greenroom that serves agents listens on one in its run folder, and speaks HTTP on it.
//!
//! `listen` is the side that serves it, owned by the house. `ask` is the side that connects and asks, `find` knows
//! whom, `look` gathers what all of them say, and `say` tells it. What is said there is `greenroom_gateway::control`'s.

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
