//! Why the fleet could not carry out a call.

use std::time::Duration;

use greenroom_core::{InstanceId, Lost, SessionId, StartError, port::human};

use crate::browsers::NotChosen;

/// All slots stayed lent for as long as a caller was willing to wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no browser free within {}: pool \"{pool}\"", human(*.waited))]
pub struct LeaseTimeout {
    pub pool: String,
    pub waited: Duration,
    pub leased: usize,
    pub slots: usize,
    /// Callers still waiting, this one not counted.
    pub waiting: usize,
    /// The instance that was waited for, if it had to be a certain one.
    pub instance: Option<InstanceId>,
    /// Who holds the slots, as far as this caller may know.
    pub holders: Vec<String>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum FleetError {
    #[error(transparent)]
    Lease(#[from] LeaseTimeout),
    /// No instance or seat could be made. Nothing is remembered of it; the next call tries again.
    #[error("cannot start a browser: {0}")]
    Start(#[from] StartError),
    /// The session died under this call. Whether the call had an effect is not known.
    #[error("the session was lost during this call: {0}")]
    Lost(Lost),
    /// The session died before this call's turn. It was not run.
    #[error("the session was lost before this call ran: {0}")]
    NotRun(Lost),
    #[error("the session was closed during this call")]
    Closed,
    #[error("too many calls wait for this session: {max} are queued already")]
    QueueFull { max: usize },
    #[error("too many callers wait for a browser of pool \"{pool}\": {max}")]
    LineFull { pool: String, max: usize },
    #[error("no such session: \"{0}\"")]
    NoSession(SessionId),
    #[error("this connection has no session yet")]
    NoConnectionSession,
    #[error("the session exists already: \"{0}\"")]
    Exists(SessionId),
    #[error("no such pool: \"{name}\"; there is {}", list(.known))]
    NoPool { name: String, known: Vec<String> },
    #[error("no such instance in pool \"{pool}\": \"{name}\"; there is {}", list(.known))]
    NoInstance { pool: String, name: String, known: Vec<String> },
    /// Every instance of the pool has failed, and none will be started again by itself.
    #[error("{} '{pool}' has no healthy instances. Specify explicit pool or restart failed instances.", if *.is_default { "Default pool" } else { "Pool" })]
    NoHealthy { pool: String, is_default: bool, why: Option<String> },
    /// Somebody waited for exactly this instance, and it failed or was taken out of the pool.
    #[error("instance {instance} of pool \"{pool}\" cannot be had: {why}")]
    InstanceDown { pool: String, instance: InstanceId, why: String },
    #[error("{session} lives in pool \"{pool}\"{}", instance.map(|id| format!(", instance {id}")).unwrap_or_default())]
    Elsewhere { session: String, pool: String, instance: Option<InstanceId> },
    #[error("pool \"{pool}\" cannot be scaled: it adds and stops instances by itself")]
    NotFixed { pool: String },
    /// A pool that keeps its browsers' profiles serves one owner.
    #[error("pool \"{pool}\" keeps its browsers' profiles and belongs to another owner")]
    NotYours { pool: String },
    /// Which attached browser is meant is not said, or said where there is no choice.
    #[error(transparent)]
    NotChosen(#[from] NotChosen),
    /// An attached browser cannot be reached.
    #[error("browser {index} cannot be reached: {url}{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    BrowserDown { index: u32, url: String, why: Option<String>, retry_in: Option<Duration> },
    #[error("\"{name}\" is attached already, as browser {index}")]
    BrowserExists { name: String, index: u32 },
    #[error("greenroom is shutting down")]
    ShuttingDown,
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}
