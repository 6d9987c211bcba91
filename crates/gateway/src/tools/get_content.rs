//! `get_content`: the recorded page snapshot or text of an answer: whole, in part, or what is new.

use greenroom_core::plural::{count_of, is, verb};
use serde::Deserialize;
use serde_json::json;

use super::{OwnTool, ToolOutput};
use crate::{
    error_response::ErrorResponse,
    recall::content::{self, ContentPart, ContentQuery},
};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "get_content",
    description: "Recall what a call answered, by its ref_id: first everything, later only what is new; search_for, offset, limit (lines) and since read parts",
    schema: || {
        json!({
            "properties": {
                "ref_id": { "type": "string" },
                "search_for": { "type": "string", "description": "Only lines with this text" },
                "before_lines": { "type": "integer", "minimum": 0 },
                "after_lines": { "type": "integer", "minimum": 0 },
                "offset": { "type": "integer", "minimum": 0 },
                "limit": { "type": "integer", "minimum": 1 },
                "since": { "type": "string", "description": "Only changes since this ref_id" },
                "reset_cursor": { "type": "boolean" },
            },
            "required": ["ref_id"],
        })
    },
    read_only: true,
    usable: |gateway, _| gateway.recall.records.is_some(),
    run: |context| {
        Box::pin(async move {
            #[derive(Deserialize)]
            struct ContentArguments {
                ref_id: String,
                #[serde(flatten)]
                query: ContentQuery,
            }
            let ContentArguments { ref_id, query } = context.arguments()?;
            let records = context.records()?;
            let content = content::read(records, context.owner(), &ref_id, &query).await?;
            Ok(tool_output(content, &query))
        })
    },
    is_core: true,
    ..OwnTool::DEFAULTS
};

/// The text alone, so that the agent can use it as it is; a note says which part it is.
fn tool_output(content: ContentPart, query: &ContentQuery) -> ToolOutput {
    let ContentPart { text, total_lines, lines, next, matches, note } = content;
    let mut notes: Vec<_> = note.into_iter().collect();
    if let (Some(0), Some(searched)) = (matches, &query.search_for) {
        notes.push(format!("no line of {total_lines} has \"{searched}\""));
    } else if let Some(next) = next {
        let matches = matches
            .map(|matches| format!(", {matches} {}", verb(matches, "matches", "match")))
            .unwrap_or_default();
        notes.push(format!("{}{matches}; next: offset {next}", count_of(lines, total_lines, "line")));
    } else if let (true, Some(since)) = (total_lines == 0, &query.since) {
        notes.push(format!("no changes since ref_id {since}"));
    } else if text.is_empty() && total_lines > 0 && matches.is_none() {
        notes.push(match query.offset {
            Some(_) => {
                format!("no line at this offset: there {} {total_lines}, counted from 0", is(total_lines))
            }
            None => "nothing new since it was last read; reset_cursor reads it again".to_owned(),
        });
    }
    ToolOutput { notes, ..ToolOutput::text(text) }
}

impl From<content::ContentError> for ErrorResponse {
    fn from(error: content::ContentError) -> Self {
        match &error {
            content::ContentError::NoRecord(_) => Self::no_record(error.to_string()),
            content::ContentError::NotEnded(_) => Self::not_ended(error.to_string()),
            content::ContentError::Unreadable(_) => Self::unreadable(error.to_string()),
        }
    }
}
