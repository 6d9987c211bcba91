//! The gateway: an MCP server in front of the fleet.
//!
//! A call walks front → [`route`] → permit → fleet → [`shape`]; whatever goes wrong on the way becomes an answer
//! in [`rescue`]. Engine tools are read from the engine ([`catalog`]); greenroom's own are in [`tools`], one file
//! each. Whoever owns the process looks in through [`control`].

mod call;
pub mod catalog;
mod connection;
pub mod control;
pub mod front;
mod instructions;
mod rescue;
mod route;
mod shape;
mod time;
mod tools;
mod turn;

use std::{path::PathBuf, sync::Arc};

use greenroom_core::{Policy, settings::Scope};
use greenroom_fleet::Fleet;

pub use catalog::Catalog;
pub use instructions::Facts;

/// Everything a connection needs. Shared by all of them.
pub struct Gateway {
    pub fleet: Fleet,
    pub catalog: Arc<Catalog>,
    pub policy: Policy,
    pub scope: Scope,
    pub facts: Facts,
    /// The root of clients that offer none: the folder greenroom was started in.
    pub folder: PathBuf,
}
