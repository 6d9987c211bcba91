//! The gateway: an MCP server in front of the fleet.
//!
//! [`call`] is the walk of a call: a front → [`route`] → permit → fleet → [`outcome`]; [`error_response`] turns errors on the
//! way into answers. The [`catalog`] reads the engine's tools from the engine; greenroom's own are in [`tools`], one
//! file each. Programs use [`rest`], and the user who owns the process uses [`control`].

mod agent_blobs;
mod argument_check;
mod attach;
mod browser_json;
mod call;
mod call_order;
mod caller;
pub mod catalog;
mod client_sink;
mod connection;
pub mod control;
mod error_response;
mod fleet_events;
pub mod front;
mod instructions;
mod metrics;
mod not_run;
mod offload;
mod outcome;
mod page_now;
mod passthrough;
pub mod pool_json;
mod progress;
pub mod recall;
mod render;
mod resources;
pub mod rest;
mod route;
mod scope_table;
mod session_key;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tools;

use std::{path::PathBuf, sync::Arc, time::Duration};

use greenroom_core::{Policy, audit::Audit, settings::Scope};
use greenroom_fleet::{Fleet, Readiness};
use tokio::{sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

pub use attach::{
    Attach, AttachEngine, AttachError, AttachPolicy, AttachRequest, Attachment, AttachmentBuilder,
};
pub use browser_json::{Browser, Browsers};
pub use catalog::{Catalog, ToolSource};
pub use connection::{ClientLocation, NewClient};
pub use fleet_events::FleetWatcher;
pub use front::SuspendedCalls;
pub use instructions::InstructionFacts;
pub use metrics::Metrics;
pub use recall::{PoolAnswers, Recall, upload::Uploads};

/// Estimates how many tokens a text costs its reader. The limits of answers are in these tokens.
pub fn estimated_tokens(text: &str) -> usize {
    recall::tokens::estimate(text)
}

/// What all connections share.
pub struct Gateway {
    pub fleet: Fleet,
    pub catalog: Arc<Catalog>,
    pub policy: Policy,
    pub scope: Scope,
    pub facts: InstructionFacts,
    /// Which callers may attach and detach browsers.
    pub attaching: AttachPolicy,
    /// The root of clients that offer none: the folder greenroom was started in.
    pub folder: PathBuf,
    /// Calls that wait for answers between two requests of a client.
    pub suspended_calls: SuspendedCalls,
    pub metrics: Arc<Metrics>,
    pub recall: Recall,
    /// The audit log; `None` if this process could not start it.
    pub audit: Option<Arc<dyn Audit>>,
    /// Calls that are not answered yet.
    pub answering: TaskTracker,
    /// Counts the commands of the command line.
    pub commands: watch::Sender<u64>,
}

impl Gateway {
    /// What a call without `sessionId` means to a client. A client without a connection has no session of its own, so
    /// it must name one where other clients may use their connection's.
    pub(crate) fn scope_of(&self, has_connection: bool) -> Scope {
        match self.scope {
            Scope::Connection if !has_connection => Scope::Explicit,
            scope => scope,
        }
    }

    /// Accepts no more calls, and returns when the running ones are done, recorded and answered. `false` if that
    /// takes longer than `within`.
    pub async fn drain(&self, within: Duration) -> bool {
        let answered = async {
            self.answering.close();
            self.answering.wait().await;
        };
        let all = async { tokio::join!(self.fleet.drain_calls(within), answered).0 };
        timeout(within, all).await.unwrap_or(false)
    }

    /// Whether calls are recorded.
    fn recalls(&self) -> bool {
        self.recall.records.is_some()
    }

    /// `Ok` if a browser is available, otherwise why not.
    fn readiness(&self) -> Result<(), String> {
        if self.fleet.is_stopping() {
            return Err("greenroom is shutting down".to_owned());
        }
        let attached = !self.fleet.browsers().is_empty();
        // With attached browsers no pool is the default for calls.
        if !attached
            && let Ok(pool) = self.fleet.pool(self.fleet.default_pool())
            && let Some(error) = pool_json::all_failed(&pool)
        {
            return Err(error.to_string());
        }
        match self.fleet.readiness() {
            Readiness::Ready => Ok(()),
            Readiness::Starting if attached => Err("the first browser is being connected".to_owned()),
            Readiness::Starting => Err("the first browser is starting".to_owned()),
            Readiness::Unresponsive(why) => Err(format!("no browser answers: {why}")),
            Readiness::Failed(error) => {
                let hint = error.hint.as_ref().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
                // The error itself names the browser that cannot be reached.
                let what = if attached { "" } else { "no browser can be started: " };
                Err(format!("{what}{error}{hint}"))
            }
        }
    }
}
