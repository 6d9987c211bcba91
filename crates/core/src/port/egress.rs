//! The way from browsers to the network, as engines see it: a filtering proxy with a port for each browser context, so
//! that every connection and every refusal belongs to one session.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use crate::{
    Owner,
    network::{Blocked, NetworkPolicy},
};

/// The proxy of a pool.
pub trait Egress: Send + Sync {
    /// Opens a port for one browser context. Until a user is assigned to it, the pool's policy alone holds there.
    fn open_port(&self) -> io::Result<Arc<dyn EgressPort>>;
}

/// A port of the proxy. Dropping it closes the port and every connection through it.
pub trait EgressPort: Send + Sync {
    /// Where the browser finds the port: `http://ADDRESS`.
    fn address(&self) -> SocketAddr;
    /// From now on the port's connections are this user's. Refusals of earlier users are forgotten.
    fn assign(&self, user: PortUser);
    /// What the port has refused since the last call of this function.
    fn take_refusals(&self) -> Refusals;
    /// Why the port has refused this host and port, if it did so recently.
    fn refusal_of(&self, host: &str, port: u16) -> Option<Blocked>;
}

/// Who uses a browser context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortUser {
    pub owner: Owner,
    /// The session's name; `None` for a call without a session.
    pub session: Option<Arc<str>>,
    /// What the session permits; its pool's policy holds as well.
    pub network: Option<Arc<NetworkPolicy>>,
}

/// One refused connection: where it would have gone, and why it may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedConnection {
    pub host: String,
    pub port: u16,
    pub reason: Blocked,
}

impl fmt::Display for RefusedConnection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{} is refused: {}", self.host, self.port, self.reason)
    }
}

/// How many different refusals [`Refusals`] lists. A page can cause any number.
pub const REFUSALS_LISTED_MAX: usize = 8;

/// Refused connections: the first few different ones, and how many there were in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    pub listed: Vec<RefusedConnection>,
    pub count: u64,
}

impl Refusals {
    pub fn add(&mut self, refusal: RefusedConnection) {
        self.count += 1;
        self.list(refusal);
    }

    /// Adds the refusals of `other`, which came later.
    pub fn append(&mut self, other: Self) {
        self.count += other.count;
        for refusal in other.listed {
            self.list(refusal);
        }
    }

    fn list(&mut self, refusal: RefusedConnection) {
        if self.listed.len() < REFUSALS_LISTED_MAX && !self.listed.contains(&refusal) {
            self.listed.push(refusal);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A refused connection, and whose it was.
#[derive(Debug, Clone, Copy)]
pub struct RefusalReport<'a> {
    /// The pool of the browser; `None` for a port that no pool opened.
    pub pool: Option<&'a str>,
    /// The user of the browser context; `None` until a user is assigned to it.
    pub user: Option<&'a PortUser>,
    pub refused: &'a RefusedConnection,
    /// Whether the port has not refused the same connection recently. A page can repeat a request without end.
    pub is_new: bool,
}

/// Learns of every refusal, for the log, the audit log and the metrics. It never blocks and may be called from any thread.
pub trait RefusalSink: Send + Sync {
    fn refused(&self, report: RefusalReport<'_>);
}
