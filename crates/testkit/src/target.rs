//! Finds binaries of this workspace from any crate's tests. Cargo tells a test only about the binaries of its
//! own package (`CARGO_BIN_EXE_*`), so the others are looked up next to the running test executable.

use std::path::PathBuf;

/// The path of the fake engine. Panics with the command that builds it when it is not there.
pub fn fake_engine_path() -> PathBuf {
    workspace_binary("greenroom-fake-engine", "greenroom-testkit")
}

/// The path `target/<profile>/<name>`, for the profile this test was built with. Panics with the command that
/// builds it when it is not there.
pub fn workspace_binary(name: &str, package: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a running program knows its own path");
    // A test runs as `target/<profile>/deps/<test>`, an example as `…/examples/<name>`, a binary as `…/<name>`.
    let found =
        running.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    let release =
        if running.components().any(|part| part.as_os_str() == "release") { " --release" } else { "" };
    found.unwrap_or_else(|| {
        panic!(
            "no binary `{name}` next to `{}`\n\nhint: build it first: cargo build -p {package} --bins{release}",
            running.display()
        )
    })
}
