//! Finds a Chromium on this machine.
//!
//! greenroom starts every Chromium itself and ships none, so it looks where systems put them: the known [`install_paths`], the
//! search path, and as a last resort playwright's own downloads. A name on the search path is often a shell script around
//! the browser; killing the script may leave the browser running, so greenroom follows a [`script`] to the binary behind it
//! or skips it. Firefox and WebKit are found by their engine.
//!
//! The caller gives the home folder, the search path and, for tests, the root of the file system; nothing here reads the
//! environment.

mod install_paths;
mod script;
pub mod version;

use std::{fmt, path::Path, path::PathBuf};

use greenroom_core::{port::StartError, settings};

use crate::node::is_executable;

pub use install_paths::{Places, System};

/// A browser that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    pub path: PathBuf,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Chromium without a user interface: it takes the least memory and never opens a window.
    HeadlessShell,
    Chrome,
    Chromium,
    Edge,
}

/// Which browser was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Whichever is best for the purpose.
    Any,
    Only(Kind),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBrowser {
    #[error("no {what} found; looked for {}", list(.looked))]
    Missing {
        what: String,
        looked: Vec<String>,
        /// The Debian package that contains it, on systems with Debian's packages.
        install: Option<&'static str>,
    },
    #[error("the headless shell cannot open a window: `{}`", .path.display())]
    NoWindow { path: PathBuf },
    #[error("no such browser: `{}`", .path.display())]
    NotThere { path: PathBuf },
    #[error("the browser is not an executable file: `{}`", .path.display())]
    NotExecutable { path: PathBuf },
}

impl NoBrowser {
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { install: Some(package), .. } => format!("run `apt-get install {package}`"),
            Self::Missing { install: None, .. } => {
                "install it, or set `pool.browser` to another one or `pool.executable_path` to the path of one".to_owned()
            }
            Self::NoWindow { .. } => "set `pool.headless` to true, or choose chromium or chrome".to_owned(),
            Self::NotThere { .. } | Self::NotExecutable { .. } => {
                "correct `pool.executable_path`, or leave it out to have a browser found".to_owned()
            }
        }
    }
}

impl From<NoBrowser> for StartError {
    fn from(error: NoBrowser) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

/// Finds a browser for headless or headed use. An explicit path is taken as it is, if it can be executed.
pub fn find(
    places: &Places,
    headless: bool,
    wanted: Wanted,
    explicit: Option<&Path>,
) -> Result<Browser, NoBrowser> {
    if let Some(path) = explicit {
        return named(places, path, headless);
    }
    let kinds = kinds(headless, wanted);
    let mut looked = Vec::new();
    let candidates = kinds.iter().flat_map(|kind| places.candidates(*kind));
    // All ordinary places of every kind come before the first download.
    for candidate in candidates.chain(kinds.iter().flat_map(|kind| places.downloads(*kind))) {
        match real(places, &candidate.path) {
            Ok(path) => return Ok(Browser { path, kind: candidate.kind }),
            Err(Some(why)) => looked.push(format!("{} ({why})", candidate.path.display())),
            Err(None) => looked.push(candidate.label()),
        }
    }
    looked.dedup();
    if kinds.is_empty() {
        return Err(NoBrowser::NoWindow { path: places.headless_shell() });
    }
    let package = [(Kind::HeadlessShell, "chromium-headless-shell"), (Kind::Chromium, "chromium")];
    let package = package.into_iter().find(|(kind, _)| kinds.contains(kind)).map(|(_, package)| package);
    let install = package.filter(|_| places.is_debian());
    Err(NoBrowser::Missing { what: what(headless, wanted), looked, install })
}

/// The kinds that will do, best first.
fn kinds(headless: bool, wanted: Wanted) -> Vec<Kind> {
    let mut kinds = match wanted {
        Wanted::Any => vec![Kind::HeadlessShell, Kind::Chrome, Kind::Chromium, Kind::Edge],
        // The headless shell is Chromium, built for headless use.
        Wanted::Only(Kind::Chromium) => vec![Kind::HeadlessShell, Kind::Chromium],
        Wanted::Only(kind) => vec![kind],
    };
    kinds.retain(|kind| headless || *kind != Kind::HeadlessShell);
    kinds
}

fn what(headless: bool, wanted: Wanted) -> String {
    let mode = if headless { "headless" } else { "headed" };
    match wanted {
        Wanted::Any => format!("{mode} browser"),
        Wanted::Only(Kind::HeadlessShell) => "headless shell".to_owned(),
        Wanted::Only(kind) => format!("{mode} {kind}"),
    }
}

/// A browser that the user named. If no binary is found behind a script, the script itself is taken for the browser.
fn named(places: &Places, path: &Path, headless: bool) -> Result<Browser, NoBrowser> {
    if !path.exists() {
        return Err(NoBrowser::NotThere { path: path.to_owned() });
    }
    if !is_executable(path) {
        return Err(NoBrowser::NotExecutable { path: path.to_owned() });
    }
    let kind = Kind::guess(path);
    if kind == Kind::HeadlessShell && !headless {
        return Err(NoBrowser::NoWindow { path: path.to_owned() });
    }
    let path = real(places, path).unwrap_or_else(|_| path.to_owned());
    Ok(Browser { path, kind })
}

/// The binary at, or behind, a path; or why it is unsuitable, if there is a file.
fn real(places: &Places, path: &Path) -> Result<PathBuf, Option<&'static str>> {
    if !is_executable(path) {
        return Err(path.exists().then_some("not executable"));
    }
    if script::is_snap(path) {
        return Err(Some("a snap, which cannot use greenroom's profile folder"));
    }
    if script::is_script(path) {
        return script::binary_behind(places.root(), path)
            .ok_or(Some("a script, with no browser found behind it"));
    }
    Ok(path.to_owned())
}

impl From<settings::Browser> for Wanted {
    fn from(browser: settings::Browser) -> Self {
        match browser {
            settings::Browser::Auto => Self::Any,
            settings::Browser::HeadlessShell => Self::Only(Kind::HeadlessShell),
            settings::Browser::Chromium => Self::Only(Kind::Chromium),
            settings::Browser::Chrome => Self::Only(Kind::Chrome),
            settings::Browser::Msedge => Self::Only(Kind::Edge),
            // Their engine starts these; greenroom looks for no binary.
            settings::Browser::Firefox | settings::Browser::Webkit => Self::Any,
        }
    }
}

impl Kind {
    /// Guesses the kind of browser from a file name.
    fn guess(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        match name {
            name if name.contains("headless") => Self::HeadlessShell,
            name if name.contains("edge") => Self::Edge,
            name if name.contains("chromium") => Self::Chromium,
            _ => Self::Chrome,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeadlessShell => "headless shell",
            Self::Chrome => "chrome",
            Self::Chromium => "chromium",
            Self::Edge => "edge",
        })
    }
}

fn list(looked: &[String]) -> String {
    looked.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
