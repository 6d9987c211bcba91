//! Tools that only answer: arguments as they arrived, every kind of content, and large answers.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Call, Tool, ToolReply, quote};
use crate::fake_engine::Engine;

/// A PNG of one pixel, as image parts carry it.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "echo",
        description: "Answers its text, or its payload when there is no text; with rich, every kind of content.",
        properties: r#""text":{"type":"string"},"payload":{"description":"Any JSON value."},"rich":{"type":"boolean","default":false}"#,
        more: r#","title":"Echo","annotations":{"readOnlyHint":true,"x-hint":[1,2.50]},"icons":[{"src":"data:image/png;base64,AAAA","mimeType":"image/png","sizes":["48x48"]}],"_meta":{"fake/tool":{"n":1.50}},"x-vendor":{"n":1.50,"big":12345678901234567890123}"#,
        run: echo,
        ..Tool::BARE
    },
    Tool {
        name: "big",
        description: "Answers a text of so many bytes.",
        properties: r#""bytes":{"type":"integer","minimum":0}"#,
        required: &["bytes"],
        run: big,
        ..Tool::BARE
    },
    Tool {
        name: "params",
        description: "Answers the raw params of the call as they arrived. The one tool that checks nothing.",
        properties: r#""any":{"description":"Any JSON value."}"#,
        run: |_, call| Ok(ToolReply::text(&call.params)),
        ..Tool::BARE
    },
    Tool {
        name: "structured",
        description: "Answers a number as text and as structured content that its output schema describes, with `_meta`.",
        properties: r#""n":{"type":"number"}"#,
        required: &["n"],
        more: r#","outputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}"#,
        run: structured,
        ..Tool::BARE
    },
    Tool { name: "pid", description: "Answers the id of this process.", run: pid, ..Tool::BARE },
    Tool {
        name: "run_unsafe",
        description: "Stands for a tool that runs code in the engine's process. Answers `ran`.",
        run: run_unsafe,
        ..Tool::BARE
    },
];

fn echo(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Echo<'a> {
        #[serde(borrow)]
        text: Option<Cow<'a, str>>,
        // No `Option`: a payload `null` is a value like any other.
        #[serde(borrow, default = "null")]
        payload: &'a RawValue,
        #[serde(default)]
        rich: bool,
    }
    let Echo { text, payload, rich } = call.arguments()?;
    let text = text.unwrap_or(Cow::Borrowed(payload.get()));
    if !rich {
        return Ok(ToolReply::text(&text));
    }
    let text = quote(&text);
    Ok(ToolReply::Result(format!(
        r#"{{"content":[{{"type":"text","text":{text},"annotations":{{"audience":["user"],"priority":0.50}},"_meta":{{"part":1.50}}}},{{"type":"image","data":"{PIXEL}","mimeType":"image/png"}},{{"type":"audio","data":"AAAA","mimeType":"audio/wav"}},{{"type":"resource","resource":{{"uri":"fake://note","mimeType":"text/plain","text":"a note"}}}},{{"type":"resource_link","uri":"fake://link","name":"link"}},{{"type":"x-hologram","frames":[1,2.50],"x-deep":{{"kept":true}}}}],"structuredContent":{{"text":{text},"payload":{payload}}},"isError":false,"_meta":{{"fake/n":1.50}},"x-unknown":{{"kept":[1e2,12345678901234567890123]}}}}"#
    )))
}

fn null() -> &'static RawValue {
    RawValue::NULL
}

fn big(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Big {
        bytes: usize,
    }
    Ok(ToolReply::text(&"x".repeat(call.arguments::<Big>()?.bytes)))
}

fn structured(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Structured<'a> {
        #[serde(borrow)]
        n: &'a RawValue,
    }
    let Structured { n } = call.arguments()?;
    Ok(ToolReply::Result(format!(
        r#"{{"content":[{{"type":"text","text":"{n}"}}],"structuredContent":{{"n":{n}}},"_meta":{{"fake/n":{n}}}}}"#
    )))
}

fn pid(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    Ok(ToolReply::text(&std::process::id().to_string()))
}

fn run_unsafe(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    Ok(ToolReply::text("ran"))
}
