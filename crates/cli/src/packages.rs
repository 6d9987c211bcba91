//! Which of the pinned engines a configuration needs. `setup` installs them, `doctor` looks for them.

use greenroom_core::settings::{EngineKind, Settings};
use greenroom_engine::install::{DEVTOOLS, PLAYWRIGHT, Package};

/// The pinned engines of all pools and attached browsers, each once.
pub fn needed(settings: &Settings) -> Vec<&'static Package> {
    let package = |kind| match kind {
        EngineKind::Playwright => Some(&PLAYWRIGHT),
        EngineKind::Devtools => Some(&DEVTOOLS),
        EngineKind::Custom => None,
    };
    settings.engines().into_iter().filter_map(package).collect()
}
