//! Records as programs see them: the JSON of `/api/calls`, field for field.

use greenroom_core::{
    Owner, Raw, Records, RefId, raw,
    record::{BlobRef, ConsoleLine, Level, Location, Record, Status, Summary, Unreadable},
    time::timestamp_ms,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, Type},
    },
};

use crate::{
    offload::offload_if_large,
    recall::{EndedCall, content::ContentPart},
};

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallStatus {
    Success,
    /// The tool failed, or no browser could be had for it.
    Error,
    /// It has not ended yet, or greenroom did not survive it.
    Pending,
}

/// A tool call.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CallView {
    #[schema(format = Uuid)]
    ref_id: String,
    /// The UUID of its session, if it has one.
    #[schema(format = Uuid, required)]
    session_id: Option<String>,
    status: CallStatus,
    /// When it ended; while it runs, when it began.
    #[schema(format = DateTime)]
    timestamp: String,
    metadata: CallMetadata,
    /// Why it failed; absent if it did not.
    #[schema(required)]
    error: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CallMetadata {
    tool: String,
    has_snapshot: bool,
    has_console_logs: bool,
    console_error_count: usize,
    /// The session's name: the `sessionId` that its owner chose, or `#7` for the default session of MCP connection 7.
    #[schema(required)]
    session: Option<String>,
    /// Why the call has no record, although it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_recorded: Option<String>,
    /// Notes that greenroom adds below an answer for agents, for example that the session was restarted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// The result of one of greenroom's own tools. Such a call has no record, so this contains its answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct OwnCall {
    /// Always `null`.
    #[schema(required)]
    ref_id: Option<String>,
    /// Always `null`.
    #[schema(required)]
    session_id: Option<String>,
    status: CallStatus,
    #[schema(format = DateTime)]
    timestamp: String,
    metadata: CallMetadata,
    #[schema(required)]
    error: Option<String>,
    /// The answer that an agent would get: an MCP tool result.
    #[schema(value_type = Object)]
    result: Raw,
}

/// The result of a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum CallResponse {
    Recorded(Box<CallView>),
    Own(Box<OwnCall>),
}

impl OwnCall {
    /// `error` says why the tool failed, if it did.
    pub(super) fn new(tool: &str, error: Option<String>, result: Raw) -> Self {
        Self {
            ref_id: None,
            session_id: None,
            status: if error.is_some() { CallStatus::Error } else { CallStatus::Success },
            timestamp: timestamp_ms(std::time::SystemTime::now()),
            metadata: CallMetadata { tool: tool.to_owned(), ..CallMetadata::default() },
            error,
            result,
        }
    }
}

/// A call with its record. Its page is at `/content`, its console at `/console`.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallDetail {
    #[serde(flatten)]
    call: CallView,
    /// The arguments, with secrets removed.
    #[schema(value_type = Object)]
    params: Raw,
    /// The engine's answer, with image data replaced by the name of a blob. `null` until the call has ended.
    #[schema(value_type = Value, required)]
    result: Option<Raw>,
    /// The page's URL after the call.
    #[schema(required)]
    url: Option<String>,
    #[schema(required)]
    title: Option<String>,
    #[schema(required)]
    took_ms: Option<u64>,
    blobs: Vec<BlobLink>,
}

/// A blob that came with a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlobLink {
    sha256: String,
    mime_type: String,
    #[schema(required)]
    name: Option<String>,
    bytes: u64,
    /// The path at this server to download it from.
    url: String,
}

/// Calls, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallList {
    pub(super) calls: Vec<CallView>,
    /// The `before` of the next list, with older calls; `null` at the end.
    #[schema(required)]
    pub(super) next: Option<u64>,
}

/// The page snapshot of a call, or the text of its answer: the whole, a part, or the new lines.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallContent {
    #[schema(format = Uuid)]
    ref_id: String,
    content: String,
    /// How many lines this contains, and how many the whole text has.
    lines: usize,
    total_lines: usize,
    /// The `offset` of the next part, if there is one.
    #[schema(required)]
    next_offset: Option<usize>,
    /// How many lines match the search.
    #[schema(required)]
    matches: Option<usize>,
    /// A remark on the content, if there is one.
    #[schema(required)]
    note: Option<String>,
}

impl CallContent {
    pub(super) fn new(ref_id: &RefId, content: ContentPart) -> Self {
        let ContentPart { text, total_lines, lines, next, matches, note } = content;
        let ref_id = ref_id.to_string();
        Self { ref_id, content: text, lines, total_lines, next_offset: next, matches, note }
    }
}

/// Console messages that the page wrote during a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallConsole {
    #[schema(format = Uuid)]
    pub(super) ref_id: String,
    pub(super) console: Vec<ConsoleMessage>,
    /// The `offset` of the next part, if there is one.
    #[schema(required)]
    pub(super) next_offset: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ConsoleMessage {
    /// `debug`, `info`, `warn` or `error`.
    level: &'static str,
    message: String,
    #[schema(format = DateTime, required)]
    timestamp: Option<String>,
    #[schema(required)]
    location: Option<SourceLocation>,
}

/// A position in a page's source code.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceLocation {
    url: String,
    #[schema(required)]
    line_number: Option<u32>,
    #[schema(required)]
    column_number: Option<u32>,
}

