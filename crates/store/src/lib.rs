//! The store: records, cursors and blobs, in SQLite and in files next to it.
//!
//! [`Store`] implements core's port [`greenroom_core::Records`]. Its promises:
//!
//! - The store acknowledges an operation after its commit. A committed operation survives the sudden end of this process
//!   and of all others, and readers in every process see it.
//! - Operations are written in the order in which their methods were called.
//! - A fault of the disk never fails a call: the record is refused with its reason, and `health` reports it until writing
//!   succeeds again.
//! - Every read is by owner. Records of another owner look as if they did not exist.
//! - Several processes may use one data folder at once.
//!
//! API keys are in a file of their own ([`key_file`]). [`AuditLog`] implements the port [`greenroom_core::audit::Audit`] with a file of its own.
//!
//! Only `sqlite` knows which database there is: another one needs a writer and readers of its own, behind the same queue.

mod audit;
pub mod backup;
mod blob_files;
pub mod key_file;
pub mod maintenance;
mod op;
mod queue;
mod retention;
mod settings;
mod shared;
mod sqlite;
mod store;

pub use audit::{AuditLog, AuditReader, AuditSettings, AuditText};
pub use key_file::{KeyFile, KeyFileError};
pub use retention::Removed;
pub use settings::StoreSettings;
pub use store::Store;
