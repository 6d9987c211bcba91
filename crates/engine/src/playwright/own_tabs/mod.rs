//! How the engine is kept to its own tabs in a browser whose other tabs are somebody else's: by a script in its process,
//! `keeper.cjs`; see there, and [`crate::own_tabs`].

use std::{fs, io, path::Path};

use greenroom_core::{Raw, raw::encode};
use serde_json::json;

use super::settle;
use crate::launcher::Spec;

const KEEPER: (&str, &str) = ("keeper.cjs", include_str!("keeper.cjs"));

/// Writes the script, and those that it needs, into an instance's folder.
pub(super) fn write(instance: &Path) -> io::Result<()> {
    fs::write(instance.join(KEEPER.0), KEEPER.1)
}

/// Has the engine load it. The scripts by which pages settle are put into own tabs only, by this one.
pub(super) fn configure(spec: Spec, set: Option<std::time::Duration>, instance: &Path) -> Spec {
    settle::fixed(spec, Some(set.unwrap_or(settle::LONGEST))).arg("--init-page").arg(instance.join(KEEPER.0))
}

/// What the engine answers to `browser_close`, recorded. It is not asked here: it would take leave of the browser.
pub(super) fn closed() -> Raw {
    let text = "### Result\nNo open tabs. Navigate to a URL to create one.\n\
                ### Ran Playwright code\n```js\nawait page.close()\n```";
    encode(&json!({ "content": [{ "type": "text", "text": text }] }))
}
