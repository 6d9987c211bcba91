//! The vocabulary and decisions of greenroom: ids, settings, the lease ledger, tool policy, network verdicts,
//! and the ports through which the other crates meet.
//!
//! Nothing here does I/O or spawns a task, so tests of this crate need no clock, process or socket.

pub mod api_key;
pub mod audit;
pub mod backoff;
pub mod excerpt;
pub mod file_uri;
pub mod forwarded;
pub mod id;
pub mod json_check;
pub mod lease;
pub mod likeness;
pub mod network;
pub mod page_size;
pub mod plural;
pub mod policy;
pub mod port;
pub mod printable;
pub mod quota;
pub mod raw;
pub mod record;
pub mod settings;
pub mod time;
mod uid;
pub mod web_address;

pub use api_key::{ApiKey, ApiKeyHash, ApiKeyName, ApiKeySecret, ApiScope, ApiScopes};
pub use backoff::Backoff;
pub use forwarded::TrustedProxies;
pub use id::{ConnectionId, InstanceId, InvalidSessionId, Owner, SessionId, SessionUid};
pub use policy::{Permit, Policy, PolicyRefusal};
pub use port::{
    Agent, Artifact, ArtifactKind, BoxFuture, Call, CallRecorder, Crash, Engine, EngineFormat,
    HealthCheckFailed, Instance, Introduction, Lost, NoAgent, NoAnswer, OpenError, Queued, Reply, Seat,
    StartError, Tool, Toolset, View,
};
pub use raw::{Argument, Fields, Raw, UnreadableArgument};
pub use record::{BlobId, Records, RefId};
