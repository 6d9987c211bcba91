//! The life of an engine: the fleet asks it for its tools, starts it, asks it for seats, and stops it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    Agent, BoxFuture, Call, Crash, EngineFormat, Lost, PlainFormat, PortUser, Refusals, Reply,
    StoppedDownloads,
};
use crate::{id::InstanceId, raw::Raw};

/// Starts instances of one configured engine.
pub trait Engine: Send + Sync {
    /// Identifies what the tool list depends on: kind, version and options. Equal fingerprints have equal tools.
    fn fingerprint(&self) -> String;
    /// Tools that run code in the engine's own process; hidden and refused unless `tools.unsafe` is set.
    fn unsafe_tools(&self) -> BTreeSet<&'static str>;
    /// The entry of `caps` that would offer this tool, if the engine has the tool and the current settings hide it.
    fn missing_cap(&self, _tool: &str) -> Option<&'static str> {
        None
    }
    /// Whether the engine is `custom`: any MCP server, which may have prompts and resources besides its tools.
    fn is_server(&self) -> bool {
        false
    }
    /// How to read the engine's answers.
    fn format(&self) -> &'static dyn EngineFormat {
        &PlainFormat
    }
    /// Asks the engine for its tools, without a browser.
    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>>;
    fn start(&self, id: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>>;
    /// Starts an attached browser that cannot be reached, with the command that its operator configured. Returns
    /// whether it ran the command: `false` if the browser answers or no command is configured.
    fn revive(&self) -> BoxFuture<'_, Result<bool, StartError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
    /// Whether a seat that was opened for [`super::NoAgent`] serves this agent as well as one opened for it would.
    fn spare_suits(&self, agent: &dyn Agent) -> bool;
}

/// One running engine with its browser.
pub trait Instance: Send + Sync {
    /// Opens a seat for an agent, and tells the engine the agent's capabilities. The seat has a private folder, which
    /// is removed with it.
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>>;
    /// Becomes `Some` once, when the instance is gone.
    fn lost(&self) -> watch::Receiver<Option<Lost>>;
    /// Checks the health of the engine and its browser, while calls may be running. The caller sets the time limit.
    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>>;
    /// Which part has not answered the last [`Instance::ping`], for a caller that has given up waiting. `None` if all
    /// have answered, or it is unknown.
    fn silent(&self) -> Option<Arc<str>> {
        None
    }
    /// Declares the instance lost, for a reason that the caller has found. The first reason stays.
    fn mark_lost(&self, _: Lost) {}
    /// The processes this instance started and still owns: the engine's, then the browser's.
    fn process_ids(&self) -> Vec<u32>;
    /// Asks the instance to end within `grace`, then ends it by force. Returns when all its processes and files are
    /// gone.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()>;
}

/// One isolated browser context, ready to take calls, one at a time.
pub trait Seat: Send {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>>;
    /// How much longer than the usual deadline the call may take, because its own arguments ask the engine to wait.
    fn own_wait(&self, call: &Call) -> Duration;
    /// Becomes `Some` once, when this seat can take no more calls.
    fn lost(&self) -> watch::Receiver<Option<Lost>>;
    /// The tabs that crashed since the last call of this method, oldest first, and no more than
    /// [`super::CRASHES_REPORTED_MAX`]. The seat goes on without them.
    fn take_crashes(&mut self) -> Vec<Crash> {
        Vec::new()
    }
    /// The downloads that greenroom stopped since the last call of this method. The seat goes on without them.
    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        None
    }
    /// From now on the seat's connections are this user's, and under this user's network policy. A seat whose browser
    /// greenroom did not start has no policy.
    fn assign(&mut self, _user: PortUser) {}
    /// The connections that the network policy refused since the last call of this method.
    fn take_refusals(&mut self) -> Refusals {
        Refusals::default()
    }
    fn view(&self) -> watch::Receiver<View>;
    /// Closes the context. Returns when it is gone.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// A tool as the engine described it: the whole JSON object, raw.
#[derive(Debug, Clone)]
pub struct Tool {
    pub name: Arc<str>,
    pub definition: Raw,
}

/// The tools of an engine.
#[derive(Debug, Clone, Default)]
pub struct Toolset {
    pub tools: Vec<Tool>,
    /// What the engine says about itself in the handshake. `None` if there was no handshake.
    pub introduction: Option<Introduction>,
}

/// What an engine says about itself in the handshake.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Its MCP capabilities: what it has besides tools.
    pub capabilities: Raw,
    /// Its instructions, for the model to read.
    pub instructions: Option<Arc<str>>,
}

/// What the observer knows of a seat's current page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub url: String,
    pub title: String,
    pub tabs: usize,
}

/// Why an instance could not be started.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl StartError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Why a seat could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The instance is gone; another instance may open a seat.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// This seat did not open in time; if it opens later, the instance closes it. [`Instance::ping`] tells whether the
    /// instance still answers.
    #[error(transparent)]
    Late(StartError),
    /// The instance is alive, but could not open this seat.
    #[error(transparent)]
    Failed(#[from] StartError),
}

/// Why an instance failed its health check. The instance may recover, so the fleet checks it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HealthCheckFailed(pub Arc<str>);
