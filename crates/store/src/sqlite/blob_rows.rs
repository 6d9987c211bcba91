//! Which blobs there are, who may read them, and which of them an owner has.

use std::{collections::HashSet, sync::Arc};

use greenroom_core::{
    Owner,
    excerpt::FIELD_BYTES_MAX,
    record::{BlobId, BlobRef},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::rows::{self, BLOB_REF};

/// The owner's newest reference to a blob, and the pools that have it. `None` where no record of the owner names it.
pub(crate) fn blob(
    connection: &Connection,
    owner: &Owner,
    id: &BlobId,
) -> rusqlite::Result<Option<(BlobRef, Vec<Arc<str>>)>> {
    let about = connection
        .prepare_cached(&format!(
            "SELECT {BLOB_REF} FROM blob_refs WHERE sha256 = ?1 AND owner = ?2 ORDER BY position DESC LIMIT 1"
        ))?
        .query_row(params![id.as_str(), owner.as_str()], rows::blob_ref)
        .optional()?;
    let Some(about) = about else { return Ok(None) };
    let pools = connection
        .prepare_cached("SELECT pool FROM blobs WHERE sha256 = ?1")?
        .query_map([id.as_str()], |row| row.get::<_, Arc<str>>(0))?
        .collect::<Result<_, _>>()?;
    Ok(Some((about, pools)))
}

/// The owner's blobs, newest first. A blob that several records name appears once, as the newest record names
/// it. Removed blobs are left out.
pub(crate) fn blobs(
    connection: &Connection,
    owner: &Owner,
    skip: usize,
    limit: usize,
) -> rusqlite::Result<Vec<BlobRef>> {
    let mut select = connection.prepare_cached(&blobs_sql())?;
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for blob in select.query_map([owner.as_str()], rows::blob_ref)? {
        if found.len() == limit {
            break;
        }
        let blob = blob?;
        if seen.insert(blob.id.clone()) && seen.len() > skip {
            found.push(blob);
        }
    }
    Ok(found)
}

/// The query needs no sort, so SQLite reads one row after the other and stops when the caller has enough.
pub(crate) fn blobs_sql() -> String {
    format!(
        "SELECT sha256, substr(mime, 1, {FIELD_BYTES_MAX}), substr(name, 1, {FIELD_BYTES_MAX}), bytes
         FROM blob_refs INDEXED BY blob_refs_by_owner WHERE owner = ?1
         AND EXISTS (SELECT 1 FROM blobs WHERE blobs.sha256 = blob_refs.sha256)
         ORDER BY position DESC, place DESC"
    )
}
