//! Keeps the engine to its own tabs in a browser whose other tabs belong to its user, by a script in its process,
//! `tab_guard.cjs`; see there, and [`crate::own_tabs`].

use std::{fs, io, path::Path};

use greenroom_core::{Raw, raw::encode};
use serde_json::json;

use super::settle;
use crate::launcher::ProcessSpec;

const TAB_GUARD: (&str, &str) = ("tab_guard.cjs", include_str!("tab_guard.cjs"));

/// Writes the script, and those that it needs, into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    fs::write(instance.join(TAB_GUARD.0), TAB_GUARD.1)
}

/// Makes the engine load the script. It alone puts the settling scripts into pages, and only into the seat's own tabs.
pub(super) fn configure(spec: ProcessSpec, set: Option<std::time::Duration>, instance: &Path) -> ProcessSpec {
    settle::configure_fixed_wait(spec, Some(set.unwrap_or(settle::SETTLE_TIMEOUT)))
        .arg("--init-page")
        .arg(instance.join(TAB_GUARD.0))
}

/// The engine's recorded answer to `browser_close`. The engine does not get this call: it would disconnect from the browser.
pub(super) fn close_answer() -> Raw {
    let text = "### Result\nNo open tabs. Navigate to a URL to create one.\n\
                ### Ran Playwright code\n```js\nawait page.close()\n```";
    encode(&json!({ "content": [{ "type": "text", "text": text }] }))
}
