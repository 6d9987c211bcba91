//! The engine's command lines, and what they forbid it: to report usage, look for updates, send addresses of pages to
//! others, or read a user's configuration.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use greenroom_core::StartError;

use crate::{EngineOptions, install::DEVTOOLS, launcher::ProcessSpec, orphan_tabs::LIST};

/// Flags of every start.
const FLAGS: [&str; 4] = [
    "--no-usage-statistics",
    // After a trace the engine would send the page's address to Google, to compare it with other users' data.
    "--no-performance-crux",
    // Node itself would fetch source maps that the page cannot load, from any address the page names, and not through the
    // egress proxy.
    "--no-source-maps",
    "--no-file-navigations",
];

/// Settings that the engine reads from environment variables only, and settings that must be off even without their
/// flags.
const VARIABLES: [&str; 3] = [
    "CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS",
    "CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS",
    "CHROME_DEVTOOLS_MCP_NO_CONFIG_DISCOVERY",
];

/// Where the engine writes its own files, below the seat's folder.
const TEMPORARY: &str = "tmp";

/// The variable with the address of the browser, and the script that passes it to the engine and removes it.
const ADDRESS_VARIABLE: &str = "GREENROOM_BROWSER";
const ADDRESS_ARGUMENT: &str =
    "process.argv.push('--wsEndpoint', process.env.GREENROOM_BROWSER); delete process.env.GREENROOM_BROWSER";

const TAB_GUARD: (&str, &str) = ("tab_guard.mjs", include_str!("tab_guard.mjs"));

/// The module of the engine that the tab guard changes, relative to the parent of the folder with Node's entry point.
const CONTEXT: &str = "McpContext.js";

const PAGE_ID: &str = include_str!("page_id.mjs");

/// The part of the engine that [`PAGE_ID`] changes.
const TOOLS: &str = "tools/ToolDefinition.js";

/// The engine without a browser: it lists its tools, and none of them works.
pub(super) fn without_browser(options: &EngineOptions) -> Result<ProcessSpec, StartError> {
    let cli = DEVTOOLS.locate(&options.settings.data_dir)?.cli;
    let mut spec = options.node(&DEVTOOLS)?.args(FLAGS).env("GREENROOM_TOOLS", engine_module(&cli, TOOLS));
    spec.args.insert(0, import_inline(PAGE_ID).into());
    Ok(VARIABLES.into_iter().fold(spec, |spec, name| spec.env(name, "1")))
}

/// The engine for a seat, without a browser yet.
pub(super) fn for_seat(options: &EngineOptions, folder: &Path) -> Result<ProcessSpec, StartError> {
    let temporary = folder.join(TEMPORARY);
    std::fs::create_dir_all(&temporary).map_err(|error| {
        StartError::new(format!("cannot make a folder for the engine: {error}: `{}`", temporary.display()))
    })?;
    let mut spec = without_browser(options)?;
    for (flag, origins) in [
        ("--allowedUrlPattern", &options.pool.allowed_origins),
        ("--blockedUrlPattern", &options.pool.blocked_origins),
    ] {
        for origin in origins {
            spec = spec.arg(flag).arg(url_pattern(origin));
        }
    }
    // The engine may always write into the folder for temporary files, so that must be the seat's own too.
    Ok(spec.env("TMPDIR", temporary).folder(folder))
}

/// Makes the engine connect to a browser. Any program that knows the address can drive the browser, and every user of the
/// machine can read command lines. So the address is in the environment, which only this user can read, and a script makes an
/// argument of it inside Node.
pub(super) fn connect_to(mut spec: ProcessSpec, address: &str) -> ProcessSpec {
    spec.args.insert(0, import_inline(ADDRESS_ARGUMENT).into());
    spec.env(ADDRESS_VARIABLE, address)
}

/// Writes the script that keeps the engine to its own tabs into an instance's folder.
pub(super) fn write_tab_guard(instance: &Path) -> io::Result<()> {
    std::fs::write(instance.join(TAB_GUARD.0), TAB_GUARD.1)
}

/// Makes Node load the tab guard before the engine.
pub(super) fn load_tab_guard(
    mut spec: ProcessSpec,
    options: &EngineOptions,
    instance: &Path,
    tab: &str,
) -> Result<ProcessSpec, StartError> {
    let cli = DEVTOOLS.locate(&options.settings.data_dir)?.cli;
    let context = engine_module(&cli, CONTEXT);
    let mut script = OsString::from("--import=");
    script.push(instance.join(TAB_GUARD.0));
    spec.args.insert(0, script);
    Ok(spec
        .env("GREENROOM_ENGINE", context)
        .env("GREENROOM_TAB", tab)
        .env("GREENROOM_TABS", instance.join(LIST)))
}

