//! Records: what greenroom keeps of every call, and the port to the store that keeps it.
//!
//! A record begins before its call runs and ends before its answer leaves. [`Records`] is what the gateway
//! sees of the store; nothing in it depends on the database. Every read is on behalf of an [`Owner`], and finds
//! no record of another owner.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use crate::{
    id::{Owner, SessionUid},
    port::BoxFuture,
    raw::Raw,
    uid,
};

/// The name of a record: a UUID, in lower case with hyphens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct RefId(Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a ref_id is a UUID such as 0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b")]
pub struct InvalidRefId;

impl RefId {
    /// A new id, made of the time and random bytes: see [`uid::new`].
    pub fn new(at: SystemTime, random: [u8; 16]) -> Self {
        Self(uid::new(at, random))
    }

    /// Parses an id in any spelling of a UUID.
    pub fn parse(text: &str) -> Result<Self, InvalidRefId> {
        uid::parse(text).map(Self).ok_or(InvalidRefId)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The SHA-256 of kept bytes, as 64 hex digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct BlobId(Arc<str>);

impl BlobId {
    /// The start of a blob's address as an MCP resource; the id follows.
    pub const URI: &str = "greenroom://blobs/";

    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (text.len() == 64 && is_hex).then(|| Self(Arc::from(text)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The session of a call, as records refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    pub uid: SessionUid,
    /// The session's name for its owner: its id, or `#7` for the own session of connection 7.
    pub name: Arc<str>,
    pub pool: Arc<str>,
}

/// A call that is about to run.
#[derive(Debug, Clone)]
pub struct Request {
    pub ref_id: RefId,
    pub owner: Owner,
    /// `None` for a call without a session.
    pub session: Option<SessionRef>,
    pub tool: Arc<str>,
    /// The arguments, without secrets.
    pub params: Raw,
    pub at: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Success,
    Error,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// The severity of a console line. Ordered: `Error` is the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The level that a browser's or engine's word for it means; an unknown word is `Info`.
    pub fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "debug" | "verbose" | "trace" => Self::Debug,
            "warn" | "warning" => Self::Warn,
            "error" | "assert" | "exception" => Self::Error,
            _ => Self::Info,
        }
    }
}

/// One console line, normalised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConsoleLine {
    pub level: Level,
    pub message: String,
    /// When the page wrote the line, if known.
    pub at: Option<SystemTime>,
    pub location: Option<Location>,
}

/// Where in a page's code something happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    pub url: String,
    pub line_number: Option<u32>,
    pub column_number: Option<u32>,
}

/// A blob that a record names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlobRef {
    pub id: BlobId,
    pub mime: String,
    /// The file's name, if it had one.
    pub name: Option<String>,
    pub bytes: u64,
}

/// How a call ended, and what it answered.
#[derive(Debug, Clone)]
pub struct Response {
    pub ref_id: RefId,
    /// The session in which the call ran, if known: the fleet may move a call to its session's successor.
    pub session: Option<SessionRef>,
    pub status: Status,
    /// The engine's answer as JSON, exact except for image data, which a blob's name replaces.
    pub result: Arc<str>,
    pub snapshot: Option<Arc<str>>,
    pub console: Vec<ConsoleLine>,
    pub error: Option<String>,
    pub blobs: Vec<BlobRef>,
    /// The page's URL and title after the call.
    pub url: Option<String>,
    pub title: Option<String>,
    pub at: SystemTime,
    pub took: Duration,
}

/// A call as the store returns it.
#[derive(Debug, Clone)]
pub struct Record {
    pub summary: Summary,
    pub params: Raw,
    /// `None` while the call runs, and if greenroom died before the call ended.
    pub result: Option<String>,
    pub snapshot: Option<String>,
    pub blobs: Vec<BlobRef>,
}

