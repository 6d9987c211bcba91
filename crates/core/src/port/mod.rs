//! The ports: how the fleet sees engines, and how an engine sees the agent behind a call.
//!
//! An [`Engine`] starts [`Instance`]s, an instance opens [`Seat`]s, a seat takes [`Call`]s one at a time
//! (`&mut self` lets the compiler check that the calls of a session run in order). The fleet sees browsers only
//! through these traits, so its tests use fakes. [`EngineFormat`] says how to read the answers of an engine.

mod agent;
mod call;
mod command;
mod egress;
mod engine;
mod format;
mod loss;

use std::{future::Future, pin::Pin};

pub use agent::{Agent, NoAgent, NoAnswer, Queued};
pub use call::{Artifact, ArtifactKind, Call, CallRecorder, Content, Reply, TOOLS_CALL};
pub use command::{BrowserCommand, FieldInput};
pub use egress::{
    Egress, EgressPort, PortUser, REFUSALS_LISTED_MAX, RefusalReport, RefusalSink, Refusals,
    RefusedConnection,
};
pub use engine::{
    Engine, HealthCheckFailed, Instance, Introduction, OpenError, Seat, StartError, Tool, Toolset, View,
};
pub use format::{EngineFormat, Field, PlainFormat};
pub use loss::{CRASHES_REPORTED_MAX, Crash, Lost, StoppedDownloads, human, stderr_suffix};

/// A boxed future: what an object-safe async method returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