/// Which console lines a program asks for: those of one level, or all.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ConsoleLevel {
    Debug,
    Info,
    Warn,
    Error,
    #[default]
    #[serde(rename = "")]
    All,
}

// By hand, since the derived one cannot express the empty word.
impl PartialSchema for ConsoleLevel {
    fn schema() -> RefOr<Schema> {
        let words = Level::ALL.map(Level::as_str).into_iter().chain([""]);
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
    }
}

impl ToSchema for ConsoleLevel {}

impl ConsoleLevel {
    pub(super) fn level(self) -> Option<Level> {
        match self {
            Self::Debug => Some(Level::Debug),
            Self::Info => Some(Level::Info),
            Self::Warn => Some(Level::Warn),
            Self::Error => Some(Level::Error),
            Self::All => None,
        }
    }
}

impl From<&Summary> for CallView {
    fn from(summary: &Summary) -> Self {
        let outcome = summary.outcome.as_ref();
        Self {
            ref_id: summary.ref_id.to_string(),
            session_id: summary.session.as_ref().map(|session| session.uid.to_string()),
            status: match outcome.map(|outcome| outcome.status) {
                Some(Status::Success) => CallStatus::Success,
                Some(Status::Error) => CallStatus::Error,
                None => CallStatus::Pending,
            },
            timestamp: timestamp_ms(outcome.map_or(summary.at, |outcome| outcome.at)),
            metadata: CallMetadata {
                tool: summary.tool.clone(),
                has_snapshot: outcome.is_some_and(|outcome| outcome.has_snapshot),
                has_console_logs: outcome.is_some_and(|outcome| outcome.console > 0),
                console_error_count: outcome.map_or(0, |outcome| outcome.console_errors),
                session: summary.session.as_ref().map(|session| session.name.to_string()),
                ..CallMetadata::default()
            },
            error: outcome.and_then(|outcome| outcome.error.clone()),
        }
    }
}

impl CallView {
    /// A call that has just ended.
    pub(super) fn ended(ref_id: &RefId, call: &EndedCall, notes: Vec<String>) -> Self {
        Self {
            ref_id: ref_id.to_string(),
            session_id: call.session.as_ref().map(|session| session.uid.to_string()),
            status: match call.status {
                Status::Success => CallStatus::Success,
                Status::Error => CallStatus::Error,
            },
            timestamp: timestamp_ms(call.at),
            metadata: CallMetadata {
                tool: call.tool.to_string(),
                has_snapshot: call.has_snapshot,
                has_console_logs: call.console > 0,
                console_error_count: call.console_errors,
                session: call.session.as_ref().map(|session| session.name.to_string()),
                not_recorded: call.not_recorded.as_deref().map(ToOwned::to_owned),
                notes,
            },
            error: call.error.clone(),
        }
    }
}

impl From<Record> for CallDetail {
    fn from(record: Record) -> Self {
        let call = CallView::from(&record.summary);
        let outcome = record.summary.outcome;
        let took = outcome.as_ref().map(|outcome| outcome.took.as_millis());
        Self {
            call,
            params: record.params,
            result: record.result.map(json_or_text),
            url: outcome.as_ref().and_then(|outcome| outcome.url.clone()),
            title: outcome.and_then(|outcome| outcome.title),
            took_ms: took.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
            blobs: record.blobs.iter().map(BlobLink::from).collect(),
        }
    }
}

impl From<&BlobRef> for BlobLink {
    fn from(blob: &BlobRef) -> Self {
        Self {
            sha256: blob.id.to_string(),
            mime_type: blob.mime.clone(),
            name: blob.name.clone(),
            bytes: blob.bytes,
            url: format!("/api/blobs/{}", blob.id),
        }
    }
}

impl From<ConsoleLine> for ConsoleMessage {
    fn from(line: ConsoleLine) -> Self {
        let place =
            |Location { url, line_number, column_number }| SourceLocation { url, line_number, column_number };
        Self {
            level: line.level.as_str(),
            message: line.message,
            timestamp: line.at.map(timestamp_ms),
            location: line.location.map(place),
        }
    }
}

/// Everything recorded of a call, its page and its console too, as one JSON text; `None` if there is no such call.
pub(crate) async fn whole_record(
    records: &dyn Records,
    owner: &Owner,
    id: &RefId,
) -> Result<Option<String>, Unreadable> {
    #[derive(Serialize)]
    struct WholeRecord {
        #[serde(flatten)]
        detail: CallDetail,
        snapshot: Option<String>,
        console: Vec<ConsoleMessage>,
    }
    let Some(mut record) = records.record(owner, id).await? else { return Ok(None) };
    let console = records.console(owner, id, None).await?.unwrap_or_default();
    let snapshot = record.snapshot.take();
    let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let _guard = offload_if_large(bytes(&record.result) + bytes(&snapshot)).await;
    let console = console.into_iter().map(ConsoleMessage::from).collect();
    Ok(Some(raw::encode(&WholeRecord { detail: record.into(), snapshot, console }).get().to_owned()))
}

/// A recorded answer is JSON, unless it was cut off; then it is shown as text.
fn json_or_text(text: String) -> Raw {
    raw::parse(text.clone()).unwrap_or_else(|_| raw::encode(&Value::String(text)))
}
