//! What is known of an ended call. Every form of its answer is made from this.

use std::{collections::HashSet, sync::Arc, time::SystemTime};

use greenroom_core::{
    ConnectionId, Fields, RefId,
    raw::encode,
    record::{BlobRef, SessionRef, Status},
    time::timestamp_ms,
};
use serde_json::json;

use super::result::EmbeddedBytes;

/// What is known of an ended call.
#[derive(Debug)]
pub(crate) struct EndedCall {
    pub(crate) tool: Arc<str>,
    /// `None` if records are off.
    pub(crate) ref_id: Option<RefId>,
    /// Why the call has no record although records are on.
    pub(crate) not_recorded: Option<Arc<str>>,
    pub(crate) session: Option<SessionRef>,
    pub(crate) status: Status,
    pub(crate) error: Option<String>,
    pub(crate) at: SystemTime,
    pub(crate) has_snapshot: bool,
    /// The snapshot as it is recorded.
    pub(crate) snapshot: Option<Arc<str>>,
    pub(crate) console: usize,
    pub(crate) console_errors: usize,
    /// First the blobs within the result, then the files.
    pub(crate) blobs: Vec<BlobRef>,
    /// The parts of the content from which blobs were made.
    pub(crate) embedded: Vec<EmbeddedBytes>,
}

impl EndedCall {
    /// The record that a caller can ask for, if there is one.
    pub(crate) fn record(&self) -> Option<&RefId> {
        self.ref_id.as_ref().filter(|_| self.not_recorded.is_none())
    }
}

impl From<&EndedCall> for Fields {
    /// The short answer: the call's status, and the `ref_id` under which the rest can be read.
    fn from(call: &EndedCall) -> Self {
        let mut fields = Self::default();
        fields.set("ref_id", encode(&call.record()));
        fields.set("session_id", encode(&call.session.as_ref().map(|session| &session.uid)));
        fields.set("status", encode(&call.status));
        fields.set("timestamp", encode(&timestamp_ms(call.at)));
        let metadata = json!({
            "tool": call.tool,
            "has_snapshot": call.has_snapshot,
            "has_console_logs": call.console > 0,
            "console_error_count": call.console_errors,
        });
        let mut metadata = metadata;
        // Leave out the number of a connection's own session: callers do not use it.
        if let Some(session) =
            call.session.as_ref().filter(|session| !ConnectionId::is_session_name(&session.name))
        {
            metadata["session"] = json!(session.name);
        }
        if !call.blobs.is_empty() {
            let mut names: Vec<_> =
                call.blobs.iter().map(|blob| format!("greenroom://blobs/{}", blob.id)).collect();
            // An image that is both in the answer and a file is one blob.
            let mut named = HashSet::new();
            names.retain(|name| named.insert(name.clone()));
            metadata["blobs"] = json!(names);
        }
        fields.set("metadata", encode(&metadata));
        if let Some(error) = &call.error {
            fields.set("error", encode(error));
        }
        fields
    }
}
