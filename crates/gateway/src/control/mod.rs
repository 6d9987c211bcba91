//! What whoever owns the process may see and do, over HTTP on the process's own control socket: its state, every
//! owner's sessions and what happened in them, its log.
//!
//! One file per resource. There is no authentication here: the socket is for the process's own user, and whoever may
//! connect to it may also kill the process. So the routes must never be served where others can reach them. They
//! set no fallback, so that other routers can be merged with them.

mod key;
mod logs;
mod problem;
mod recent_log;
mod sessions;
mod status;
mod timeline;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Instant, SystemTime},
};

use axum::{Router, routing::get};
use greenroom_core::Owner;
use tokio_util::sync::CancellationToken;

use crate::{Gateway, rest};

pub use key::{Key, NoKey};
pub use logs::LogLine;
pub use problem::{Problem, ProblemBody, fallback};
pub use recent_log::{Entry, Journal, Read};
pub use sessions::{Closed, Session, Sessions};
pub use status::{Instance, Pool, Status};

/// How a process serves agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One agent, over stdin and stdout.
    Stdio,
    /// Many, over HTTP.
    Server,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Server => "server",
        }
    }
}

/// What a process says of itself.
#[derive(Debug, Clone)]
pub struct Identity {
    pub version: &'static str,
    pub kind: Kind,
    /// Where agents reach it, if that is an address.
    pub listen: Option<String>,
    pub data_folder: PathBuf,
    pub started: SystemTime,
    /// The same moment on the clock that nobody sets.
    pub started_at: Instant,
}

impl Identity {
    /// A process that starts now.
    pub fn new(version: &'static str, kind: Kind, listen: Option<String>, data_folder: PathBuf) -> Self {
        let (started, started_at) = (SystemTime::now(), Instant::now());
        Self { version, kind, listen, data_folder, started, started_at }
    }
}

/// Everything the routes need.
pub struct Control {
    pub gateway: Arc<Gateway>,
    pub identity: Identity,
    pub journal: Arc<Journal>,
    /// Cancelled when the process ends: streams end then.
    pub closing: CancellationToken,
}

/// The routes: all below `/control/`, and those of programs below `/api/`.
pub fn router(control: Arc<Control>) -> Router {
    // Whoever owns the process may attach what it can attach.
    let rest = rest::router(control.gateway.clone(), Owner::local(), true);
    Router::new()
        .route("/control/status", get(status::show))
        .route("/control/sessions", get(sessions::list))
        .route("/control/sessions/{key}", get(sessions::show).delete(sessions::close))
        .route("/control/logs", get(logs::read))
        .route("/control/timeline", get(timeline::show))
        .with_state(control)
        .merge(rest)
}
