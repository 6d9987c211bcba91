//! Which browser the tests run with. If a feature needs a newer browser than is installed, its test expects a refusal.

use std::process::Command;

use crate::user_browser::HEADLESS_SHELL;

/// The first number of the version of the installed Chromium.
pub fn chromium_major() -> u32 {
    let output =
        Command::new(HEADLESS_SHELL).arg("--version").output().expect("the headless shell can be started");
    let output_text = String::from_utf8(output.stdout).expect("a version is text");
    let version = output_text.split(' ').find_map(|word| word.split_once('.')?.0.parse().ok());
    version.unwrap_or_else(|| panic!("no version of a Chromium: `{output_text}`"))
}
