//! The pinned version of the engine.

use std::sync::LazyLock;

use crate::install::Package;

/// Google's `chrome-devtools-mcp`.
pub static DEVTOOLS: Package = Package {
    name: "devtools",
    manifest: include_str!("../../../../engines/devtools/package.json"),
    lock: include_str!("../../../../engines/devtools/package-lock.json"),
    npmrc: include_str!("../../../../engines/devtools/.npmrc"),
    module: "chrome-devtools-mcp",
    cli: "build/src/bin/chrome-devtools-mcp.js",
    // It bundles its libraries in one file.
    code: ("libraries", "chrome-devtools-mcp/build/src/third_party/index.js"),
    // As its package requires; on any other version it exits at once.
    node: ("20.19, 22.12 or newer", &[(20, 19), (22, 12), (23, 0)]),
    version: LazyLock::new(|| DEVTOOLS.locked_version().unwrap_or_default()),
};
