//! The viewport of a browser's default context.
//!
//! The engine sets no viewport there, and the size with which a browser is started is that of its window: how much of
//! it the page gets depends on the browser (with a window of 900 by 500 the headless shell gives 900 by 500, Chromium
//! 900 by 413). So a script that the engine loads for each of its pages sets the viewport.

use std::{io, path::Path};

use greenroom_core::settings::Viewport;

use crate::launcher::ProcessSpec;

/// Below an instance's folder.
const SCRIPT: &str = "window.cjs";

/// Writes the script into an instance's folder.
pub(super) fn write(instance: &Path, Viewport { width, height }: Viewport) -> io::Result<()> {
    // The script ignores errors: a page that is gone by then needs no viewport.
    let script = format!(
        "exports.default = ({{ page }}) => page.setViewportSize({{ width: {width}, height: {height} }}).catch(() => {{}});\n"
    );
    std::fs::write(instance.join(SCRIPT), script)
}

/// Makes the engine load the script.
pub(super) fn configure(spec: ProcessSpec, instance: &Path) -> ProcessSpec {
    spec.arg("--init-page").arg(instance.join(SCRIPT))
}
