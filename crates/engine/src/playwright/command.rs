//! The engine's command lines. What an option is called there, and where it has no effect, is known here only.
//!
//! The engine sets user agent, viewport and the like on contexts that it makes. In a browser's default context it
//! leaves all as it is, so these are the browser's own flags there (see [`crate::chromium`]), and are not given to the
//! engine.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use greenroom_core::{
    StartError,
    settings::{Browser, Codegen, ImageResponses, Viewport},
};

use crate::{EngineOptions, browser_handle::Driven, install, launcher::Spec, node};

/// The engine would take the address on its command line too, but refuses to emulate a device there.
const CDP_ENDPOINT: &str = "PLAYWRIGHT_MCP_CDP_ENDPOINT";

/// What starts Windows programs from the Linux in it.
const CMD: &str = "cmd.exe";

/// Where the drive of Windows usually is. Started elsewhere, `cmd.exe` complains on stdout, which is the protocol's.
const WINDOWS_DRIVE: &str = "/mnt/c";

/// What `cmd.exe` does not pass on as it is.
const CMD_SPECIAL: [char; 9] = ['&', '|', '<', '>', '^', '%', '"', '\n', '\r'];

/// The engine for a Chromium that greenroom starts; [`attach`] tells it which.
pub(super) fn attached(options: &EngineOptions) -> Result<Spec, StartError> {
    let mut spec = options.node(&install::PLAYWRIGHT)?.args(["--idle-timeout", "0"]);
    if options.pool.isolated {
        spec = context(spec.arg("--isolated"), options);
    }
    Ok(shared(spec, options))
}

/// Has the engine attach to a browser.
pub(super) fn attach(spec: Spec, browser: &Driven) -> Spec {
    spec.env(CDP_ENDPOINT, browser.address())
}

/// The engine that starts its browser itself, with everything that goes out through `proxy`.
pub(super) fn starting(options: &EngineOptions, proxy: SocketAddr) -> Result<Spec, StartError> {
    let mut spec =
        if options.pool.wsl_windows { windows(options)? } else { options.node(&install::PLAYWRIGHT)? };
    spec = spec.args(["--idle-timeout", "0"]);
    if let Some(name) = browser_name(options.pool.browser) {
        spec = spec.args(["--browser", name]);
    }
    if options.pool.extension {
        // The user's own browser: it has its windows, its profile and its way to the network already.
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
        // The engine sends loopback through the proxy as well, unless told otherwise.
        spec = context(spec.arg("--proxy-server").arg(format!("http://{proxy}")), options);
    }
    if let Some(path) = &options.pool.executable_path {
        spec = spec.arg("--executable-path").arg(path);
    }
    let spec = shared(spec, options);
    if options.pool.wsl_windows { for_cmd(spec) } else { Ok(spec) }
}

/// The same version from npm, on Windows.
fn windows(options: &EngineOptions) -> Result<Spec, StartError> {
    let cmd = node::on_path(CMD, &options.places.search_path).ok_or_else(|| {
        StartError::new(format!("Windows cannot be reached: no `{CMD}` on the search path"))
            .hint("`wsl_windows` works in the Windows Subsystem for Linux only, with `appendWindowsPath` and interop on")
    })?;
    let package = format!("@playwright/mcp@{}", install::PLAYWRIGHT.version());
    let spec = Spec::new(cmd).few_variables().args(["/c", "npx", "-y"]).arg(package);
    let drive = Path::new(WINDOWS_DRIVE);
    Ok(if drive.is_dir() { spec.folder(drive) } else { spec })
}

fn for_cmd(spec: Spec) -> Result<Spec, StartError> {
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

/// What the engine sets on a context that it makes.
fn context(mut spec: Spec, options: &EngineOptions) -> Spec {
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

/// The engine's working directory is another than greenroom's.
fn absolute(path: &Path, options: &EngineOptions) -> PathBuf {
    if options.pool.wsl_windows {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What is the same wherever the browser comes from.
fn shared(mut spec: Spec, options: &EngineOptions) -> Spec {
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
    // What is the engine's own default need not be said.
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
    // All levels are written down and kept; of these, agents are shown what the engine would show by itself.
    spec.args(["--console-level", "debug"])
}

#[cfg(test)]
mod tests;
