//! `get_console_content`: the console lines of a call.

use greenroom_core::{
    RefId,
    record::{ConsoleLine, ConsolePart, ConsoleRange, Level},
};
use serde::Deserialize;
use serde_json::json;

use super::{OwnTool, ToolOutput};
use crate::{error_response::ErrorResponse, recall::content::ContentError};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "get_console_content",
    description: "Recall the console lines of a call, by its ref_id",
    schema: || {
        json!({
            "properties": {
                "ref_id": { "type": "string" },
                "level": { "type": "string", "enum": ["debug", "info", "warn", "error", ""] },
                "offset": { "type": "integer", "minimum": 0 },
            },
            "required": ["ref_id"],
        })
    },
    read_only: true,
    usable: |gateway, _| gateway.recall.records.is_some(),
    run: |context| {
        Box::pin(async move {
            #[derive(Deserialize)]
            struct ConsoleArguments {
                ref_id: String,
                #[serde(default)]
                level: String,
                #[serde(default)]
                offset: usize,
            }
            let ConsoleArguments { ref_id, level, offset } = context.arguments()?;
            let part = read(context.records()?, context.owner(), &ref_id, &level, offset).await?;
            let mut notes = Vec::new();
            if part.lines.is_empty() {
                notes.push("no such console lines".to_owned());
            }
            notes.extend(part.next.map(|next| format!("there are more lines: read on with offset {next}")));
            Ok(ToolOutput { notes, ..ToolOutput::text(text(&part.lines)) })
        })
    },
    ..OwnTool::DEFAULTS
};

/// A part of a record's console lines, of one level or of all.
pub(crate) async fn read(
    records: &dyn greenroom_core::Records,
    owner: &greenroom_core::Owner,
    id: &str,
    level: &str,
    offset: usize,
) -> Result<ConsolePart, ErrorResponse> {
    let none = || ContentError::NoRecord(id.to_owned());
    let ref_id = RefId::parse(id).map_err(|_| none())?;
    let level = Level::ALL.into_iter().find(|one| one.as_str() == level);
    let range = ConsoleRange { level, offset };
    let part = records.console_part(owner, &ref_id, range).await.map_err(ContentError::from)?;
    Ok(part.ok_or_else(none)?)
}

/// `[warn] text (http://…:3:7)`, one per line.
pub(crate) fn text(lines: &[ConsoleLine]) -> String {
    let line = |line: &ConsoleLine| {
        let place = line.location.as_ref().map(|place| {
            let numbers = [place.line_number, place.column_number];
            let numbers: String = numbers.iter().flatten().map(|number| format!(":{number}")).collect();
            format!(" ({}{numbers})", place.url)
        });
        format!("[{}] {}{}", line.level.as_str(), line.message, place.unwrap_or_default())
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
