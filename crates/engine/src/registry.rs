//! Every engine there is, and what the rest of greenroom must know of it beside the traits in [`greenroom_core::port`].
//! To add one, add a variant to [`EngineKind`], its folder here, and an arm to [`entry`].

use std::sync::Arc;

use greenroom_core::{
    Engine, StartError,
    settings::{EngineKind, Pool},
};

use crate::{EngineBase, custom, devtools, install::Package, playwright};

/// An engine, as it is made and spoken of.
pub struct EngineEntry {
    pub make: fn(EngineBase) -> Arc<dyn Engine>,
    /// What `setup` installs and `doctor` looks for; `None` for an engine that is the user's own.
    pub package: Option<&'static Package>,
    /// The tool that opens a page at its argument `url`, where that is known.
    pub page_tool: Option<&'static str>,
    /// Looks for files that settings name and that must be there from the start.
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
