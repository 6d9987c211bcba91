//! Browsers that already run and are attached to, as `[[browsers]]`, `--browserUrl` and `--wsEndpoint` name them.

use std::fmt;

use super::table::Pool;

/// A browser to attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedBrowser {
    /// The debugger's address: `http://host:port`, or `ws://host:port/devtools/browser/…`.
    pub url: String,
    /// A second name beside its index, never a number, and no other browser's.
    pub label: Option<String>,
    /// What several browsers can be called together.
    pub tags: Vec<String>,
    /// Sent with every connection to the debugger.
    pub headers: Vec<Header>,
    /// What starts the browser when it is asked for again and cannot be reached: a program and its arguments, the
    /// placeholder `{url}` not yet filled in. Empty when nothing does.
    pub start_command: Vec<String>,
    /// What else holds for it: the engine, its tools and time limits.
    pub pool: Pool,
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
