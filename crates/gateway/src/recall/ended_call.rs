//! What is known of a call that has ended: what forms of its answer are made of, and what a program is told.

use std::{collections::HashSet, sync::Arc, time::SystemTime};

use greenroom_core::{
    Fields, RefId,
    raw::encode,
    record::{BlobRef, SessionRef, Status},
    time::timestamp_ms,
};
use serde_json::json;

use super::result::Embedded;

/// What is known of a call that has ended.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) tool: Arc<str>,
    /// `None` where nothing is kept.
    pub(crate) ref_id: Option<RefId>,
    /// Why there is no record though there should be one.
    pub(crate) not_recorded: Option<Arc<str>>,
    pub(crate) session: Option<SessionRef>,
    pub(crate) status: Status,
    pub(crate) error: Option<String>,
    pub(crate) at: SystemTime,
    pub(crate) has_snapshot: bool,
    /// The snapshot as it is kept.
    pub(crate) snapshot: Option<Arc<str>>,
    pub(crate) console: usize,
    pub(crate) console_errors: usize,
    /// Those that stand in the result, and then the files.
    pub(crate) blobs: Vec<BlobRef>,
    /// The parts of the content that blobs were made of.
    pub(crate) embedded: Vec<Embedded>,
}

impl Kept {
    /// The record to ask for, if there is one.
    pub(crate) fn record(&self) -> Option<&RefId> {
        self.ref_id.as_ref().filter(|_| self.not_recorded.is_none())
    }
}

impl From<&Kept> for Fields {
    /// The answer in few words: what the call came to, and by what name to ask for the rest.
    fn from(kept: &Kept) -> Self {
        let mut fields = Self::default();
        fields.set("ref_id", encode(&kept.record()));
        fields.set("session_id", encode(&kept.session.as_ref().map(|session| &session.uid)));
        fields.set("status", encode(&kept.status));
        fields.set("timestamp", encode(&timestamp_ms(kept.at)));
        let metadata = json!({
            "tool": kept.tool,
            "has_snapshot": kept.has_snapshot,
            "has_console_logs": kept.console > 0,
            "console_error_count": kept.console_errors,
        });
        let mut metadata = metadata;
        // A connection's own session goes by a number that nobody calls it by.
        if let Some(session) = kept.session.as_ref().filter(|session| !session.name.starts_with('#')) {
            metadata["session"] = json!(session.name);
        }
        if !kept.blobs.is_empty() {
            let mut names: Vec<_> =
                kept.blobs.iter().map(|blob| format!("greenroom://blobs/{}", blob.id)).collect();
            // A picture that stands in the answer and is a file too is one blob.
            let mut named = HashSet::new();
            names.retain(|name| named.insert(name.clone()));
            metadata["blobs"] = json!(names);
        }
        fields.set("metadata", encode(&metadata));
        if let Some(error) = &kept.error {
            fields.set("error", encode(error));
        }
        fields
    }
}
