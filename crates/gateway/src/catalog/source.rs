//! Where tools come from: pools, and attached browsers, each of which is a pool to the fleet; and the names by which
//! messages call them.

use std::{fmt, sync::Arc};

use greenroom_core::{Engine, Introduction, Toolset};
use greenroom_fleet::{BrowserName, BrowserStatus};

/// A pool or an attached browser, as far as tools are concerned.
#[derive(Clone)]
pub struct ToolSource {
    /// Its name in the fleet.
    pub pool: Arc<str>,
    pub engine: Arc<dyn Engine>,
    /// Whether callers can choose among its instances.
    pub has_instance_choice: bool,
}

/// A pool whose engine is a custom server, which may have more than tools.
pub(crate) struct CustomPool {
    pub(crate) pool: Arc<str>,
    /// The server's introduction, if the catalog has asked it.
    pub(crate) introduction: Option<Introduction>,
}

/// The name by which callers know a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceName {
    Pool(Arc<str>),
    Browser(BrowserName),
}

impl SourceName {
    pub(crate) fn is_pool(&self) -> bool {
        matches!(self, Self::Pool(_))
    }

    /// The index of an attached browser.
    pub(crate) fn index(&self) -> Option<u32> {
        match self {
            Self::Pool(_) => None,
            Self::Browser(name) => Some(name.index),
        }
    }
}

/// `pool "FIREFOX"`, `browser 2`, `browser 2 ("work")`.
impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(name) => write!(f, "pool \"{name}\""),
            Self::Browser(name) => name.fmt(f),
        }
    }
}

/// A source, and what the catalog knows of it.
pub(super) struct KnownSource {
    pub(super) source: ToolSource,
    pub(super) name: SourceName,
    /// Whether it is an attached browser with tags.
    pub(super) tagged: bool,
    /// Its tools, as far as they are known.
    pub(super) set: Option<Toolset>,
}

impl KnownSource {
    pub(super) fn pool(source: ToolSource) -> Self {
        Self { name: SourceName::Pool(source.pool.clone()), source, tagged: false, set: None }
    }

    pub(super) fn browser(source: ToolSource, status: &BrowserStatus) -> Self {
        let name = BrowserName { index: status.index, label: status.label.clone() };
        Self { name: SourceName::Browser(name), source, tagged: !status.tags.is_empty(), set: None }
    }

    pub(super) fn is_called(&self, pool: &str) -> bool {
        *self.source.pool == *pool
    }
}
