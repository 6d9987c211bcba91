//! Keeps the engine to its own tabs in a browser whose other tabs belong to its user, by a script in its process,
//! `keeper.cjs`; see there, and [`crate::own_tabs`].

use std::{fs, io, path::Path};

use greenroom_core::{Raw, raw::encode};
use serde_json::json;

use super::settle;
use crate::launcher::ProcessSpec;

const KEEPER: (&str, &str) = ("keeper.cjs", include_str!("keeper.cjs"));

/// Writes the script, and those that it needs, into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    fs::write(instance.join(KEEPER.0), KEEPER.1)
}

/// Makes the engine load it. This script, and no other, puts the settling scripts into pages, and only into own tabs.
pub(super) fn configure(spec: ProcessSpec, set: Option<std::time::Duration>, instance: &Path) -> ProcessSpec {
    settle::fixed(spec, Some(set.unwrap_or(settle::LONGEST))).arg("--init-page").arg(instance.join(KEEPER.0))
}

/// The engine's recorded answer to `browser_close`. The engine does not get this call: it would disconnect from the browser.
pub(super) fn close_answer() -> Raw {
    let text = "### Result\nNo open tabs. Navigate to a URL to create one.\n\
                ### Ran Playwright code\n```js\nawait page.close()\n```";
    encode(&json!({ "content": [{ "type": "text", "text": text }] }))
}
