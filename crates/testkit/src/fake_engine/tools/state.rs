//! Tools with an effect that lasts: values of this process, its tool list, files in the client's folder.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Call, Tool, ToolReply};
use crate::fake_engine::Engine;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "set",
        description: "Remembers a value in this process.",
        properties: r#""key":{"type":"string"},"value":{"type":"string"}"#,
        required: &["key", "value"],
        run: set,
        ..Tool::BARE
    },
    Tool {
        name: "get",
        description: "Answers the value that was set in this process, or `(unset)`.",
        properties: r#""key":{"type":"string"}"#,
        required: &["key"],
        run: get,
        ..Tool::BARE
    },
    Tool {
        name: "change_tools",
        description: "Adds a tool `extra_N` to the list, announces it and answers its name.",
        run: change_tools,
        ..Tool::BARE
    },
    Tool {
        name: "spurious_change",
        description: "Announces a changed tool list that has not changed.",
        run: spurious_change,
        ..Tool::BARE
    },
    Tool {
        name: "touch",
        description: "Writes a file into the client's first root folder and answers its path.",
        properties: r#""name":{"type":"string"},"text":{"type":"string","default":""}"#,
        required: &["name"],
        waits: true,
        run: touch,
        ..Tool::BARE
    },
];

fn set(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Set {
        key: String,
        value: String,
    }
    let Set { key, value } = call.arguments()?;
    engine.values.lock().unwrap().insert(key, value);
    Ok(ToolReply::text("set"))
}

fn get(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Get {
        key: String,
    }
    let Get { key } = call.arguments()?;
    Ok(ToolReply::text(engine.values.lock().unwrap().get(&key).map_or("(unset)", String::as_str)))
}

fn change_tools(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    let name = {
        let mut extra = engine.extra_tools.lock().unwrap();
        let name = format!("extra_{}", extra.len() + 1);
        extra.push(name.clone());
        name
    };
    engine.stdio.notify("notifications/tools/list_changed", None);
    Ok(ToolReply::text(&name))
}

fn spurious_change(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    engine.stdio.notify("notifications/tools/list_changed", None);
    Ok(ToolReply::text("announced"))
}

fn touch(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Touch {
        name: String,
        #[serde(default)]
        text: String,
    }
    let Touch { name, text } = call.arguments()?;
    let folder = match engine.stdio.ask("roots/list", None) {
        Ok(roots) => first_folder(&roots),
        Err(error) => return Ok(ToolReply::failure(&format!("no roots: {error}"))),
    };
    let Some(folder) = folder else {
        return Ok(ToolReply::failure("the client has no root folder"));
    };
    let file = folder.join(name);
    Ok(match std::fs::write(&file, text) {
        Ok(()) => ToolReply::text(&file.display().to_string()),
        Err(error) => ToolReply::failure(&format!("cannot write `{}`: {error}", file.display())),
    })
}

/// The folder of the first `file://` root.
fn first_folder(roots: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct ListRootsResult {
        roots: Vec<Root>,
    }
    #[derive(Deserialize)]
    struct Root {
        uri: String,
    }
    let roots: ListRootsResult = serde_json::from_str(roots).ok()?;
    let path = roots.roots.iter().find_map(|root| root.uri.strip_prefix("file://"))?;
    Some(PathBuf::from(percent_decoded(path)))
}

fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(piece.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