/// What lists show of a record. A list cuts long texts: see [`crate::excerpt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The record's number in the store; later calls have greater numbers.
    pub position: u64,
    pub ref_id: RefId,
    pub session: Option<SessionRef>,
    pub tool: String,
    pub at: SystemTime,
    pub outcome: Option<Outcome>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub status: Status,
    pub error: Option<String>,
    pub at: SystemTime,
    pub took: Duration,
    pub url: Option<String>,
    pub title: Option<String>,
    pub has_snapshot: bool,
    /// How many console lines came with the answer, and how many of them are errors.
    pub console: usize,
    pub console_errors: usize,
}

/// Which records a list shows, newest first.
#[derive(Debug, Clone, Default)]
pub struct RecordFilter {
    pub session: Option<SessionUid>,
    pub tool: Option<String>,
    pub status: Option<Status>,
    /// Only records before this position.
    pub before: Option<u64>,
    pub limit: usize,
}

/// A part of a list of records.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    pub summaries: Vec<Summary>,
    /// There may be more records: the store ended the list before its limit because these have too many bytes.
    pub is_cut: bool,
}

impl std::ops::Deref for Listed {
    type Target = [Summary];

    fn deref(&self) -> &[Summary] {
        &self.summaries
    }
}

/// Which console lines of a record to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConsoleRange {
    /// `None` for lines of every level.
    pub level: Option<Level>,
    /// How many lines of that level to skip.
    pub offset: usize,
}

/// A part of a record's console lines. The store cuts long messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsolePart {
    pub lines: Vec<ConsoleLine>,
    /// The `offset` of the next part, if there is more.
    pub next: Option<usize>,
}

/// A session as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub session: SessionRef,
    pub created: SystemTime,
    pub last_activity: SystemTime,
    pub state: SessionState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    Active,
    Closed,
    Error,
}

impl SessionState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Closed => "closed",
            Self::Error => "error",
        }
    }
}

/// How far a record's content has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub position: u64,
    /// The SHA-256 of the part that a client read last.
    pub hash: String,
}

/// What the store found under a `ref_id` that a client chose.
#[derive(Debug)]
pub enum Claim {
    /// The id was free: the record has begun.
    New,
    /// The owner's own record with this id.
    Repeat(Box<Record>),
    /// Another owner's record has this id.
    Taken,
}

/// Kept bytes.
#[derive(Debug, Clone)]
pub struct Blob {
    pub about: BlobRef,
    pub data: Vec<u8>,
}

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEvent {
    pub at: SystemTime,
    pub ref_id: RefId,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A call began, or, with an outcome, has ended.
    Call {
        tool: String,
        status: Option<Status>,
        took: Option<Duration>,
    },
    /// The session's page has another URL now.
    Navigation {
        url: String,
        title: Option<String>,
    },
    Console {
        level: Level,
        message: String,
    },
    Error {
        message: String,
    },
}

/// A part of a session's timeline, in order.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    pub events: Vec<SessionEvent>,
    /// The position where the next part begins. In an active session that may be a call of this part which still runs:
    /// the call comes again, with all events after it, until it has ended. If `next` is the position that this part
    /// was asked from, nothing follows this part.
    pub next: u64,
}

/// Why a call is not recorded. The call goes on; its answer says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRecorded(pub Arc<str>);

/// Why records cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the records cannot be read: {0}")]
pub struct Unreadable(pub Arc<str>);

/// The store of records.
///
/// A method that writes queues its write when it is called, before its future is polled; the future resolves when the
/// write is on disk, so that it survives the end of this process, however sudden.
pub trait Records: Send + Sync {
    /// Begins a record under a new `ref_id`.
    fn begin(&self, request: Request) -> BoxFuture<'static, Result<(), NotRecorded>>;
    /// Begins a record under a `ref_id` that a client chose, unless it is in use.
    fn claim(&self, request: Request) -> BoxFuture<'static, Result<Claim, NotRecorded>>;
    /// Ends a record. The store does not keep the end of a record whose beginning it did not keep.
    fn end(&self, response: Response) -> BoxFuture<'static, Result<(), NotRecorded>>;
    /// Records the beginning of a session that has had no call yet.
    fn session_began(
        &self,
        owner: &Owner,
        session: &SessionRef,
    ) -> BoxFuture<'static, Result<(), NotRecorded>>;
    /// Records the end of a session.
    fn session_ended(&self, uid: &SessionUid, state: SessionState);
    /// Whether the store keeps records, or why not.
    fn health(&self) -> Result<(), Arc<str>>;

