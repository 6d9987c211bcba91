//! Running browsers to attach to, as `[[browsers]]`, `--browserUrl` and `--wsEndpoint` name them.
//!
//! This module defines such a browser and the rules for its parts: `resolve` reads them at the start, and code that
//! adds a browser at run time uses the same functions.
//!
//! `declared.rs` reads the tables of a config file, `flag.rs` the command line, `draft.rs` puts together what they say,
//! `key.rs` knows which settings of a pool mean something to a browser that already runs.

mod declared;
mod draft;
mod flag;
mod key;
mod part;

use std::fmt;

use super::table::Pool;
use crate::web_address;

pub(super) use declared::BROWSERS;
pub(super) use draft::{BrowserDraft, at_run_time, base, problems};
pub(super) use key::{AppliesTo, NAMED, applies_to, fits};
pub use part::{HEADERS_MAX, LABEL_BYTES_MAX, TAGS_MAX, browser_label, browser_tags, browser_url};

/// How many browsers may be attached at once. Each connected browser has an engine process of some 90 MB, so a higher
/// number is more than one machine should drive, or a mistake in a script.
pub const BROWSERS_MAX: usize = 64;

/// A browser to attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedBrowser {
    /// The debugger's address: `http://host:port`, or `ws://host:port/devtools/browser/…`. Its query may be a secret:
    /// see [`AttachedBrowser::shown_url`].
    pub url: String,
    /// A second name besides the index: never a number, and different for each browser.
    pub label: Option<String>,
    /// Names that several browsers may share.
    pub tags: Vec<String>,
    /// Headers that greenroom sends with every connection to the debugger.
    pub headers: Vec<Header>,
    /// The command that starts the browser when an order to reconnect finds it unreachable: a program and its
    /// arguments, with the placeholder `{url}` not yet filled in. Empty if there is none.
    pub start_command: Vec<String>,
    /// The browser's other settings: the engine, its tools and time limits.
    pub pool: Pool,
}

impl AttachedBrowser {
    /// A browser of which only the address is known; `pool` is [`Settings::attached`](super::Settings::attached).
    pub fn at(url: String, pool: Pool) -> Self {
        let (tags, headers, start_command) = Default::default();
        Self { url, label: None, tags, headers, start_command, pool }
    }

    /// The address for lists, logs and errors: without its secrets.
    pub fn shown_url(&self) -> String {
        web_address::shown(&self.url)
    }
}

/// A header of a request. Its value is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: String,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: …", self.name)
    }
}

#[cfg(test)]
mod tests;
