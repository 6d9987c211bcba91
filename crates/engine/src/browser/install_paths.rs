//! Where browsers are installed: in folders of known packages, on the search path, and in playwright's
//! downloads.
//!
//! Order within a kind: the real binary in its package's own folder, then the search path. This module only lists
//! candidates; the caller decides which is suitable.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::BrowserKind;
use crate::node::on_path;

/// Where a search for installed programs looks: the file system's root, the home folder and the search path.
#[derive(Debug, Clone)]
pub struct InstallPaths {
    pub system: System,
    /// The root of the file system; tests use another.
    pub root: PathBuf,
    pub home: Option<PathBuf>,
    pub search_path: OsString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Linux,
    Mac,
}

/// A path at which a browser may be installed.
#[derive(Debug)]
pub(super) struct Candidate {
    pub kind: BrowserKind,
    pub path: PathBuf,
    /// Whether `path` is a bare name that the search path does not contain.
    by_name: bool,
}

impl Candidate {
    /// The candidate as the error's list of searched places shows it.
    pub(super) fn label(&self) -> String {
        let what = self.path.display();
        if self.by_name { format!("{what} on the search path") } else { what.to_string() }
    }
}

impl InstallPaths {
    /// This machine, with the given home folder and search path.
    pub fn new(home: Option<PathBuf>, search_path: OsString) -> Self {
        let system = if cfg!(target_os = "macos") { System::Mac } else { System::Linux };
        Self { system, root: PathBuf::from("/"), home, search_path }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A system with Debian's packages, Ubuntu's and Mint's among them.
    pub(super) fn is_debian(&self) -> bool {
        self.root.join("etc/debian_version").exists()
    }

    /// The path of the headless shell, whether or not it exists.
    pub(super) fn headless_shell(&self) -> PathBuf {
        self.root.join("usr/lib/chromium/chromium-headless-shell")
    }

    /// The paths at which packages install a browser of this kind, best first.
    pub(super) fn candidates(&self, kind: BrowserKind) -> Vec<Candidate> {
        let (known, names) = match self.system {
            System::Linux => linux(kind),
            System::Mac => mac(kind),
        };
        let known = known.iter().map(|place| Candidate { kind, path: self.root.join(place), by_name: false });
        let named = names.iter().map(|name| match on_path(name, &self.search_path) {
            Some(path) => Candidate { kind, path, by_name: false },
            None => Candidate { kind, path: PathBuf::from(name), by_name: true },
        });
        known.chain(named).collect()
    }

    /// Playwright's own downloads, newest first. Their folders are named after a revision:
    /// `chromium-1187`.
    pub(super) fn downloads(&self, kind: BrowserKind) -> Vec<Candidate> {
        let (family, binaries): (_, &[&str]) = match kind {
            BrowserKind::HeadlessShell => (
                "chromium_headless_shell-",
                &[
                    "chrome-headless-shell-linux64/chrome-headless-shell",
                    "chrome-linux/headless_shell",
                    "chrome-headless-shell-mac-arm64/chrome-headless-shell",
                    "chrome-headless-shell-mac-x64/chrome-headless-shell",
                    "chrome-mac/headless_shell",
                ],
            ),
            BrowserKind::Chromium => (
                "chromium-",
                &[
                    "chrome-linux64/chrome",
                    "chrome-linux/chrome",
                    "chrome-mac-arm64/Google Chrome for Testing.app/Contents/MacOS/Google Chrome for Testing",
                    "chrome-mac-x64/Google Chrome for Testing.app/Contents/MacOS/Google Chrome for Testing",
                    "chrome-mac/Chromium.app/Contents/MacOS/Chromium",
                ],
            ),
            BrowserKind::Chrome | BrowserKind::Edge => return Vec::new(),
        };
        let Some(home) = &self.home else { return Vec::new() };
        let cache = home.join(match self.system {
            System::Linux => ".cache/ms-playwright",
            System::Mac => "Library/Caches/ms-playwright",
        });
        let mut revisions: Vec<u64> = fs::read_dir(&cache)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(family)?.parse().ok())
            .collect();
        revisions.sort_unstable_by(|a, b| b.cmp(a));
        let paths = revisions.into_iter().flat_map(|revision| {
            let folder = cache.join(format!("{family}{revision}"));
            binaries.iter().map(move |binary| folder.join(binary)).filter(|path| path.exists())
        });
        let mut found: Vec<_> = paths.map(|path| Candidate { kind, path, by_name: false }).collect();
        if found.is_empty() {
            found.push(Candidate { kind, path: cache.join(format!("{family}*")), by_name: false });
        }
        found
    }
}

type KnownPaths = (&'static [&'static str], &'static [&'static str]);

/// The paths of packages, below the root, and the names on the search path. Debian's real binaries are in
/// `/usr/lib`; its files in `/usr/bin` are scripts.
fn linux(kind: BrowserKind) -> KnownPaths {
    match kind {
        BrowserKind::HeadlessShell => (
            &["usr/lib/chromium/chromium-headless-shell"],
            &["chromium-headless-shell", "chrome-headless-shell", "headless_shell"],
        ),
        BrowserKind::Chrome => (&["opt/google/chrome/chrome"], &["google-chrome-stable", "google-chrome"]),
        BrowserKind::Chromium => (
            &[
                "usr/lib/chromium/chromium",
                "usr/lib/chromium-browser/chromium-browser",
                "usr/lib64/chromium-browser/chromium-browser",
            ],
            &["chromium", "chromium-browser"],
        ),
        BrowserKind::Edge => (&["opt/microsoft/msedge/msedge"], &["microsoft-edge-stable", "microsoft-edge"]),
    }
}

fn mac(kind: BrowserKind) -> KnownPaths {
    match kind {
        BrowserKind::HeadlessShell => (&[], &["chrome-headless-shell"]),
        BrowserKind::Chrome => (&["Applications/Google Chrome.app/Contents/MacOS/Google Chrome"], &[]),
        BrowserKind::Chromium => (&["Applications/Chromium.app/Contents/MacOS/Chromium"], &["chromium"]),
        BrowserKind::Edge => (&["Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge"], &[]),
    }
}
