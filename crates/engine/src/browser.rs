//! Finds a Chromium on this machine.
//!
//! greenroom starts every Chromium itself and ships none, so it looks where systems put them: the known [`install_paths`], the
//! search path, and as a last resort playwright's own downloads. A name on the search path is often a shell script around
//! the browser; killing the script may leave the browser running, so greenroom follows a [`script`] to the binary behind it
//! or skips it. The engine finds Firefox and WebKit itself.
//!
//! The caller gives the home folder, the search path and, for tests, the root of the file system; nothing here reads the
//! environment.

mod install_paths;
mod script;
pub mod version;

use std::{fmt, path::Path, path::PathBuf};

use greenroom_core::{port::StartError, settings};

use crate::node::is_executable;

pub use install_paths::{InstallPaths, System};

/// A browser that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    pub path: PathBuf,
    pub kind: BrowserKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserKind {
    /// Chromium without a user interface: it takes the least memory and never opens a window.
    HeadlessShell,
    Chrome,
    Chromium,
    Edge,
}

/// Which browser was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserChoice {
    /// The best one that is installed, in the order of [`accepted_kinds`].
    Any,
    Only(BrowserKind),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBrowser {
    #[error("no {what} found; looked for {}", quoted_list(.searched))]
    Missing {
        what: String,
        searched: Vec<String>,
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
    install_paths: &InstallPaths,
    headless: bool,
    wanted: BrowserChoice,
    explicit: Option<&Path>,
) -> Result<Browser, NoBrowser> {
    if let Some(path) = explicit {
        return find_explicit(install_paths, path, headless);
    }
    let kinds = accepted_kinds(headless, wanted);
    let mut searched = Vec::new();
    let candidates = kinds.iter().flat_map(|kind| install_paths.candidates(*kind));
    // An installed browser of any kind comes before playwright's downloads.
    for candidate in candidates.chain(kinds.iter().flat_map(|kind| install_paths.downloads(*kind))) {
        match resolve_binary(install_paths, &candidate.path) {
            Ok(path) => return Ok(Browser { path, kind: candidate.kind }),
            Err(Some(why)) => searched.push(format!("{} ({why})", candidate.path.display())),
            Err(None) => searched.push(candidate.label()),
        }
    }
    searched.dedup();
    if kinds.is_empty() {
        return Err(NoBrowser::NoWindow { path: install_paths.headless_shell() });
    }
    let package =
        [(BrowserKind::HeadlessShell, "chromium-headless-shell"), (BrowserKind::Chromium, "chromium")];
    let package = package.into_iter().find(|(kind, _)| kinds.contains(kind)).map(|(_, package)| package);
    let install = package.filter(|_| install_paths.is_debian());
    Err(NoBrowser::Missing { what: describe_choice(headless, wanted), searched, install })
}

/// The acceptable kinds, best first.
fn accepted_kinds(headless: bool, wanted: BrowserChoice) -> Vec<BrowserKind> {
    let mut kinds = match wanted {
        BrowserChoice::Any => {
            vec![BrowserKind::HeadlessShell, BrowserKind::Chrome, BrowserKind::Chromium, BrowserKind::Edge]
        }
        // The headless shell is Chromium, built for headless use.
        BrowserChoice::Only(BrowserKind::Chromium) => vec![BrowserKind::HeadlessShell, BrowserKind::Chromium],
        BrowserChoice::Only(kind) => vec![kind],
    };
    kinds.retain(|kind| headless || *kind != BrowserKind::HeadlessShell);
    kinds
}

fn describe_choice(headless: bool, wanted: BrowserChoice) -> String {
    let mode = if headless { "headless" } else { "headed" };
    match wanted {
        BrowserChoice::Any => format!("{mode} browser"),
        BrowserChoice::Only(BrowserKind::HeadlessShell) => "headless shell".to_owned(),
        BrowserChoice::Only(kind) => format!("{mode} {kind}"),
    }
}

/// A browser that the user named. If no binary is found behind a script, the script itself is taken for the browser.
fn find_explicit(install_paths: &InstallPaths, path: &Path, headless: bool) -> Result<Browser, NoBrowser> {
    if !path.exists() {
        return Err(NoBrowser::NotThere { path: path.to_owned() });
    }
    if !is_executable(path) {
        return Err(NoBrowser::NotExecutable { path: path.to_owned() });
    }
    let kind = BrowserKind::guess_from_name(path);
    if kind == BrowserKind::HeadlessShell && !headless {
        return Err(NoBrowser::NoWindow { path: path.to_owned() });
    }
    let path = resolve_binary(install_paths, path).unwrap_or_else(|_| path.to_owned());
    Ok(Browser { path, kind })
}

/// The binary at, or behind, a path; or why it is unsuitable, if there is a file.
fn resolve_binary(install_paths: &InstallPaths, path: &Path) -> Result<PathBuf, Option<&'static str>> {
    if !is_executable(path) {
        return Err(path.exists().then_some("not executable"));
    }
    if script::is_snap(path) {
        return Err(Some("a snap, which cannot use greenroom's profile folder"));
    }
    if script::is_script(path) {
        return script::binary_behind(install_paths.root(), path)
            .ok_or(Some("a script, with no browser found behind it"));
    }
    Ok(path.to_owned())
}

impl From<settings::Browser> for BrowserChoice {
    fn from(browser: settings::Browser) -> Self {
        match browser {
            settings::Browser::Auto => Self::Any,
            settings::Browser::HeadlessShell => Self::Only(BrowserKind::HeadlessShell),
            settings::Browser::Chromium => Self::Only(BrowserKind::Chromium),
            settings::Browser::Chrome => Self::Only(BrowserKind::Chrome),
            settings::Browser::Msedge => Self::Only(BrowserKind::Edge),
            // The engine starts Firefox and WebKit; greenroom looks for no binary.
            settings::Browser::Firefox | settings::Browser::Webkit => Self::Any,
        }
    }
}

impl BrowserKind {
    /// Guesses the kind of browser from a file name.
    fn guess_from_name(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        match name {
            name if name.contains("headless") => Self::HeadlessShell,
            name if name.contains("edge") => Self::Edge,
            name if name.contains("chromium") => Self::Chromium,
            _ => Self::Chrome,
        }
    }
}

impl fmt::Display for BrowserKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeadlessShell => "headless shell",
            Self::Chrome => "chrome",
            Self::Chromium => "chromium",
            Self::Edge => "edge",
        })
    }
}

fn quoted_list(searched: &[String]) -> String {
    searched.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