    fn record<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
    ) -> BoxFuture<'a, Result<Option<Record>, Unreadable>>;
    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        filter: RecordFilter,
    ) -> BoxFuture<'a, Result<Listed, Unreadable>>;
    /// A part of the console lines of a record, in order; `None` when there is no such record.
    fn console_part<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
        range: ConsoleRange,
    ) -> BoxFuture<'a, Result<Option<ConsolePart>, Unreadable>>;
    /// All console lines of a record, in order, of one level or of all, uncut.
    fn console<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
        level: Option<Level>,
    ) -> BoxFuture<'a, Result<Option<Vec<ConsoleLine>>, Unreadable>>;
    /// The last snapshot of the same session before this record's.
    fn snapshot_before<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a RefId,
    ) -> BoxFuture<'a, Result<Option<(RefId, String)>, Unreadable>>;
    /// A session by its UUID, or the youngest one of this name.
    fn session<'a>(
        &'a self,
        owner: &'a Owner,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SessionRow>, Unreadable>>;
    /// The events of a session from a position on, with at most `calls_max` calls.
    fn timeline<'a>(
        &'a self,
        owner: &'a Owner,
        session: &'a SessionUid,
        from: u64,
        calls_max: usize,
    ) -> BoxFuture<'a, Result<Timeline, Unreadable>>;

    fn cursor<'a>(&'a self, id: &'a RefId) -> BoxFuture<'a, Result<Option<Cursor>, Unreadable>>;
    fn set_cursor(&self, id: &RefId, cursor: Cursor) -> BoxFuture<'static, Result<(), NotRecorded>>;

    /// Keeps bytes as a blob. Retention deletes a blob that no record names.
    fn keep(&self, pool: &str, data: Vec<u8>) -> BoxFuture<'static, Result<BlobId, NotRecorded>>;
    fn blob<'a>(
        &'a self,
        owner: &'a Owner,
        id: &'a BlobId,
    ) -> BoxFuture<'a, Result<Option<Blob>, Unreadable>>;
    /// The owner's blobs, newest first.
    fn blobs<'a>(
        &'a self,
        owner: &'a Owner,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<BlobRef>, Unreadable>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ref_id is read in any spelling of a UUID, and other texts are refused.
    #[test]
    fn ref_ids_are_parsed_as_uuids() {
        let made = RefId::new(SystemTime::UNIX_EPOCH + Duration::from_millis(0x0123_4567_89ab), [0xff; 16]);
        assert_eq!(made.as_str(), "01234567-89ab-4fff-bfff-ffffffffffff");
        assert_eq!(RefId::parse("{01234567-89AB-4FFF-BFFF-FFFFFFFFFFFF}"), Ok(made));
        assert_eq!(RefId::parse("7"), Err(InvalidRefId));
        assert!(BlobId::parse(&"0f".repeat(32)).is_some());
        for odd in ["", "0F", &"0F".repeat(32), &"../".repeat(22)[..64]] {
            assert_eq!(BlobId::parse(odd), None, "{odd}");
        }
    }

    /// Every word for a level is understood.
    #[test]
    fn console_levels_are_parsed() {
        for (word, level) in [("warning", Level::Warn), ("LOG", Level::Info), ("Error", Level::Error)] {
            assert_eq!(Level::from_word(word), level);
        }
        assert!(Level::Error > Level::Warn && Level::Info > Level::Debug);
    }
}
