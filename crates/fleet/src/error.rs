//! Why the fleet could not carry out a call.

use std::time::Duration;

use greenroom_core::{Lost, SessionId, StartError, port::human};

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
    #[error("no such session: \"{0}\"")]
    NoSession(SessionId),
    #[error("this connection has no session yet")]
    NoConnectionSession,
    #[error("the session exists already: \"{0}\"")]
    Exists(SessionId),
    #[error("greenroom is shutting down")]
    ShuttingDown,
}
