//! The life of an engine: it is asked for its tools, started, asked for seats, and stopped.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Agent, BoxFuture, Call, Crash, EngineFormat, Lost, PlainFormat, Reply, StoppedDownloads};
use crate::{id::InstanceId, raw::Raw};

/// Starts instances of one configured engine.
pub trait Engine: Send + Sync {
    /// What the tool list depends on: kind, version and options. Equal fingerprints have equal tools.
    fn fingerprint(&self) -> String;
    /// Tools that run code in the engine's own process; hidden and refused unless `tools.unsafe` is set.
    fn unsafe_tools(&self) -> BTreeSet<&'static str>;
    /// The entry of `caps` that a tool belongs to, where the engine has the tool and is not told to offer it.
    fn missing_cap(&self, _tool: &str) -> Option<&'static str> {
        None
    }
    /// Whether it is an MCP server of somebody else's, that may have prompts and resources beside its tools.
    fn is_server(&self) -> bool {
        false
    }
    /// How its answers are read.
    fn format(&self) -> &'static dyn EngineFormat {
        &PlainFormat
    }
    /// Asks the engine for its tools, without a browser.
    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>>;
    fn start(&self, id: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>>;
    /// Brings the browser of an attached engine back that cannot be reached, by whatever its operator said does so.
    /// Says whether anything was done; nothing is where the browser answers, or nobody said what to do.
    fn revive(&self) -> BoxFuture<'_, Result<bool, StartError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
    /// Whether a seat that was opened for [`super::Nobody`] serves this agent as well as one opened for it would.
    fn spare_suits(&self, agent: &dyn Agent) -> bool;
}

/// One running engine with its browser.
pub trait Instance: Send + Sync {
    /// Opens a seat on behalf of an agent, whose capabilities the engine learns. The seat has a private folder
    /// of its own, which ends with it.
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>>;
    /// Becomes `Some` once, when the instance is gone.
    fn lost(&self) -> watch::Receiver<Option<Lost>>;
    /// Asks the engine and its browser for a sign of life, beside whatever calls are running. Whoever asks decides how
    /// long that may take.
    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>>;
    /// Who did not answer the last [`Instance::ping`], for whoever has given up waiting for it. `None` where nobody is
    /// waited for, or nobody knows.
    fn silent(&self) -> Option<Arc<str>> {
        None
    }
    /// Declares the instance lost, for a reason that whoever asks has found. What was said first stays.
    fn condemn(&self, _: Lost) {}
    /// The processes this instance started and still owns: the engine's, then the browser's.
    fn process_ids(&self) -> Vec<u32>;
    /// Ends the instance: politely within `grace`, then by force. Returns when nothing of it is left.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()>;
}

/// One isolated browser context, ready to take calls, one at a time.
pub trait Seat: Send {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>>;
    /// How much longer than the usual deadline this call asks to wait, by its own arguments.
    fn own_wait(&self, call: &Call) -> Duration;
    /// Becomes `Some` once, when this seat can take no more calls.
    fn lost(&self) -> watch::Receiver<Option<Lost>>;
    /// The tabs that crashed since this was last asked, oldest first, and no more than [`super::CRASHES_TOLD_MAX`]. The seat goes on
    /// without them.
    fn take_crashes(&mut self) -> Vec<Crash> {
        Vec::new()
    }
    /// The downloads that were stopped since this was last asked. The seat goes on without them.
    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        None
    }
    fn view(&self) -> watch::Receiver<View>;
    /// Gives the context back. Returns when it is gone.
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
    /// What it said of itself in the handshake. `None` if nobody asked.
    pub introduction: Option<Introduction>,
}

/// What an engine says of itself when it is met.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// What it has beside tools: its MCP capabilities.
    pub capabilities: Raw,
    /// How it wants to be used, for the model to read.
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
    /// The instance is gone; another one may do.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// This seat was not made in time, and is cleared away when it comes up late. Whether the instance still answers is for
    /// [`Instance::ping`] to say.
    #[error(transparent)]
    Late(StartError),
    /// This seat could not be made; the instance lives.
    #[error(transparent)]
    Failed(#[from] StartError),
}

/// Why an instance gives no sign of life. It may yet come round; whether it does is looked at again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unwell(pub Arc<str>);
