//! Reads a record's content for `get_content` and REST: whole, in part, or what is new in it.
//!
//! A record's content is its page snapshot, or without one the texts of its result. Each record has a cursor for plain
//! reads: the first read returns everything, later reads only what is new since, which for an ended call is nothing
//! until the cursor is reset. Reads with a search, offset or comparison neither use nor move the cursor.

use greenroom_core::{
    Owner, Records, RefId,
    excerpt::echoed,
    raw::parse,
    record::{Cursor, Unreadable},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::offload::offload_if_large;

use super::{
    diff::{SnapshotDiff, diff},
    result::text_of,
    search::{self, LineQuery},
};

/// Which part of a record's content a caller asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContentQuery {
    /// Only lines with this text.
    pub(crate) search_for: Option<String>,
    pub(crate) before_lines: usize,
    pub(crate) after_lines: usize,
    pub(crate) reset_cursor: bool,
    /// From this line on, counted from 0.
    pub(crate) offset: Option<usize>,
    pub(crate) limit: Option<usize>,
    /// Only what changed since this record.
    pub(crate) since: Option<String>,
}

/// A part of a record's content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContentPart {
    pub(crate) text: String,
    /// How many lines the whole has.
    pub(crate) total_lines: usize,
    /// How many lines of the content this part has.
    pub(crate) lines: usize,
    /// The offset of the next part, if there is more.
    pub(crate) next: Option<usize>,
    /// How many lines match the search.
    pub(crate) matches: Option<usize>,
    /// A note for the reader.
    pub(crate) note: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error("no record has this ref_id: `{}`", echoed(.0))]
    NoRecord(String),
    #[error("the call has not ended, or greenroom ended while it ran: `{0}`")]
    NotEnded(RefId),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Reads a part of a record's content, or what is new in it.
pub(crate) async fn read(
    records: &dyn Records,
    owner: &Owner,
    id: &str,
    query: &ContentQuery,
) -> Result<ContentPart, ContentError> {
    let (ref_id, whole) = content(records, owner, id).await?;
    let _guard = offload_if_large(whole.len()).await;
    if let Some(since) = &query.since {
        let (_, earlier) = content(records, owner, since).await?;
        let (changes, note) = match diff(&earlier, &whole) {
            SnapshotDiff::Same => (String::new(), None),
            SnapshotDiff::Changed(text) => (text, None),
            SnapshotDiff::TooDifferent => {
                (whole, Some("too different to compare: this is all of it".to_owned()))
            }
        };
        return Ok(ContentPart { note, ..query.part(&changes) });
    }
    if query.search_for.is_some() || query.offset.is_some() || query.limit.is_some() {
        return Ok(query.part(&whole));
    }
    unread(records, &ref_id, whole, query.reset_cursor).await
}

/// The content of an owner's record.
async fn content(records: &dyn Records, owner: &Owner, id: &str) -> Result<(RefId, String), ContentError> {
    let none = || ContentError::NoRecord(id.to_owned());
    let ref_id = RefId::parse(id).map_err(|_| none())?;
    let record = records.record(owner, &ref_id).await?.ok_or_else(none)?;
    match (record.snapshot, record.result) {
        (Some(snapshot), _) => Ok((ref_id, snapshot)),
        (None, Some(result)) => {
            let _guard = offload_if_large(result.len()).await;
            let text = parse(result.clone()).map_or(result, |result| text_of(&result));
            Ok((ref_id, text))
        }
        (None, None) => Err(ContentError::NotEnded(ref_id)),
    }
}

impl ContentQuery {
    fn part(&self, text: &str) -> ContentPart {
        let offset = self.offset.unwrap_or(0);
        let shown = search::read(
            text,
            &LineQuery {
                search_for: self.search_for.as_deref(),
                before_lines: self.before_lines,
                after_lines: self.after_lines,
                offset,
                limit: self.limit,
            },
        );
        ContentPart {
            next: shown.next_offset(offset),
            total_lines: shown.lines_total,
            lines: shown.lines_shown,
            matches: self.search_for.as_ref().map(|_| shown.matches),
            note: None,
            text: shown.text,
        }
    }
}

/// The SHA-256 of a text, as 64 hex digits.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content after the cursor, which then moves to the end.
async fn unread(
    records: &dyn Records,
    ref_id: &RefId,
    whole: String,
    reset: bool,
) -> Result<ContentPart, ContentError> {
    let cursor = if reset { None } else { records.cursor(ref_id).await? };
    // The cursor is valid only if the text before it is what was read.
    let position = cursor.and_then(|Cursor { position, hash: seen }| {
        let position = usize::try_from(position).ok()?;
        whole.get(..position).filter(|read| hash(read) == seen).map(|_| position)
    });
    let position = position.unwrap_or(0);
    let end = Cursor { position: whole.len() as u64, hash: hash(&whole) };
    let note = match records.set_cursor(ref_id, end).await {
        Ok(()) => None,
        Err(why) => Some(format!("the cursor cannot be stored: {why}")),
    };
    let total_lines = whole.lines().count();
    let text = if position == 0 { whole } else { whole.get(position..).unwrap_or_default().to_owned() };
    let lines = text.lines().count();
    Ok(ContentPart { total_lines, lines, next: None, matches: None, note, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryRecords, store_blob};

    /// Another owner's record looks as if it did not exist: a caller cannot read it, compare with it, or move its
    /// cursor.
    #[tokio::test]
    async fn records_of_other_owners_are_hidden() {
        let records = MemoryRecords::new();
        let (_, hers) = store_blob(&records, "ann", "a", "text/plain").await;
        let (_, his) = store_blob(&records, "bob", "b", "text/plain").await;
        let bob = Owner::new("bob");
        let ann = Owner::new("ann");
        let asks = [
            (hers.as_str(), ContentQuery::default()),
            (hers.as_str(), ContentQuery { reset_cursor: true, ..ContentQuery::default() }),
            (hers.as_str(), ContentQuery { offset: Some(0), ..ContentQuery::default() }),
            (his.as_str(), ContentQuery { since: Some(hers.to_string()), ..ContentQuery::default() }),
        ];
        for (id, query) in asks {
            let error = read(&*records, &bob, id, &query).await.unwrap_err();
            assert_eq!(error.to_string(), format!("no record has this ref_id: `{hers}`"), "{query:?}");
        }
        let whole = read(&*records, &ann, hers.as_str(), &ContentQuery::default()).await.unwrap();
        assert_eq!(whole.text, "- page");
    }
}
