//! The engine's command lines. Only this module knows the names of the engine's options, and where an option has no
//! effect.
//!
//! The engine sets user agent, viewport and the like on contexts that it makes. It changes nothing in a browser's default
//! context, so these are the browser's own flags there (see [`crate::chromium`]), and the engine does not get them.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use greenroom_core::{
    StartError,
    settings::{Browser, Codegen, ImageResponses, Viewport},
};

use crate::{EngineOptions, browser_handle::BrowserHandle, install, launcher::ProcessSpec, node};

/// The engine also accepts the address on its command line, but then refuses to emulate a device.
const CDP_ENDPOINT: &str = "PLAYWRIGHT_MCP_CDP_ENDPOINT";

/// The program that starts Windows programs from the Linux in it.
const CMD: &str = "cmd.exe";

/// Where the drive of Windows usually is. Started elsewhere, `cmd.exe` complains on stdout, which carries the protocol.
const WINDOWS_DRIVE: &str = "/mnt/c";

/// Characters that `cmd.exe` does not pass on unchanged.
const CMD_SPECIAL: [char; 9] = ['&', '|', '<', '>', '^', '%', '"', '\n', '\r'];

/// The engine for a Chromium that greenroom starts; [`connect_to`] adds its address.
pub(super) fn for_chromium(options: &EngineOptions) -> Result<ProcessSpec, StartError> {
    let mut spec = options.node(&install::PLAYWRIGHT)?.args(["--idle-timeout", "0"]);
    if options.pool.isolated {
        spec = add_context_options(spec.arg("--isolated"), options);
    }
    Ok(add_shared_options(spec, options))
}

/// Makes the engine attach to a browser.
pub(super) fn connect_to(spec: ProcessSpec, browser: &BrowserHandle) -> ProcessSpec {
    spec.env(CDP_ENDPOINT, browser.address())
}

/// The engine that starts its browser itself, with all of its traffic through `proxy`.
pub(super) fn starting_browser(
    options: &EngineOptions,
    proxy: SocketAddr,
) -> Result<ProcessSpec, StartError> {
    let mut spec = if options.pool.wsl_windows {
        npx_on_windows(options)?
    } else {
        options.node(&install::PLAYWRIGHT)?
    };
    spec = spec.args(["--idle-timeout", "0"]);
    if let Some(name) = browser_name(options.pool.browser) {
        spec = spec.args(["--browser", name]);
    }
    if options.pool.extension {
        // The user's own browser: it already has its windows, its profile and its network settings.
        spec = spec.arg("--extension");
        if let Some(folder) = &options.profile {
            spec = spec.arg("--user-data-dir").arg(folder);
        }
    } else {
        if options.pool.headless {
            spec = spec.arg("--headless");
        }
        if options.pool.no_sandbox == Some(true) {
            spec = spec.arg("--no-sandbox");
        }
        if options.pool.isolated {
            spec = spec.arg("--isolated");
        } else if let Some(folder) = &options.profile {
            spec = spec.arg("--user-data-dir").arg(folder);
        }
        // The engine sends loopback through the proxy as well, by default.
        spec = add_context_options(spec.arg("--proxy-server").arg(format!("http://{proxy}")), options);
    }
    if let Some(path) = &options.pool.executable_path {
        spec = spec.arg("--executable-path").arg(path);
    }
    let spec = add_shared_options(spec, options);
    if options.pool.wsl_windows { check_for_cmd(spec) } else { Ok(spec) }
}

/// The same version from npm, on Windows.
fn npx_on_windows(options: &EngineOptions) -> Result<ProcessSpec, StartError> {
    let cmd = node::on_path(CMD, &options.install_paths.search_path).ok_or_else(|| {
        StartError::new(format!("Windows cannot be reached: no `{CMD}` on the search path"))
            .hint("`wsl_windows` works in the Windows Subsystem for Linux only, with `appendWindowsPath` and interop on")
    })?;
    let package = format!("@playwright/mcp@{}", install::PLAYWRIGHT.version());
    let spec = ProcessSpec::new(cmd).minimal_env().args(["/c", "npx", "-y"]).arg(package);
    let drive = Path::new(WINDOWS_DRIVE);
    Ok(if drive.is_dir() { spec.folder(drive) } else { spec })
}

