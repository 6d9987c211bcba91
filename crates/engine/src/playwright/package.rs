//! The pinned version of the engine.

use std::sync::LazyLock;

use crate::install::Package;

/// Microsoft's `@playwright/mcp`.
pub static PLAYWRIGHT: Package = Package {
    name: "playwright",
    manifest: include_str!("../../../../engines/playwright/package.json"),
    lock: include_str!("../../../../engines/playwright/package-lock.json"),
    npmrc: include_str!("../../../../engines/playwright/.npmrc"),
    module: "@playwright/mcp",
    cli: "cli.js",
    // All of the engine's code is in this package, so an engine without it is damaged.
    code: ("playwright-core", "playwright-core/package.json"),
    node: ("20 or newer", &[(20, 0)]),
    version: LazyLock::new(|| PLAYWRIGHT.locked_version().unwrap_or_default()),
};
