//! Which browser versions are supported, and what does not work with older ones.
//!
//! The oldest supported version is defined here alone: `doctor` and the warning at a browser's start print it, and
//! `scripts/deps` reads it out of this file.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    launcher::{Launcher, ProcessSpec},
    run_command,
};

/// The oldest Chromium that greenroom is tested with. Chrome, Edge and the headless shell count alike.
pub const MAJOR_MIN: u32 = 150;

/// The first Chromium known to record pages by itself: its debugger has `Page.startScreenRecording`, which 150 lacks.
pub const RECORDS_SINCE: u32 = 156;

/// Tools that need a newer browser, each with the first version known to work.
const NEEDED_FOR: [(u32, &str); 2] = [
    // Chromium 148 fails.
    (150, "`lighthouse_audit` of the devtools engine"),
    (RECORDS_SINCE, "`screencast_start` of the devtools engine"),
];

/// How long a browser may take to print its version: it usually takes some hundredths of a second.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// A browser's version: all of it, and its first number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    text: String,
    major: u32,
}

impl Version {
    /// Finds the version in a browser's own output: `Chromium 156.0.8078.79`, `HeadlessChrome/156.0.8078.79`.
    pub fn find(output: &str) -> Option<Self> {
        output.split([' ', '/', '\n']).find_map(|word| {
            let (major, rest) = word.split_once('.')?;
            let is_version = rest.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
            Some(Self { major: major.parse().ok().filter(|_| is_version)?, text: word.to_owned() })
        })
    }

    /// Asks a browser that is not running, by starting it with a flag.
    pub async fn of_program(launcher: &Launcher, path: &Path) -> Result<Self, String> {
        let spec = ProcessSpec::new(path).minimal_env().arg("--version");
        let done = run_command::run(launcher, "browser", spec, VERSION_WITHIN).await;
        let output = done.map_err(|error| error.to_string())?.stdout;
        Self::find(&output).ok_or_else(|| format!("it printed `{}`", output.trim()))
    }

    pub fn is_supported(&self) -> bool {
        self.major >= MAJOR_MIN
    }

    /// The tools that do not work with this version.
    pub fn lacks(&self) -> Vec<&'static str> {
        NEEDED_FOR.iter().filter(|(since, _)| self.major < *since).map(|(_, what)| *what).collect()
    }

    /// The message that this version is too old, and what that means; `None` if it is supported.
    pub fn complaint(&self) -> Option<String> {
        let lacks = self.lacks().join(" and ");
        (!self.is_supported()).then(|| {
            format!(
                "Chromium {self} is older than {MAJOR_MIN}, the oldest that is supported: it lacks security fixes, and \
                 {lacks} do not work"
            )
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Logs a warning if a browser that has just started is too old, once per program.
///
/// `reply` is the browser's answer to `Browser.getVersion`.
pub(crate) fn warn_if_old(reply: &RawValue, program: &Path) {
    static SEEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if !SEEN.lock().insert(program.to_owned()) {
        return;
    }
    match version_in(reply) {
        Some(version) => {
            if let Some(complaint) = version.complaint() {
                tracing::warn!("{complaint}: `{}`; `greenroom doctor` says what to do", program.display());
            }
        }
        // The user may have named any program that speaks CDP, so this is no error.
        None => tracing::debug!(browser = %program.display(), "the browser does not tell its version"),
    }
}

fn version_in(reply: &RawValue) -> Option<Version> {
    #[derive(Deserialize)]
    struct BrowserVersionReply {
        product: String,
    }
    Version::find(&serde_json::from_str::<BrowserVersionReply>(reply.get()).ok()?.product)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version is found in the output of every browser, and in no other text.
    #[test]
    fn version_is_found_in_browser_output() {
        for (output, major) in [
            ("Chromium 156.0.8078.79 \n", 156),
            ("Chromium 150.0.7871.100 built on Debian GNU/Linux 12 (bookworm)", 150),
            ("Google Chrome for Testing 148.0.1.2", 148),
            ("Microsoft Edge 151.0.3200.5", 151),
            ("HeadlessChrome/156.0.8078.79", 156),
        ] {
            assert_eq!(Version::find(output).unwrap().major, major, "{output}");
        }
        for output in ["", "Chromium", "no such option. try --help", "1.x"] {
            assert_eq!(Version::find(output), None, "{output}");
        }
        assert_eq!(Version::find("Chromium 156.0.8078.79").unwrap().to_string(), "156.0.8078.79");
    }

    /// The complaint about a browser below the minimum names what it lacks; a supported browser gets no complaint, even if
    /// it lacks newer features.
    #[test]
    fn complaint_names_what_an_old_version_lacks() {
        let version = |major: u32| Version::find(&format!("Chromium {major}.0.1")).unwrap();
        assert_eq!(
            version(148).complaint().unwrap(),
            "Chromium 148.0.1 is older than 150, the oldest that is supported: it lacks security fixes, and \
             `lighthouse_audit` of the devtools engine and `screencast_start` of the devtools engine do not work"
        );
        assert_eq!(version(150).complaint(), None);
        assert_eq!(version(150).lacks(), ["`screencast_start` of the devtools engine"]);
        assert_eq!(version(156).lacks(), Vec::<&str>::new());
    }
}
