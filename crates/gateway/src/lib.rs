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
mod metrics;
mod outlet;
mod rescue;
mod route;
mod shape;
mod time;
mod tools;
mod turn;

use std::{path::PathBuf, sync::Arc};

use greenroom_core::{Policy, settings::Scope};
use greenroom_fleet::{Fleet, Readiness};

pub use catalog::Catalog;
pub use connection::{Client, Reach};
pub use front::Parking;
pub use instructions::Facts;
pub use metrics::Metrics;

/// Everything a connection needs. Shared by all of them.
pub struct Gateway {
    pub fleet: Fleet,
    pub catalog: Arc<Catalog>,
    pub policy: Policy,
    pub scope: Scope,
    pub facts: Facts,
    /// The root of clients that offer none: the folder greenroom was started in.
    pub folder: PathBuf,
    /// Calls that wait for answers between two requests of a client.
    pub parking: Parking,
    pub metrics: Metrics,
}

impl Gateway {
    /// Whether a browser can be had, or why not.
    fn readiness(&self) -> Result<(), String> {
        match self.fleet.readiness() {
            Readiness::Ready => Ok(()),
            Readiness::Starting => Err("the first browser is starting".to_owned()),
            Readiness::Failed(error) => {
                let hint = error.hint.as_ref().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
                Err(format!("no browser can be started: {error}{hint}"))
            }
        }
    }
}