/// The path of one of the engine's modules, relative to the parent of the folder with Node's entry point.
fn engine_module(cli: &Path, part: &str) -> PathBuf {
    cli.parent().and_then(Path::parent).unwrap_or(cli).join(part)
}

/// Makes Node load a script before the engine, without a file: greenroom also asks the engine for its tools when there
/// is no folder.
fn import_inline(script: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("--import=data:text/javascript,{}", script.bytes().map(escape).collect::<String>())
}

/// An origin as an address pattern. A host alone matches every scheme and port.
fn url_pattern(origin: &str) -> String {
    match origin.split_once("://") {
        Some(_) => format!("{origin}/*"),
        None if origin.contains(':') => format!("*://{origin}/*"),
        None => format!("*://{origin}:*/*"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::browser::{InstallPaths, System};

    /// A machine with the engine and a Node, and options for it.
    fn machine() -> (tempfile::TempDir, EngineOptions) {
        let data = tempfile::tempdir().unwrap();
        let module = DEVTOOLS.target(data.path()).join("node_modules/chrome-devtools-mcp");
        let manifest = format!(r#"{{"version":"{}"}}"#, DEVTOOLS.version());
        for (path, text) in [
            ("package.json", manifest.as_str()),
            ("build/src/bin/chrome-devtools-mcp.js", "//"),
            ("build/src/third_party/index.js", "//"),
        ] {
            fs::create_dir_all(module.join(path).parent().unwrap()).unwrap();
            fs::write(module.join(path), text).unwrap();
        }
        let root = data.path().to_owned();
        let install_paths =
            InstallPaths { system: System::Linux, root, home: None, search_path: OsString::new() };
        let mut options = EngineOptions::new(data.path().to_owned(), install_paths);
        options.settings_mut().node = Some("/bin/sh".into());
        (data, options)
    }

    fn command_line(spec: &ProcessSpec) -> String {
        let args = spec.args.iter().map(|arg| arg.to_string_lossy().into_owned());
        args.skip_while(|arg| !arg.ends_with(".js")).skip(1).collect::<Vec<_>>().join(" ")
    }

    /// Every start gets these prohibitions, on its command line and in its environment.
    #[test]
    fn engine_reports_nothing_to_others() {
        let (data, options) = machine();
        let without_seat = without_browser(&options).unwrap();
        let with_seat = connect_to(for_seat(&options, data.path()).unwrap(), "ws://127.0.0.1:1/x");
        for spec in [&without_seat, &with_seat] {
            assert!(command_line(spec).starts_with(&FLAGS.join(" ")), "{spec:?}");
            for name in VARIABLES {
                assert!(spec.env.iter().any(|(key, value)| key == name && value == "1"), "{name}");
            }
        }
    }

    /// The engine's own files stay in the seat's folder.
    #[test]
    fn temporary_files_stay_in_the_seat_folder() {
        let (data, options) = machine();
        let spec = for_seat(&options, data.path()).unwrap();
        let temporary = data.path().join(TEMPORARY);
        assert!(temporary.is_dir());
        assert!(spec.env.iter().any(|(key, value)| key == "TMPDIR" && *value == *temporary.as_os_str()));
        assert_eq!(spec.folder.as_deref(), Some(data.path()));
    }

    /// Origins in every form that settings allow become the engine's patterns.
    #[test]
    fn origins_become_url_patterns() {
        for (origin, expected) in [
            ("https://example.com", "https://example.com/*"),
            ("http://localhost:*", "http://localhost:*/*"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/*"),
            ("example.com", "*://example.com:*/*"),
            ("*.example.com", "*://*.example.com:*/*"),
            ("example.com:8443", "*://example.com:8443/*"),
        ] {
            assert_eq!(url_pattern(origin), expected);
        }
    }

    /// Every user can read command lines, so the browser's address is in the environment.
    #[test]
    fn browser_address_is_not_on_the_command_line() {
        let (data, options) = machine();
        let address = "ws://127.0.0.1:1/se-cret";
        let spec = connect_to(for_seat(&options, data.path()).unwrap(), address);
        assert!(!spec.args.iter().any(|arg| arg.to_string_lossy().contains("se-cret")), "{spec:?}");
        assert!(spec.env.iter().any(|(key, value)| key == ADDRESS_VARIABLE && value == address));
        let script = spec.args[0].to_string_lossy();
        assert!(
            script.starts_with("--import=data:")
                && script.contains(ADDRESS_VARIABLE.replace('_', "%5F").as_str())
        );
    }
}
