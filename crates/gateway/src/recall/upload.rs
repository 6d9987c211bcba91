//! Files that a program uploads, so that an agent on another machine can hand them to a browser. An upload is recorded like
//! a call, without a session: so it has an owner, is listed, and is removed with its owner's other records.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use greenroom_core::{
    Owner, RefId,
    raw::encode,
    record::{BlobRef, NotRecorded, Records, Request, Response, Status},
};
use serde_json::json;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// The tool's name in an upload's record.
const TOOL: &str = "blob_upload";

/// How many uploads are read at once. Each is in memory until it is written.
const PARALLEL_MAX: usize = 4;

/// How much programs may upload.
pub struct Uploads {
    pub(crate) bytes_max: usize,
    /// How long an unused file stays.
    pub(crate) ttl: Duration,
    pub(crate) permits: Semaphore,
}

impl Uploads {
    pub fn new(bytes_max: u64, ttl: Duration) -> Self {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Self { bytes_max, ttl, permits: Semaphore::new(PARALLEL_MAX) }
    }
}

impl Default for Uploads {
    fn default() -> Self {
        Self::new(64 << 20, Duration::from_secs(24 * 3600))
    }
}

/// Keeps a file as a blob of this owner.
pub(crate) async fn keep(
    records: &dyn Records,
    owner: &Owner,
    pool: &str,
    mime: String,
    name: Option<String>,
    data: Vec<u8>,
) -> Result<BlobRef, NotRecorded> {
    let at = SystemTime::now();
    let bytes = data.len() as u64;
    let id = records.keep(pool, data).await?;
    let blob = BlobRef { id, mime, name, bytes };
    let ref_id = RefId::new(at, Uuid::new_v4().into_bytes());
    let params = encode(&json!({ "name": blob.name, "mime_type": blob.mime, "bytes": bytes }));
    let tool = Arc::from(TOOL);
    let begun = records.begin(Request {
        ref_id: ref_id.clone(),
        owner: owner.clone(),
        session: None,
        tool,
        params,
        at,
    });
    let ended_at = SystemTime::now();
    let ended = records.end(Response {
        ref_id,
        session: None,
        status: Status::Success,
        result: Arc::from(json!({ "content": [] }).to_string()),
        snapshot: None,
        console: Vec::new(),
        error: None,
        blobs: vec![blob.clone()],
        url: None,
        title: None,
        at: ended_at,
        took: ended_at.duration_since(at).unwrap_or(Duration::ZERO),
    });
    begun.await?;
    ended.await?;
    Ok(blob)
}
