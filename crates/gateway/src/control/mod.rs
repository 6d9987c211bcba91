//! The control socket's HTTP routes: with them the user who owns the process sees its state, its log and every
//! owner's sessions and timelines, closes sessions, and makes calls.
//!
//! One file per resource. There is no authentication here: only the process's own user can open the socket, and that
//! user may also kill the process. So the routes must never be served where others can reach them. They set no
//! fallback, so that other routers can be merged with them.

mod call;
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
    time::{Duration, Instant, SystemTime},
};

use axum::{
    Extension, Router,
    routing::{get, post},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Gateway,
    front::http::{RequestEnd, Requester},
    rest,
};

pub use call::{AnswerImage, CommandAnswer, CommandCall};
pub use key::{InvalidSessionKey, OwnedSessionKey};
pub use logs::LogLine;
pub use problem::{ControlProblem, ControlProblemBody, fallback};
pub use recent_log::{LogEntry, LogRead, RecentLog};
pub use sessions::{ClosedSession, OpenSession, OpenSessions};
pub use status::{InstanceReport, PoolReport, ProcessStatus};

/// Over which transport a process serves agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessKind {
    /// One client, over stdin and stdout.
    Stdio,
    /// Many clients, over HTTP.
    Server,
}

impl ProcessKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Server => "server",
        }
    }
}

/// What a greenroom process reports about itself on its control socket.
#[derive(Debug, Clone)]
pub struct ProcessIdentity {
    pub version: &'static str,
    pub kind: ProcessKind,
    /// The address at which agents reach it, if it has one.
    pub listen: Option<String>,
    pub data_folder: PathBuf,
    /// After how long without use it ends by itself.
    pub idle_exit: Option<Duration>,
    pub started: SystemTime,
    /// The same moment on the monotonic clock.
    pub started_at: Instant,
}

impl ProcessIdentity {
    /// The identity of a process that starts now and does not end by itself.
    pub fn new(
        version: &'static str,
        kind: ProcessKind,
        listen: Option<String>,
        data_folder: PathBuf,
    ) -> Self {
        let started = SystemTime::now();
        let started_at = Instant::now();
        Self { version, kind, listen, data_folder, idle_exit: None, started, started_at }
    }
}

/// Everything the routes need.
pub struct Control {
    pub gateway: Arc<Gateway>,
    pub identity: ProcessIdentity,
    pub recent_log: Arc<RecentLog>,
    /// Cancelled when the process ends: streams end then.
    pub closing: CancellationToken,
}

/// The routes: all below `/control/`, and the REST routes below `/api/`.
pub fn router(control: Arc<Control>) -> Router {
    // The user who owns the process may attach browsers.
    let requester = Requester::local(RequestEnd::with_server(&control.closing));
    let rest = rest::router(control.gateway.clone(), true).layer(Extension(requester));
    Router::new()
        .route("/control/status", get(status::show))
        .route("/control/sessions", get(sessions::list))
        .route("/control/sessions/{key}", get(sessions::show).delete(sessions::close))
        .route("/control/call", post(call::make))
        .route("/control/logs", get(logs::read))
        .route("/control/timeline", get(timeline::show))
        .with_state(control)
        .merge(rest)
}