fn check_for_cmd(spec: ProcessSpec) -> Result<ProcessSpec, StartError> {
    let special = |arg: &OsString| arg.to_string_lossy().contains(CMD_SPECIAL);
    match spec.args.iter().find(|arg| special(arg)) {
        Some(arg) => Err(StartError::new(format!("`{CMD}` cannot pass this on: `{}`", arg.display()))
            .hint("with `wsl_windows` no value may have one of & | < > ^ % \"")),
        None => Ok(spec),
    }
}

fn browser_name(browser: Browser) -> Option<&'static str> {
    match browser {
        Browser::Auto => None,
        Browser::HeadlessShell | Browser::Chromium => Some("chromium"),
        Browser::Chrome => Some("chrome"),
        Browser::Msedge => Some("msedge"),
        Browser::Firefox => Some("firefox"),
        Browser::Webkit => Some("webkit"),
    }
}

/// Options for a context that the engine makes.
fn add_context_options(mut spec: ProcessSpec, options: &EngineOptions) -> ProcessSpec {
    let Viewport { width, height } = options.pool.viewport_size;
    match &options.pool.device {
        Some(device) => spec = spec.arg("--device").arg(device),
        None => spec = spec.arg("--viewport-size").arg(format!("{width}x{height}")),
    }
    if let Some(user_agent) = &options.pool.user_agent {
        spec = spec.arg("--user-agent").arg(user_agent);
    }
    if options.pool.ignore_https_errors {
        spec = spec.arg("--ignore-https-errors");
    }
    if let Some(path) = options.pool.storage_state.as_ref().filter(|_| options.pool.isolated) {
        spec = spec.arg("--storage-state").arg(absolute(path, options));
    }
    spec
}

/// The engine has another working directory than greenroom.
fn absolute(path: &Path, options: &EngineOptions) -> PathBuf {
    if options.pool.wsl_windows {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Options that do not depend on who starts the browser.
fn add_shared_options(mut spec: ProcessSpec, options: &EngineOptions) -> ProcessSpec {
    for (flag, value) in [
        ("--timeout-action", options.pool.timeout_action),
        ("--timeout-navigation", options.pool.timeout_navigation),
    ] {
        if let Some(value) = value {
            spec = spec.arg(flag).arg(value.as_millis().to_string());
        }
    }
    let caps: Vec<String> = options.pool.caps.iter().map(ToString::to_string).collect();
    for (flag, values, between) in [
        ("--caps", &caps, ","),
        ("--allowed-origins", &options.pool.allowed_origins, ";"),
        ("--blocked-origins", &options.pool.blocked_origins, ";"),
    ] {
        if !values.is_empty() {
            spec = spec.arg(flag).arg(values.join(between));
        }
    }
    for script in &options.pool.init_script {
        spec = spec.arg("--init-script").arg(absolute(script, options));
    }
    // The engine's own default needs no flag.
    if options.pool.image_responses != ImageResponses::Allow {
        spec = spec.arg("--image-responses").arg(options.pool.image_responses.as_str());
    }
    if options.pool.save_session {
        spec = spec.arg("--save-session");
    }
    if let Some(name) = &options.pool.test_id_attribute {
        spec = spec.arg("--test-id-attribute").arg(name);
    }
    if options.pool.snapshot_boxes {
        spec = spec.arg("--snapshot-boxes");
    }
    if options.pool.codegen != Codegen::Typescript {
        spec = spec.arg("--codegen").arg(options.pool.codegen.as_str());
    }
    if let Some(path) = &options.pool.secrets_file {
        spec = spec.arg("--secrets").arg(absolute(path, options));
    }
    if !options.settings.tools.webmcp {
        spec = spec.arg("--no-webmcp");
    }
    // The engine logs all levels, and greenroom keeps them; agents see only those that the engine would log by default.
    spec.args(["--console-level", "debug"])
}

#[cfg(test)]
mod tests;
