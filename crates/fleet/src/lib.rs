//! The fleet: pools that lease slots of their instances to sessions. An attached browser is a pool of its
//! own.
//!
//! The fleet sees engines through the ports of `greenroom-core` only and starts no process itself. Each session
//! is a task that owns its seat; each instance slot has a task that supervises its instance; all other shared state
//! is behind plain mutexes, held for a few lines and never across an await.

mod attached_browsers;
mod bounded_map;
mod connection_names;
mod error;
mod fleet;
#[cfg(test)]
mod model;
mod pool;
mod pool_status;
/// Public for the benchmarks only.
#[doc(hidden)]
pub mod queue;
mod quota;
mod registry;
mod seat;
mod session;
mod target;

/// The mutex of [`queue`]; the model checker replaces it with its own.
mod sync {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
}

pub use attached_browsers::{
    BrowserName, BrowserSettings, BrowserState, BrowserStatus, NotChosen, pool_name,
};
pub use connection_names::ConnectionNames;
pub use error::{FleetError, LeaseTimeout};
pub use fleet::{Fleet, FleetSettings, SessionActivity, SessionKey, SessionStatus};
pub use pool::{InstanceSettings, PoolSettings, PoolSize, Readiness, Retry};
pub use pool_status::{Check, Health, InstanceStatus, PoolStatus};
pub use session::{Bulk, BulkAnswers, CallAnswer, CallLocation, EndReason, NewTab, Note};
pub use target::{CallTarget, Scaled, SessionOptions, Watcher};
