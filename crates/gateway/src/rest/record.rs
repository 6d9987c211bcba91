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

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallStatus {
    Success,
    /// The tool failed, or no browser could be had for it.
    Error,
    /// It has not ended yet, or greenroom did not survive it.
    Pending,
}

/// A call, as lists show it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CallView {
    #[schema(format = Uuid)]
    ref_id: String,
    /// The UUID of its session, unless it has none.
    #[schema(format = Uuid, required)]
    session_id: Option<String>,
    status: CallStatus,
    /// When it ended, or, until then, when it began.
    #[schema(format = DateTime)]
    timestamp: String,
    metadata: CallMetadata,
    /// Why it failed, if it did.
    #[schema(required)]
    error: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CallMetadata {
    tool: String,
    has_snapshot: bool,
    has_console_logs: bool,
    console_error_count: usize,
    /// What the session's owner calls it: its id, or `#7` for the own session of connection 7.
    #[schema(required)]
    session: Option<String>,
    /// Why nothing of the call is kept, though it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_recorded: Option<String>,
    /// What an agent would read below the answer: that the session was restarted, that it ends soon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// The result of one of greenroom's own tools. It leaves no record, so its answer is here.
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
    /// What an agent would be answered: an MCP tool result.
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

/// A call with everything that is kept of it but its page, which is at `/content`, and its console, at `/console`.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallDetail {
    #[serde(flatten)]
    call: CallView,
    /// The arguments, without secrets.
    #[schema(value_type = Object)]
    params: Raw,
    /// The engine's answer, exact but for image data, which is a blob's name. `null` until there is one.
    #[schema(value_type = Value, required)]
    result: Option<Raw>,
    /// The page's URL and title after the call.
    #[schema(required)]
    url: Option<String>,
    #[schema(required)]
    title: Option<String>,
    #[schema(required)]
    took_ms: Option<u64>,
    blobs: Vec<BlobLink>,
}

/// Kept bytes that came with a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlobLink {
    sha256: String,
    mime_type: String,
    #[schema(required)]
    name: Option<String>,
    bytes: u64,
    /// Where they can be fetched, at this server.
    url: String,
}

/// Calls, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallList {
    pub(super) calls: Vec<CallView>,
    /// What `before` must be for the calls before these; `null` when there are none.
    #[schema(required)]
    pub(super) next: Option<u64>,
}

/// What a call showed: its page, or the text of its answer; all of it, a part, or what is new.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallContent {
    #[schema(format = Uuid)]
    ref_id: String,
    content: String,
    /// How many lines are here, and how many the whole has.
    lines: usize,
    total_lines: usize,
    /// The `offset` that reads on, if there is more.
    #[schema(required)]
    next_offset: Option<usize>,
    /// How many lines have what was searched for.
    #[schema(required)]
    matches: Option<usize>,
    /// What else there is to say.
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

/// What the page's console said during a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallConsole {
    #[schema(format = Uuid)]
    pub(super) ref_id: String,
    pub(super) console: Vec<ConsoleMessage>,
    /// The `offset` that reads on, if there is more.
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

/// Where in a page's code something happened.
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
