//! Shell scripts that stand in front of browsers.
//!
//! Distributions put a script on the search path that sets a few variables and starts the browser, some with
//! `exec`, some without. greenroom wants the process it starts to be the browser, so it reads the script for
//! the binary it names. It never runs one to find out.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use crate::node::is_executable;

/// The distributions' longest script has 5 KB; a longer file is not such a script.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024;

/// Names of browsers' own binaries. A script also mentions paths of tools, libraries and crash reports.
const BINARIES: [&str; 6] =
    ["chrome", "chromium", "chromium-browser", "chromium-headless-shell", "headless_shell", "msedge"];

/// Binaries that Chrome's and Edge's packages keep in the folder of their script, which names them by a variable.
const BINARIES_IN_SCRIPT_FOLDER: [&str; 2] = ["chrome", "msedge"];

/// Whether the file starts with `#!`.
pub(super) fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    greenroom_files::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
}

/// Whether this is a snap, which sees neither hidden folders in the home folder nor the system's temporary folder.
pub(super) fn is_snap(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|target| target.ends_with("snap"))
}

/// The binary that a script starts: the one it names by its full path, else one in the script's folder.
pub(super) fn binary_behind(root: &Path, script: &Path) -> Option<PathBuf> {
    let mut text = Vec::new();
    greenroom_files::open(script).ok()?.take(SCRIPT_BYTES_MAX).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mentioned = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'`;=()".contains(c)))
        .filter_map(|word| word.strip_prefix('/'))
        .map(|path| root.join(path));
    let folder = script.canonicalize().ok()?.parent()?.to_owned();
    mentioned.chain(BINARIES_IN_SCRIPT_FOLDER.map(|name| folder.join(name))).find(|path| is_browser(path))
}

fn is_browser(path: &Path) -> bool {
    let known = path.file_name().is_some_and(|name| BINARIES.iter().any(|binary| name == *binary));
    known && is_executable(path) && !is_script(path) && !is_snap(path)
}
