//! All engines, and what the rest of greenroom must know of them in addition to the traits in [`greenroom_core::port`].
//! To add an engine, add a variant to [`EngineKind`], a folder in this crate, and an arm to [`entry`].

use std::sync::Arc;

use greenroom_core::{
    Engine, StartError,
    settings::{EngineKind, Pool},
};

use crate::{EngineBase, custom, devtools, install::Package, playwright};

/// How to make an engine, and its description.
pub struct EngineEntry {
    pub make: fn(EngineBase) -> Arc<dyn Engine>,
    /// The package that `setup` installs and `doctor` checks; `None` for the user's own engine.
    pub package: Option<&'static Package>,
    /// The tool that opens a page at its argument `url`, if it is known.
    pub page_tool: Option<&'static str>,
    /// Checks that files which settings name, and which must exist from the start, do exist.
    pub check: fn(&Pool) -> Result<(), StartError>,
}

/// The engine of this kind.
pub fn entry(kind: EngineKind) -> &'static EngineEntry {
    match kind {
        EngineKind::Playwright => &playwright::ENTRY,
        EngineKind::Devtools => &devtools::ENTRY,
        EngineKind::Custom => &custom::ENTRY,
    }
}
