//! Starts the audit log of this process.

use std::{path::Path, sync::Arc};

use greenroom_core::settings::Settings;
use greenroom_store::{AuditLog, AuditSettings};

/// Starts the log. greenroom serves agents without it too: the network policy holds whether it is written or not.
pub fn start(settings: &Settings) -> Option<Arc<AuditLog>> {
    let retention = &settings.audit;
    let started = AuditLog::start(AuditSettings {
        folder: folder(settings).to_owned(),
        file_bytes_max: retention.file_bytes_max,
        max_age: retention.max_age,
        bytes_max: retention.bytes_max,
    });
    started.inspect_err(|error| tracing::warn!(%error, "cannot start the audit log")).ok().map(Arc::new)
}

/// Where the log is.
pub fn folder(settings: &Settings) -> &Path {
    &settings.data_dir
}
