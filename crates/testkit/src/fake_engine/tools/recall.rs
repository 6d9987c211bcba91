//! Tools whose answers are worth recording: many lines, pictures, text that was typed into a field.
//!
//! The shapes are those that the playwright engine sends; only file names and code are shorter.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;

use super::{Call, Tool, ToolReply, quote};
use crate::{fake_engine::Engine, picture};

/// How a PNG begins: its signature and the length of its first chunk, as base64 of whole bytes.
const PNG: &str = "iVBORw0KGgoAAAAN";

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "lines",
        description: "Answers so many lines: `line 1 of N`, `line 2 of N`, and so on.",
        properties: r#""count":{"type":"integer","minimum":0}"#,
        required: &["count"],
        run: lines,
        ..Tool::BARE
    },
    Tool {
        name: "picture",
        description: "Answers as a screenshot is answered. Equal numbers and sizes are equal pictures. With width and height it is a PNG that can be decoded.",
        properties: r#""number":{"type":"integer","minimum":0,"default":0},"bytes":{"type":"integer","minimum":0,"default":0},"width":{"type":"integer","minimum":0,"default":0},"height":{"type":"integer","minimum":0,"default":0}"#,
        run: picture,
        ..Tool::BARE
    },
    Tool {
        name: "fill",
        description: "Stands for typing into a field. Answers the code that would do it, with the text in it.",
        properties: r#""element":{"type":"string"},"target":{"type":"string"},"text":{"type":"string"}"#,
        required: &["target", "text"],
        run: fill,
        ..Tool::BARE
    },
];

fn lines(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lines {
        count: usize,
    }
    let Lines { count } = call.arguments()?;
    let lines: Vec<_> = (1..=count).map(|n| format!("line {n} of {count}")).collect();
    Ok(ToolReply::text(&lines.join("\n")))
}

fn picture(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Picture {
        #[serde(default)]
        number: u32,
        #[serde(default)]
        bytes: usize,
        #[serde(default)]
        width: u32,
        #[serde(default)]
        height: u32,
    }
    let Picture { number, bytes, width, height } = call.arguments()?;
    let data = match width * height {
        // Digits are letters of base64 too; sixteen of them are whole bytes.
        0 => format!("{PNG}{number:016}{}", "AAAA".repeat(bytes / 3)),
        _ => BASE64_STANDARD.encode(picture::png(width, height)),
    };
    let text = "### Result\n- [Screenshot of viewport](./page.png)\n### Ran Playwright code\n```js\nawait page.screenshot();\n```";
    Ok(ToolReply::Result(format!(
        r#"{{"content":[{{"type":"text","text":{}}},{{"type":"image","data":"{data}","mimeType":"image/png"}}]}}"#,
        quote(text)
    )))
}

fn fill(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fill {
        #[serde(default, rename = "element")]
        _element: String,
        target: String,
        text: String,
    }
    let Fill { target, text, .. } = call.arguments()?;
    let target = quote(&target);
    let text = quote(&text);
    Ok(ToolReply::text(&format!(
        "### Ran Playwright code\n```js\nawait page.locator({target}).fill({text});\n```"
    )))
}
